// One message on the page.

import { action, copyButton, el } from "./dom.js";
import { duration } from "./format.js";
import { GrowingMarkdown } from "./markdown.js";
import { placeOf } from "./tree.js";

const HINTS = {
  length: "The reply reached the limit of tokens. Raise it in the settings, or ask to go on.",
  stopped: "Stopped.",
  interrupted: "The page was closed before the reply ended.",
};
const ADVICE = {
  context: "Start a new chat, or edit an earlier message to continue from there.",
  busy: "The server has more requests than it can take. Try again in a moment.",
  loading: "The server is still loading the model. Try again when it is ready.",
  key: "The server asks for an API key.",
};

/// `actions`: { edit(message, text), regenerate(message), showSibling(message, step), retry(message) }
export class MessageView {
  constructor(conversation, message, actions, run) {
    Object.assign(this, { conversation, message, actions });
    this.frame = 0;
    this.nextShow = 0;
    this.body = el("div", { class: "body" });
    this.notes = el("div", { class: "notes" });
    this.footer = el("footer", {});
    const label = message.role === "user" ? "You" : message.model || "Reply";
    const heading = el("h3", { class: "offscreen" }, label);
    this.element = el("article", { class: `message ${message.role}`, "aria-label": label }, heading, this.body, this.notes, this.footer);
    if (message.role === "user") this.body.append(message.content);
    else this.fillReply(run);
    if (!run) this.fillFooter();
  }

  fillReply(run) {
    const { message } = this;
    this.content = new GrowingMarkdown(this.body);
    this.content.append(message.content);
    if (message.reasoning) this.appendReasoning(message.reasoning);
    if (run) {
      run.view = this;
      this.element.setAttribute("aria-busy", "true");
      this.body.append(this.waiting = el("span", { class: "waiting", role: "img", "aria-label": "The reply is on its way" }));
    }
    this.show(!run);
    if (!run) this.fillNotes();
  }

  appendReasoning(text) {
    if (!this.reasoning) {
      const inner = el("div", { class: "reasoning-text" });
      this.summary = el("summary", {}, "Thinking…");
      this.element.insertBefore(el("details", { class: "reasoning" }, this.summary, inner), this.body);
      this.reasoning = new GrowingMarkdown(inner);
    }
    this.reasoning.append(text);
    this.showSoon();
  }

  appendContent(text) {
    this.content.append(text);
    this.showSoon();
  }

  /// Once per frame, and less often when showing takes long, so that the page stays responsive.
  showSoon() {
    this.frame ||= requestAnimationFrame((now) => {
      this.frame = 0;
      if (now < this.nextShow) return this.showSoon();
      this.show(false);
      this.nextShow = performance.now() + 3 * (performance.now() - now);
    });
  }

  show(isEnd) {
    this.reasoning?.show(isEnd || this.message.content !== "");
    this.content.show(isEnd);
    if (this.waiting && this.message.content !== "") this.waiting.remove();
    if (this.reasoning) {
      const { content, thoughtMilliseconds } = this.message;
      const isThinking = !isEnd && content === "";
      this.summary.textContent = isThinking ? "Thinking…" : thoughtMilliseconds >= 1000 ? `Thought for ${duration(thoughtMilliseconds)}` : "Thoughts";
    }
  }

  /// The reply is complete.
  end() {
    cancelAnimationFrame(this.frame);
    this.waiting?.remove();
    this.element.removeAttribute("aria-busy");
    this.show(true);
    this.fillNotes();
    this.fillFooter();
  }

  fillNotes() {
    const { finish, error, content } = this.message;
    if (finish === "error" && error) {
      const box = el("div", { class: "error", role: "alert" }, el("p", {}, error.text));
      if (ADVICE[error.kind]) box.append(el("p", {}, ADVICE[error.kind]));
      if (error.kind !== "context") box.append(el("button", { type: "button", click: () => this.actions.retry(this.message) }, "Try again"));
      this.notes.append(box);
    } else if (HINTS[finish]) {
      this.notes.append(el("p", { class: "hint" }, HINTS[finish]));
    } else if (content === "") {
      this.notes.append(el("p", { class: "hint" }, "The model ended its reply without any text."));
    }
  }

  fillFooter() {
    const { message, conversation, actions } = this;
    const { index, count } = placeOf(conversation, message);
    if (count > 1) {
      const step = (by, label, name, isOff) => action(label, name, () => actions.showSibling(message, by), { disabled: isOff });
      this.footer.append(el("span", { class: "versions" }, step(-1, "Version before", "left", index === 0),
        el("span", {}, el("span", { class: "offscreen" }, "Version "), `${index + 1} / ${count}`), step(1, "Next version", "right", index === count - 1)));
    }
    if (message.content !== "") this.footer.append(copyButton("Copy the message", () => message.content));
    if (message.role === "user") this.footer.append(action("Edit", "edit", () => this.edit()));
    else this.footer.append(action("Regenerate", "again", () => actions.regenerate(message)));
    if (message.cost) this.footer.append(el("span", { class: "cost" }, message.cost));
  }

  /// Puts a field in the place of the text. Sending it begins a branch.
  edit() {
    const field = el("textarea", { "aria-label": "Edit the message", rows: String(Math.min(12, this.message.content.split("\n").length + 1)) });
    field.value = this.message.content;
    const close = () => {
      form.replaceWith(this.body);
      this.footer.hidden = false;
      this.footer.querySelector("[aria-label=Edit]").focus();
    };
    const send = () => field.value.trim() !== "" && this.actions.edit(this.message, field.value);
    const form = el("div", { class: "editor" }, field, el("div", { class: "buttons" },
      el("button", { type: "button", click: close }, "Cancel"), el("button", { type: "button", class: "primary", click: send }, "Send")));
    form.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        event.stopPropagation();
        close();
      } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.target === field) {
        event.preventDefault();
        send();
      }
    });
    this.body.replaceWith(form);
    this.footer.hidden = true;
    field.focus();
  }
}
