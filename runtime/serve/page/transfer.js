// Conversations as a file: export, and import, which takes nothing for granted.

import { newId, ROOT } from "./tree.js";

const FORMAT = "moert-conversations";
const VERSION = 1;
const MAX_BYTES = 256 << 20;

export const exportText = (conversations) => JSON.stringify({ format: FORMAT, version: VERSION, conversations }, null, 1);

export function download(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/// The conversations of a file that was picked; throws an Error that says what is wrong with it.
export async function readFile(file) {
  if (file.size > MAX_BYTES) throw new Error(`${file.name} is larger than ${MAX_BYTES >> 20} MiB`);
  let content;
  try {
    content = JSON.parse(await file.text());
  } catch {
    throw new Error(`${file.name} is not JSON; choose a file that this page exported`);
  }
  if (content?.format !== FORMAT || !Array.isArray(content.conversations)) throw new Error(`${file.name} holds no conversations of this page`);
  if (content.version !== VERSION) throw new Error(`${file.name} has version ${content.version} of the format; this page reads version ${VERSION}`);
  return content.conversations.map((conversation, index) => checked(conversation, `${file.name}, conversation ${index + 1}`));
}

const textOf = (value) => (typeof value === "string" ? value : "");
const timeOf = (value) => (Number.isFinite(value) ? value : Date.now());

/// A copy with known fields only, each of its type.
function checked(conversation, place) {
  if (!Array.isArray(conversation?.messages)) throw new Error(`${place} has no messages`);
  const known = new Set([ROOT]);
  const messages = conversation.messages.map((message, index) => {
    const { id, parent, role, content } = message ?? {};
    const where = `${place}, message ${index + 1}`;
    if (typeof id !== "string" || id === ROOT || known.has(id)) throw new Error(`${where} has no id of its own`);
    // Messages come after what they answer, so that there are no circles.
    if (!known.has(parent)) throw new Error(`${where} answers a message that is not before it`);
    if (role !== "user" && role !== "assistant") throw new Error(`${where} has an unknown role`);
    if (typeof content !== "string") throw new Error(`${where} has no text`);
    known.add(id);
    return { id, parent, role, content, created: timeOf(message.created), ...details(message) };
  });
  const choice = Object.fromEntries(Object.entries(conversation.choice ?? {}).filter(([parent, child]) => known.has(parent) && known.has(child)));
  return { id: textOf(conversation.id) || newId(), title: textOf(conversation.title), created: timeOf(conversation.created), updated: timeOf(conversation.updated),
    system: textOf(conversation.system), messages, choice };
}

function details({ reasoning, model, cost, finish, thoughtMilliseconds, contextTokens }) {
  return {
    ...(typeof reasoning === "string" ? { reasoning } : {}),
    ...(typeof model === "string" ? { model } : {}),
    ...(typeof cost === "string" ? { cost } : {}),
    ...(typeof finish === "string" ? { finish: finish === "running" ? "interrupted" : finish } : {}),
    ...(Number.isFinite(contextTokens) ? { contextTokens } : {}),
    ...(Number.isFinite(thoughtMilliseconds) ? { thoughtMilliseconds } : {}),
  };
}

/// What of `imported` is new. A conversation that is there already in another form comes in as a copy.
export function additions(present, imported) {
  const byId = new Map(present.map((conversation) => [conversation.id, conversation]));
  return imported
    .filter((conversation) => JSON.stringify(byId.get(conversation.id)?.messages.map(identity)) !== JSON.stringify(conversation.messages.map(identity)))
    .map((conversation) => (byId.has(conversation.id) ? { ...conversation, id: newId() } : conversation));
}

const identity = ({ id, content }) => [id, content];
