// Makes elements. Text is always text: nothing here parses HTML.

/// An element with attributes; a function is a listener, `true` an attribute without a value, and
/// null, undefined and false leave it out.
export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(key, value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

export const byId = (id) => document.getElementById(id);

/// One of the symbols in index.html, which a screen reader skips.
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#icon-${name}`);
  svg.append(use);
  return svg;
}

/// A quiet button of a message or of a row in a list.
export function action(label, iconName, click, attributes = {}) {
  return el("button", { type: "button", class: "action", "aria-label": label, title: label, click, ...attributes }, icon(iconName));
}

/// Tells screen readers, politely; the same text twice is said twice.
export function announce(text) {
  const region = byId("announcer");
  region.textContent = region.textContent === text ? `${text}\u00a0` : text;
}

const NOTICE_MILLISECONDS = 8000;
let noticeTimer = 0;

/// Shows a line at the bottom for a while, possibly with a button, and says it.
export function notify(text, buttonLabel = "", click = null) {
  const notice = byId("notice");
  const close = () => { notice.hidden = true; notice.replaceChildren(); };
  notice.replaceChildren(el("span", {}, text), buttonLabel === "" ? "" : el("button", { type: "button", click: () => { close(); click(); } }, buttonLabel));
  notice.hidden = false;
  announce(buttonLabel === "" ? text : `${text} There is a button: ${buttonLabel}.`);
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(close, NOTICE_MILLISECONDS);
}

/// Works without the clipboard's interface too, which pages have on https and localhost only.
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const holder = el("textarea", { class: "offscreen", readonly: true, "aria-hidden": "true" });
    holder.value = text;
    document.body.append(holder);
    const focused = document.activeElement;
    holder.select();
    const copied = document.execCommand("copy");
    holder.remove();
    focused?.focus();
    return copied;
  }
}

/// A button that copies what `text` returns, and says that it did.
export function copyButton(label, text) {
  const button = action(label, "copy", async () => {
    const copied = await copyText(text());
    announce(copied ? "Copied" : "The browser does not allow copying");
    if (!copied) return;
    button.replaceChildren(icon("check"));
    setTimeout(() => button.replaceChildren(icon("copy")), 1500);
  });
  return button;
}
