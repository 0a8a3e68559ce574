// The list of conversations. On a phone it is a drawer.

import { action, byId, el } from "./dom.js";
import { dayName } from "./format.js";

export class Sidebar {
  /// `actions`: { open(conversation), rename(conversation, title), remove(conversation) }
  constructor(actions) {
    this.actions = actions;
    this.list = byId("conversations");
    this.toggle = byId("menu");
    this.toggle.addEventListener("click", () => this.setOpen(!this.isOpen));
    byId("shade").addEventListener("click", () => this.setOpen(false));
  }

  get isOpen() {
    return document.body.classList.contains("drawer-open");
  }

  setOpen(isOpen) {
    document.body.classList.toggle("drawer-open", isOpen);
    this.toggle.setAttribute("aria-expanded", String(isOpen));
    byId("shade").hidden = !isOpen;
    byId("main").inert = isOpen;
    if (isOpen) byId("new-chat").focus();
    else if (byId("sidebar").contains(document.activeElement)) this.toggle.focus();
  }

  show(conversations, shown) {
    if (this.list.querySelector("input")) return; // a name is being typed; the end of that shows the list
    const focused = this.list.contains(document.activeElement) ? document.activeElement.dataset.button : undefined;
    const newest = conversations.filter((conversation) => conversation.messages.length > 0).sort((a, b) => b.updated - a.updated);
    const groups = new Map();
    for (const conversation of newest) {
      const day = dayName(conversation.updated);
      groups.set(day, [...(groups.get(day) ?? []), this.row(conversation, conversation === shown)]);
    }
    const sections = [...groups].map(([day, rows]) => el("section", { "aria-label": day }, el("h3", {}, day), el("ul", {}, ...rows)));
    this.list.replaceChildren(...(sections.length > 0 ? sections : [el("p", { class: "hint" }, "Conversations appear here. They stay in this browser.")]));
    if (focused) (this.list.querySelector(`[data-button="${CSS.escape(focused)}"]`) ?? byId("new-chat")).focus();
  }

  row(conversation, isShown) {
    const title = conversation.title || "New chat";
    // By which a button is found again when the list is made anew.
    const named = (name) => ({ "data-button": `${name} ${conversation.id}` });
    const current = isShown ? { "aria-current": "true" } : {};
    const open = el("button", { type: "button", class: "title", title, click: () => this.actions.open(conversation), ...current, ...named("open") }, title);
    const row = el("li", { class: isShown ? "shown" : "" }, open,
      action(`Rename “${title}”`, "edit", () => this.rename(conversation, row), named("rename")),
      action(`Delete “${title}”`, "delete", () => this.actions.remove(conversation), named("delete")));
    return row;
  }

  rename(conversation, row) {
    const field = el("input", { type: "text", "aria-label": "Name of the conversation", maxlength: "200" });
    field.value = conversation.title;
    let isDone = false;
    const finish = (title) => {
      if (isDone) return;
      isDone = true;
      const hadFocus = field === document.activeElement;
      field.remove();
      this.actions.rename(conversation, title);
      if (hadFocus) this.list.querySelector(`[data-button="${CSS.escape(`open ${conversation.id}`)}"]`)?.focus();
    };
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") finish(field.value.trim() || conversation.title);
      if (event.key !== "Escape") return;
      event.stopPropagation();
      finish(conversation.title);
    });
    field.addEventListener("blur", () => finish(field.value.trim() || conversation.title));
    row.replaceChildren(field);
    field.select();
  }
}
