// The field for messages, and its button, which sends or stops.

import { byId, icon } from "./dom.js";
import { readDraft, writeDraft } from "./store.js";

const MAX_HEIGHT_PIXELS = 240;

export class Composer {
  /// `actions`: { send(text): whether it was taken, stop() }
  constructor(actions) {
    this.actions = actions;
    this.field = byId("input");
    this.button = byId("send");
    this.draftOf = "";
    this.isRunning = false;
    this.field.addEventListener("input", () => {
      this.fit();
      writeDraft(this.draftOf, this.field.value);
    });
    this.field.addEventListener("keydown", (event) => this.key(event));
    this.button.addEventListener("click", () => (this.isRunning ? actions.stop() : this.send()));
  }

  key(event) {
    // On a screen keyboard there is no Shift+Enter: there Enter begins a line, and the button sends.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || matchMedia("(pointer: coarse)").matches) return;
    event.preventDefault();
    if (!this.isRunning) this.send();
  }

  send() {
    const text = this.field.value;
    const draftOf = this.draftOf; // sending the first message changes it
    if (text.trim() === "" || !this.actions.send(text)) return;
    this.fill("");
    writeDraft(draftOf, "");
  }

  fill(text) {
    this.field.value = text;
    this.fit();
  }

  /// Shows the draft of a conversation.
  show(id) {
    this.draftOf = id;
    this.fill(readDraft(id));
  }

  /// As high as its text, up to a limit.
  fit() {
    this.field.style.height = "auto";
    this.field.style.height = `${Math.min(MAX_HEIGHT_PIXELS, this.field.scrollHeight)}px`;
  }

  setRunning(isRunning) {
    this.isRunning = isRunning;
    this.button.setAttribute("aria-label", isRunning ? "Stop the reply" : "Send");
    this.button.title = isRunning ? "Stop (Escape)" : "Send (Enter)";
    this.button.replaceChildren(icon(isRunning ? "stop" : "send"));
  }
}
