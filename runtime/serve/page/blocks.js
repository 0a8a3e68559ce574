// Splits Markdown into blocks: plain objects, which markdown.js turns into elements.
//
// Each has `start`, its offset in the text. A block ends for good once another follows with a whole line, so
// that of growing text only the end is parsed again. All steps are linear in the text.

const MAX_DEPTH = 8; // of quotes and lists in each other; deeper ones stay text
const MAX_COLUMNS = 64;
const MAX_MATH_LINES = 100;

const FENCE = /^ {0,3}(`{3,}|~{3,})(.*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t](.*))?$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?:([ \t]+)(.*))?$/;
const QUOTE = /^ {0,3}> ?/;
const MATH = /^ {0,3}(\$\$|\\\[)/;

/// `isOpen`: more text may follow, so that code and formulas without an end are not at their end yet.
export function parseBlocks(text, isOpen = false, depth = 0) {
  const lines = text.split("\n");
  const blocks = [];
  let offset = 0;
  for (let at = 0; at < lines.length;) {
    const [block, next] = takeBlock(lines, at, isOpen, depth);
    if (block) blocks.push({ ...block, start: offset });
    for (; at < next; ++at) offset += lines[at].length + 1;
  }
  return blocks;
}

function takeBlock(lines, at, isOpen, depth) {
  const line = lines[at];
  if (line.trim() === "") return [null, at + 1];
  const fence = fenceOf(line);
  if (fence) return takeCode(lines, at, fence);
  const math = takeMath(lines, at, isOpen);
  if (math) return math;
  const heading = HEADING.exec(line);
  if (heading) return [{ kind: "heading", level: heading[1].length, text: withoutHashes(heading[2] ?? "") }, at + 1];
  if (isRule(line)) return [{ kind: "rule" }, at + 1];
  if (depth < MAX_DEPTH && QUOTE.test(line)) return takeQuote(lines, at, isOpen, depth);
  if (depth < MAX_DEPTH && itemOf(line)) return takeList(lines, at, isOpen, depth);
  if (isTable(lines, at)) return takeTable(lines, at);
  return takeParagraph(lines, at, depth);
}

function fenceOf(line) {
  const match = FENCE.exec(line);
  return match && !(match[1][0] === "`" && match[2].includes("`")) ? { mark: match[1], info: match[2].trim() } : null;
}

function takeCode(lines, at, { mark, info }) {
  const indent = lines[at].indexOf(mark[0]);
  const code = [];
  let next = at + 1, isClosed = false;
  for (; next < lines.length && !isClosed; ++next) {
    const closing = FENCE.exec(lines[next]);
    isClosed = closing !== null && closing[1].startsWith(mark) && closing[2].trim() === "";
    if (!isClosed) code.push(withoutIndent(lines[next], indent));
  }
  return [{ kind: "code", language: info.split(/[\s{,]/, 1)[0], text: code.join("\n"), isClosed }, next];
}

function takeMath(lines, at, isOpen) {
  const match = MATH.exec(lines[at]);
  if (!match) return null;
  const close = match[1] === "$$" ? "$$" : "\\]";
  const body = [];
  for (let next = at; next < Math.min(lines.length, at + MAX_MATH_LINES); ++next) {
    const line = next === at ? lines[at].slice(match[0].length) : lines[next];
    const end = line.indexOf(close);
    if (end < 0) {
      body.push(line);
      continue;
    }
    // Text after the formula makes it part of a paragraph.
    if (line.slice(end + 2).trim() !== "" && !/^[.,;:]$/.test(line.slice(end + 2).trim())) return null;
    return [{ kind: "math", text: [...body, line.slice(0, end)].join("\n").trim() }, next + 1];
  }
  const isAtEnd = at + MAX_MATH_LINES >= lines.length;
  return isOpen && isAtEnd ? [{ kind: "openMath", text: lines.slice(at).join("\n") }, lines.length] : null;
}

function withoutHashes(text) {
  const trimmed = text.trim();
  let end = trimmed.length;
  while (trimmed[end - 1] === "#") --end;
  return end === 0 || trimmed[end - 1] === " " ? trimmed.slice(0, end).trim() : trimmed;
}

function isRule(line) {
  const marks = line.replace(/[ \t]/g, "");
  return marks.length >= 3 && "-*_".includes(marks[0]) && marks === marks[0].repeat(marks.length);
}

function takeQuote(lines, at, isOpen, depth) {
  const inner = [];
  let next = at;
  for (; next < lines.length && QUOTE.test(lines[next]); ++next) inner.push(lines[next].replace(QUOTE, ""));
  return [{ kind: "quote", blocks: parseBlocks(inner.join("\n"), isOpen, depth + 1) }, next];
}

function itemOf(line) {
  const match = isRule(line) ? null : ITEM.exec(line);
  if (!match) return null;
  const [, indent, mark, space = " ", text = ""] = match;
  const isOrdered = mark.length > 1;
  // Text that begins with much space is indented inside of the item.
  const gap = space.length > 4 ? 1 : space.length;
  return { indent: indent.length, inside: indent.length + mark.length + gap, isOrdered, mark: isOrdered ? mark.at(-1) : mark,
    number: isOrdered ? Number.parseInt(mark, 10) : 0, text: space.slice(gap) + text };
}

const indentOf = (line) => line.length - line.trimStart().length;
const withoutIndent = (line, indent) => line.slice(Math.min(indent, indentOf(line)));

function takeList(lines, at, isOpen, depth) {
  const first = itemOf(lines[at]);
  const items = [];
  let current = null, isLoose = false, wasBlank = false, next = at;
  for (; next < lines.length; ++next) {
    const line = lines[next];
    if (line.trim() === "") {
      wasBlank = true;
      current.lines.push("");
      continue;
    }
    const item = itemOf(line);
    // Two spaces are enough to nest, as models write them.
    const isSibling = item && item.isOrdered === first.isOrdered && item.mark === first.mark && item.indent < first.indent + 2;
    const isInside = current !== null && (indentOf(line) >= current.inside || (item !== null && item.indent >= first.indent + 2));
    if (isInside) {
      current.lines.push(withoutIndent(line, current.inside));
    } else if (isSibling) {
      isLoose ||= wasBlank && items.length > 0;
      current = { inside: item.inside, lines: [item.text] };
      items.push(current);
    } else if (wasBlank || item || startsBlock(lines, next, depth)) {
      break;
    } else {
      current.lines.push(line);
    }
    wasBlank = false;
  }
  const blocks = items.map((item) => parseBlocks(item.lines.join("\n"), isOpen, depth + 1));
  return [{ kind: "list", isOrdered: first.isOrdered, first: first.number, isLoose, items: blocks }, next];
}

/// The cells of a row. A bar after a backslash is text.
function cellsOf(line) {
  const cells = [""];
  for (let i = 0; i < line.length; ++i) {
    if (line[i] === "\\" && line[i + 1] === "|") cells[cells.length - 1] += line[++i];
    else if (line[i] === "|") cells.push("");
    else cells[cells.length - 1] += line[i];
  }
  const trimmed = cells.map((cell) => cell.trim());
  if (trimmed[0] === "") trimmed.shift();
  if (trimmed.at(-1) === "") trimmed.pop();
  return trimmed;
}

function isTable(lines, at) {
  const rule = lines[at + 1];
  if (!lines[at].includes("|") || rule === undefined || !/^[ \t|:-]*-[ \t|:-]*$/.test(rule)) return false;
  const marks = cellsOf(rule);
  return marks.length <= MAX_COLUMNS && marks.every((cell) => /^:?-+:?$/.test(cell)) && cellsOf(lines[at]).length === marks.length;
}

function takeTable(lines, at) {
  const align = cellsOf(lines[at + 1]).map((cell) => (cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "right") : "left"));
  const rows = [];
  let next = at + 2;
  for (; next < lines.length && lines[next].includes("|"); ++next) {
    const cells = cellsOf(lines[next]).slice(0, align.length);
    rows.push([...cells, ...Array(align.length - cells.length).fill("")]);
  }
  return [{ kind: "table", align, head: cellsOf(lines[at]), rows }, next];
}

/// Whether a line ends the paragraph before it. Of numbered items only the first does.
function startsBlock(lines, at, depth) {
  const line = lines[at];
  const item = itemOf(line);
  return fenceOf(line) !== null || HEADING.test(line) || isRule(line) || MATH.test(line) || isTable(lines, at) ||
    (depth < MAX_DEPTH && (QUOTE.test(line) || (item !== null && item.text !== "" && (!item.isOrdered || item.number === 1))));
}

function takeParagraph(lines, at, depth) {
  let next = at + 1;
  while (next < lines.length && lines[next].trim() !== "" && !startsBlock(lines, next, depth)) ++next;
  return [{ kind: "paragraph", text: lines.slice(at, next).map((line) => line.trim()).join("\n") }, next];
}
