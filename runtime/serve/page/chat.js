// What can be done with conversations: send, stop, regenerate, edit, keep. Knows nothing of the page.

import { Run } from "./run.js";
import { addMessage, pathOf, promptMessages, removeMessage, ROOT, showSibling } from "./tree.js";

export class Chat {
  /// `on`: { onChange(conversation): its path or its runs have changed, onEnd(conversation, message): a reply has
  /// ended, onReplaced(old, kept): another tab has changed it, or removed it, onSaveError(error) }
  constructor(server, store, settings, on) {
    Object.assign(this, { server, store, settings, ...on });
    this.conversations = [];
    this.runs = new Map(); // message -> the run that fills it
  }

  async load() {
    this.conversations = await this.store.all();
    for (const conversation of this.conversations)
      for (const message of conversation.messages)
        if (message.finish === "running") message.finish = "interrupted";
    this.store.onOther((id) => this.takeFromOther(id));
  }

  /// Another tab has changed a conversation: what it kept replaces what is here.
  async takeFromOther(id) {
    const old = this.conversations.find((conversation) => conversation.id === id);
    if (old && this.runOf(old)) return; // the end of the reply will be kept
    const kept = await this.store.get(id).catch(() => undefined);
    this.conversations = this.conversations.filter((conversation) => conversation !== old);
    if (kept) this.conversations.push(kept);
    this.onReplaced(old, kept);
  }

  runOf(conversation) {
    return [...this.runs.values()].find((run) => run.conversation === conversation);
  }

  /// `isWhole`: not in the middle of a reply, so that other tabs may show it.
  async save(conversation, isWhole = true) {
    if (!this.conversations.includes(conversation)) return; // it was deleted while a reply was on its way
    try {
      await this.store.put(conversation);
      if (isWhole) this.store.tell(conversation.id);
    } catch (error) {
      this.onSaveError(error);
    }
  }

  send(conversation, text) {
    if (!this.conversations.includes(conversation)) this.conversations.push(conversation);
    const last = pathOf(conversation).at(-1);
    this.reply(conversation, addMessage(conversation, last?.id ?? ROOT, "user", text));
  }

  /// The edited message is a sibling of the old one, which stays.
  edit(conversation, message, text) {
    this.reply(conversation, addMessage(conversation, message.parent, "user", text));
  }

  regenerate(conversation, message) {
    this.reply(conversation, conversation.messages.find((other) => other.id === message.parent));
  }

  /// Replaces a reply that failed before it had any text, and keeps others.
  retry(conversation, message) {
    if (message.content === "" && !message.reasoning) removeMessage(conversation, message);
    this.regenerate(conversation, message);
  }

  async reply(conversation, question) {
    this.stop(conversation);
    const message = Object.assign(addMessage(conversation, question.id, "assistant", ""), { model: this.settings.model });
    const { model, parameters } = this.settings;
    const request = { ...(model ? { model } : {}), messages: promptMessages(conversation, question), ...parameters };
    const run = new Run(this.server, conversation, message, request, (isWhole) => this.save(conversation, isWhole));
    this.runs.set(message, run);
    const end = run.finish();
    this.onChange(conversation);
    await end;
    this.runs.delete(message);
    this.onChange(conversation);
    this.onEnd(conversation, message);
  }

  stop(conversation) {
    this.runOf(conversation)?.stop();
  }

  showSibling(conversation, message, step) {
    showSibling(conversation, message, step);
    this.save(conversation);
    this.onChange(conversation);
  }

  rename(conversation, title) {
    conversation.title = title;
    this.save(conversation);
    this.onChange(conversation);
  }

  /// Returns a function that brings it back.
  remove(conversation) {
    this.stop(conversation);
    this.conversations = this.conversations.filter((other) => other !== conversation);
    this.store.remove(conversation.id).then(() => this.store.tell(conversation.id), (error) => this.onSaveError(error));
    return () => this.add([conversation]);
  }

  async add(conversations) {
    this.conversations.push(...conversations);
    for (const conversation of conversations) await this.save(conversation);
  }
}
