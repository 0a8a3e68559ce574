// Turns the Markdown inside of a block into nodes: text, emphasis, code, links, formulas. Whatever else the
// text contains, HTML above all, stays text.

import { el } from "./dom.js";
import { formula } from "./math.js";

const MAX_CHARACTERS = 20_000; // of a block; longer ones stay plain
const MAX_DEPTH = 12; // of emphasis in emphasis
const MAX_LINK_TEXT = 1000;
const MAX_LINK_DEPTH = 3; // links in text of links that are none

const PUNCTUATION = /[!-/:-@[-`{-~]/;
const BARE_LINK = /https?:\/\/[^\s<>"'`*|\\^{}[\]]+/y;
const SPACE = /\s/;
const WORD = /[\p{L}\p{N}]/u;

/// Appends the nodes of `text` to `parent`.
export function appendInline(parent, text, linkDepth = 0) {
  if (text.length > MAX_CHARACTERS || linkDepth > MAX_LINK_DEPTH) {
    parent.append(text);
    return;
  }
  parent.append(...emphasise(new Scanner(text, linkDepth).pieces()));
}

/// Returns the address if it is one of the web, null otherwise.
function webAddress(text) {
  try {
    const url = new URL(text);
    return url.protocol === "http:" || url.protocol === "https:" ? url.href : null;
  } catch {
    return null;
  }
}

const link = (href) => el("a", { href, title: href, target: "_blank", rel: "noopener noreferrer" });

/// Cuts text into nodes and runs of marks of emphasis: { mark, count, opens, closes }.
class Scanner {
  constructor(text, linkDepth) {
    this.text = text;
    this.linkDepth = linkDepth;
    this.at = 0;
    this.plain = "";
    this.found = [];
    this.missing = new Set(); // ends that were searched for and that the rest of the text lacks
  }

  pieces() {
    const takers = { "\\": "escape", "`": "code", "$": "dollars", "[": "link", "!": "image", "<": "angle", "h": "address", "*": "mark", "_": "mark", "~": "mark" };
    while (this.at < this.text.length) {
      const taker = takers[this.text[this.at]];
      if (!taker || !this[taker]()) this.plain += this.text[this.at++];
    }
    this.flush();
    return this.found;
  }

  flush() {
    if (this.plain !== "") this.found.push({ node: document.createTextNode(this.plain), depth: 0 });
    this.plain = "";
  }

  add(node, end) {
    this.flush();
    this.found.push({ node, depth: 0 });
    this.at = end;
    return true;
  }

  /// indexOf that does not search twice for what is not there.
  find(end, from) {
    if (this.missing.has(end)) return -1;
    const at = this.text.indexOf(end, from);
    if (at < 0) this.missing.add(end);
    return at;
  }

  escape() {
    const next = this.text[this.at + 1] ?? "";
    if (next === "(" || next === "[") {
      const end = this.find(next === "(" ? "\\)" : "\\]", this.at + 2);
      if (end > 0) return this.add(formula(this.text.slice(this.at + 2, end), next === "["), end + 2);
    }
    if (!PUNCTUATION.test(next)) return false;
    this.plain += next;
    this.at += 2;
    return true;
  }

  code() {
    let count = 1;
    while (this.text[this.at + count] === "`") ++count;
    const mark = "`".repeat(count);
    let end = this.find(mark, this.at + count);
    // The end is a run of exactly as many.
    while (end > 0 && this.text[end + count] === "`") {
      while (this.text[end] === "`") ++end;
      end = this.find(mark, end);
    }
    if (end < 0) {
      this.plain += mark;
      this.at += count;
      return true;
    }
    const inner = this.text.slice(this.at + count, end);
    const isPadded = inner.startsWith(" ") && inner.endsWith(" ") && inner.trim() !== "";
    return this.add(el("code", {}, isPadded ? inner.slice(1, -1) : inner), end + count);
  }

  /// $x$ is a formula unless it reads like amounts of money.
  dollars() {
    if (this.text.startsWith("$$", this.at)) {
      const end = this.find("$$", this.at + 2);
      return end > this.at + 2 && this.add(formula(this.text.slice(this.at + 2, end), true), end + 2);
    }
    const end = this.find("$", this.at + 1);
    if (end < 0) return false;
    const tex = this.text.slice(this.at + 1, end);
    if (tex === "" || SPACE.test(tex[0]) || SPACE.test(tex.at(-1)) || /\d/.test(this.text[end + 1] ?? "") || tex.includes("\n\n")) return false;
    return this.add(formula(tex, false), end + 1);
  }

  link() {
    const close = this.closingBracket();
    if (close < 0 || this.text[close + 1] !== "(") return false;
    const end = this.find(")", close + 2);
    if (end < 0) return false;
    // An address may hold a pair of parentheses; a title after it is left out.
    const pair = this.text.slice(close + 2, end).includes("(") && this.text[end + 1] === ")" ? 1 : 0;
    const href = webAddress(this.text.slice(close + 2, end + pair).trim().split(/\s/, 1)[0]);
    if (href === null) return false;
    const node = link(href);
    appendInline(node, this.text.slice(this.at + 1, close) || href, this.linkDepth + 1);
    // A link inside of a link is its text.
    for (const inner of node.querySelectorAll("a")) inner.replaceWith(...inner.childNodes);
    return this.add(node, end + pair + 1);
  }

  closingBracket() {
    if (this.find("](", this.at + 1) < 0) return -1;
    const limit = Math.min(this.text.length, this.at + MAX_LINK_TEXT);
    for (let i = this.at + 1, depth = 1; i < limit; ++i) {
      if (this.text[i] === "\\") ++i;
      else if (this.text[i] === "[") ++depth;
      else if (this.text[i] === "]" && --depth === 0) return i;
    }
    return -1;
  }

  /// Pictures are not loaded: they would tell another server that the reply was read.
  image() {
    if (this.text[this.at + 1] !== "[") return false;
    ++this.at;
    if (this.link()) return true;
    --this.at;
    return false;
  }

  angle() {
    const end = this.find(">", this.at + 1);
    if (end < 0) return false;
    const inner = this.text.slice(this.at + 1, Math.min(end, this.at + MAX_LINK_TEXT));
    if (/^br ?\/?$/i.test(inner)) return this.add(el("br"), end + 1);
    const href = /^https?:[^\s<]+$/.test(inner) ? webAddress(inner) : null;
    if (href === null) return false;
    const node = link(href);
    node.append(inner);
    return this.add(node, end + 1);
  }

  address() {
    BARE_LINK.lastIndex = this.at;
    const match = this.linkDepth === 0 && this.text.startsWith("http", this.at) && !WORD.test(this.text[this.at - 1] ?? "") ? BARE_LINK.exec(this.text) : null;
    if (!match) return false;
    let shown = match[0];
    while (".,;:!?".includes(shown.at(-1)) || (shown.endsWith(")") && !shown.includes("("))) shown = shown.slice(0, -1);
    const href = webAddress(shown);
    if (href === null) return false;
    const node = link(href);
    node.append(shown);
    return this.add(node, this.at + shown.length);
  }

  mark() {
    const mark = this.text[this.at];
    let end = this.at;
    while (this.text[end] === mark) ++end;
    const before = this.text[this.at - 1] ?? " ", after = this.text[end] ?? " ";
    const isTight = (inner, outer) => !SPACE.test(inner) && (!PUNCTUATION.test(inner) || SPACE.test(outer) || PUNCTUATION.test(outer));
    let opens = isTight(after, before), closes = isTight(before, after);
    // Underscores and wavy lines inside of words are part of them.
    if (mark === "_") [opens, closes] = [opens && !WORD.test(before), closes && !WORD.test(after)];
    this.flush();
    this.found.push({ mark, count: end - this.at, opens, closes });
    this.at = end;
    return true;
  }
}

/// Replaces pairs of marks by elements; marks without a partner become text.
function emphasise(pieces) {
  const done = [];
  const lowest = {}; // below which no opening mark of a kind is left
  for (const piece of pieces) {
    if (!piece.mark) {
      done.push(piece);
      continue;
    }
    const kind = piece.mark + (piece.mark === "~" ? piece.count : "");
    while (piece.closes && piece.count > 0) {
      const opening = findOpening(done, piece, lowest[kind] ?? 0);
      if (opening < 0) {
        lowest[kind] = done.length;
        break;
      }
      wrap(done, opening, piece);
      for (const [other, end] of Object.entries(lowest)) lowest[other] = Math.min(end, opening);
    }
    if (piece.count > 0) done.push(piece);
  }
  return done.map((piece) => piece.node ?? document.createTextNode(piece.mark.repeat(piece.count)));
}

function findOpening(done, { mark, count }, lowest) {
  for (let i = done.length - 1; i >= lowest; --i)
    if (done[i].mark === mark && done[i].opens && (mark !== "~" || (count === 2 && done[i].count === 2))) return i;
  return -1;
}

function wrap(done, at, closing) {
  const opening = done[at];
  const used = closing.count >= 2 && opening.count >= 2 ? 2 : 1;
  const inner = done.splice(at + 1);
  const depth = 1 + inner.reduce((deepest, piece) => Math.max(deepest, piece.depth ?? 0), 0);
  const nodes = inner.map((piece) => piece.node ?? document.createTextNode(piece.mark.repeat(piece.count)));
  opening.count -= used;
  closing.count -= used;
  if (opening.count === 0) done.pop();
  if (depth > MAX_DEPTH) {
    const text = document.createTextNode(closing.mark.repeat(used));
    done.push({ node: text.cloneNode(), depth: 0 }, ...nodes.map((node) => ({ node, depth })), { node: text, depth: 0 });
    return;
  }
  const element = el(opening.mark === "~" ? "del" : used === 2 ? "strong" : "em");
  element.append(...nodes);
  done.push({ node: element, depth });
}
