// Puts the page together.

import { Chat } from "./chat.js";
import { Composer } from "./composer.js";
import { announce, byId, el, notify } from "./dom.js";
import { counted, short } from "./format.js";
import { Server } from "./server.js";
import { applyTheme, askKey, SettingsDialog } from "./settings.js";
import { Sidebar } from "./sidebar.js";
import { ServerStatus } from "./status.js";
import { Conversations, readKey, readSettings, readShown, writeSettings, writeShown } from "./store.js";
import { Thread } from "./thread.js";
import { additions, download, exportText, readFile } from "./transfer.js";
import { newConversation, pathOf } from "./tree.js";

const settings = readSettings();
applyTheme(settings.theme);
const server = new Server(readKey);
const store = await Conversations.open();
const chat = new Chat(server, store, settings, { onChange: refresh, onEnd: ended, onReplaced: replaced, onSaveError: saveFailed });
await chat.load();

let shown = newConversation(settings.system);
let contextTokens = 0; // that a conversation may have; 0: not known

const thread = new Thread({
  edit: (message, text) => chat.edit(shown, message, text),
  regenerate: (message) => chat.regenerate(shown, message),
  retry: (message) => chat.retry(shown, message),
  showSibling: (message, step) => chat.showSibling(shown, message, step),
}, (message) => chat.runs.get(message));
const sidebar = new Sidebar({ open, rename: (conversation, title) => chat.rename(conversation, title), remove });
const composer = new Composer({
  send: (text) => {
    if (chat.runOf(shown)) return false;
    chat.send(shown, text);
    writeShown(shown.id);
    thread.scrollToEnd();
    announce("The reply is on its way");
    return true;
  },
  stop: () => chat.stop(shown),
});
const dialog = new SettingsDialog(settings, {
  onSystem: (text) => {
    shown.system = text;
    chat.save(shown);
  },
  onKey: () => status.watch(),
});
const status = new ServerStatus(server, ready);

function open(conversation) {
  show(conversation);
  sidebar.setOpen(false);
}

function show(conversation) {
  shown = conversation;
  writeShown(conversation.messages.length > 0 ? conversation.id : "");
  composer.show(conversation.messages.length > 0 ? conversation.id : "new");
  dialog.show(conversation.system);
  refresh(conversation);
}

function startNew() {
  open(newConversation(settings.system));
  composer.field.focus();
}

/// Shows what has changed of a conversation.
function refresh(conversation) {
  sidebar.show(chat.conversations, shown);
  if (conversation !== shown) return;
  composer.draftOf = shown.messages.length > 0 ? shown.id : "new";
  thread.show(shown);
  composer.setRunning(chat.runOf(shown) !== undefined);
  document.title = shown.title === "" ? "moert" : `${shown.title} – moert`;
  showContext();
}

function showContext() {
  const used = pathOf(shown).findLast((message) => message.contextTokens)?.contextTokens;
  const room = contextTokens > 0 ? ` of ${short(contextTokens)}` : "";
  byId("context").textContent = used ? `${short(used)}${room} tokens of context used` : "";
}

async function ended(conversation, message) {
  if (message.error?.kind === "key" && (await askKey())) {
    status.watch();
    chat.retry(conversation, message);
  } else if (message.error?.kind === "loading" || message.error?.kind === "unreachable") {
    status.watch();
  } else if (conversation === shown && message.finish !== "error") {
    announce(message.finish === "stopped" ? "The reply was stopped" : `The reply is complete. ${message.cost}`);
  }
}

function replaced(old, kept) {
  if (old !== shown) refresh(shown);
  else if (kept) show(kept);
  else startNew();
}

function saveFailed(error) {
  notify(`This browser could not keep the conversation: ${error.message}. Export it before you close the page.`);
}

function remove(conversation) {
  const undo = chat.remove(conversation);
  if (conversation === shown) startNew();
  else refresh(shown);
  notify(`“${conversation.title}” was deleted.`, "Undo", async () => {
    await undo();
    open(conversation);
  });
}

/// The server answers: asks it what it serves.
async function ready() {
  try {
    showModels(await server.models());
  } catch (error) {
    if (error.kind === "key" && (await askKey())) status.watch();
    else if (error.kind !== "key") notify(error.message);
    return;
  }
  const props = await server.props();
  contextTokens = props.default_generation_settings?.n_ctx ?? props.n_ctx ?? 0;
  dialog.showDefaults(props.default_generation_settings?.params ?? props.default_generation_settings);
  byId("empty-context").textContent = contextTokens > 0 ? `It reads and writes up to ${counted(contextTokens, "token")} in a conversation.` : "";
  showContext();
  byId("placement").hidden = !(await server.hasPlacement());
}

function showModels(models) {
  if (!models.includes(settings.model)) settings.model = models[0] ?? "";
  const choice = byId("model");
  choice.replaceChildren(...models.map((model) => el("option", { value: model }, model)));
  choice.value = settings.model;
  choice.hidden = models.length < 2;
  byId("model-name").hidden = models.length > 1;
  byId("model-name").textContent = settings.model;
  byId("empty-model").textContent = settings.model || "A new conversation";
}

async function importFile(file) {
  try {
    const added = additions(chat.conversations, await readFile(file));
    await chat.add(added);
    refresh(shown);
    notify(added.length > 0 ? `${counted(added.length, "conversation")} imported.` : "All conversations of this file are here already.");
  } catch (error) {
    notify(`Nothing was imported: ${error.message}.`);
  }
}

byId("model").addEventListener("change", (event) => {
  settings.model = event.target.value;
  byId("empty-model").textContent = settings.model;
  writeSettings(settings);
});
byId("new-chat").addEventListener("click", startNew);
byId("export").addEventListener("click", () => download(`moert-conversations-${new Date().toISOString().slice(0, 10)}.json`, exportText(chat.conversations)));
byId("import").addEventListener("click", () => byId("import-file").click());
byId("import-file").addEventListener("change", async (event) => {
  const [file] = event.target.files;
  if (file) await importFile(file);
  event.target.value = "";
});
for (const example of document.querySelectorAll("#examples button")) {
  example.addEventListener("click", () => {
    composer.fill(example.textContent);
    composer.field.focus();
  });
}
document.addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]")) return;
  if (event.key === "k" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey) {
    event.preventDefault();
    startNew();
  } else if (event.key === "Escape" && sidebar.isOpen) {
    sidebar.setOpen(false);
  } else if (event.key === "Escape") {
    chat.stop(shown);
  }
});
addEventListener("pagehide", () => {
  for (const run of chat.runs.values()) chat.save(run.conversation, false);
});

open(chat.conversations.find((conversation) => conversation.id === readShown()) ?? shown);
if (!store.isKept) notify("This browser keeps no data for this page: conversations are lost when it is closed. Export those that you want to keep.");
if (!matchMedia("(pointer: coarse)").matches) composer.field.focus();
status.watch();
