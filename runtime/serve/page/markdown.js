// Turns blocks of Markdown into elements, whole or while the text grows.

import { parseBlocks } from "./blocks.js";
import { codeBlock } from "./code.js";
import { el } from "./dom.js";
import { appendInline } from "./inline.js";
import { formula } from "./math.js";

// Headings of a reply are below those of the page, which ends at h3.
const HEADING_SHIFT = 3;

export const renderMarkdown = (text) => parseBlocks(text).map(render);

function withInline(name, text, attributes = {}) {
  const element = el(name, attributes);
  appendInline(element, text);
  return element;
}

function render(block) {
  switch (block.kind) {
    case "paragraph": return withInline("p", block.text);
    case "heading": return withInline(`h${Math.min(6, block.level + HEADING_SHIFT)}`, block.text, { class: `level-${block.level}` });
    case "rule": return el("hr");
    case "code": return codeBlock(block);
    case "math": return formula(block.text, true);
    case "openMath": return el("p", { class: "formula" }, el("code", {}, block.text));
    case "quote": return el("blockquote", {}, ...block.blocks.map(render));
    case "list": return renderList(block);
    case "table": return renderTable(block);
  }
}

function renderList({ isOrdered, first, isLoose, items }) {
  const list = el(isOrdered ? "ol" : "ul", isOrdered && first !== 1 ? { start: first } : {});
  list.append(...items.map((blocks) => renderItem(blocks, isLoose)));
  return list;
}

function renderItem(blocks, isLoose) {
  const item = el("li");
  for (const [index, block] of blocks.entries()) {
    const task = index === 0 && block.kind === "paragraph" ? /^\[([ xX])\] /.exec(block.text) : null;
    const text = task ? block.text.slice(4) : block.text;
    if (task) {
      item.className = "task";
      item.append(el("input", { type: "checkbox", disabled: true, checked: task[1] !== " ", "aria-label": task[1] === " " ? "Open" : "Done" }), " ");
    }
    if (block.kind === "paragraph" && !isLoose) item.append(withInline("span", text));
    else if (block.kind === "paragraph") item.append(withInline("p", text));
    else item.append(render(block));
  }
  return item;
}

function renderTable({ align, head, rows }) {
  const row = (cells, name, scope) => el("tr", {}, ...cells.map((cell, index) => withInline(name, cell, { class: align[index], ...scope })));
  const table = el("table", {}, el("thead", {}, row(head, "th", { scope: "col" })), el("tbody", {}, ...rows.map((cells) => row(cells, "td", {}))));
  return el("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Table" }, table);
}

/// Markdown that grows at its end. Only its last block is made again when text arrives, and the one before it
/// while the last has less than a line, which may still turn out to continue it. Open code only gets longer.
export class GrowingMarkdown {
  constructor(parent) {
    this.parent = parent;
    this.text = "";
    this.settled = 0; // where the blocks begin that may still change
    this.unsettled = []; // their elements
    this.openCode = null; // the text node of code whose end is not there yet
  }

  append(text) {
    this.text += text;
  }

  /// Shows what was appended. `isEnd`: nothing will follow.
  show(isEnd) {
    const rest = this.text.slice(this.settled);
    const blocks = parseBlocks(rest, !isEnd);
    const final = blocks.at(-1);
    if (this.openCode !== null && !isEnd && blocks.length === 1 && final.kind === "code" && !final.isClosed && final.text.startsWith(this.openCode.data)) {
      this.openCode.appendData(final.text.slice(this.openCode.data.length));
      return;
    }
    for (const element of this.unsettled) element.remove();
    const elements = blocks.map((block) => render(isEnd && block.kind === "code" ? { ...block, isClosed: true } : block));
    this.parent.append(...elements);
    const changing = blocks.length > 1 && final.start > rest.lastIndexOf("\n") ? 2 : 1;
    this.unsettled = elements.slice(-changing);
    this.settled += blocks.at(-changing)?.start ?? 0;
    this.openCode = final?.kind === "code" && !final.isClosed && final.text !== "" ? elements.at(-1).querySelector("pre code").firstChild : null;
  }
}
