// Blocks of code: a bar with the language and a button that copies, and colours by Prism, of which each
// language is loaded when it first appears. Prism gives tokens; the elements are made here.

import { copyButton, el } from "./dom.js";
import { loadScript } from "./load.js";

const MAX_CHARACTERS = 100_000; // longer code stays plain

// The languages in libraries.txt, and those that each builds on.
const NEEDS = {
  markup: [], css: [], clike: [], javascript: ["clike"], typescript: ["javascript"], jsx: ["markup", "javascript"], c: ["clike"], cpp: ["c"],
  csharp: ["clike"], java: ["clike"], kotlin: ["clike"], swift: [], go: ["clike"], rust: [], python: [], ruby: ["clike"], php: ["clike"], lua: [],
  r: [], julia: [], haskell: [], bash: [], powershell: [], batch: [], docker: [], makefile: [], cmake: [], json: [], yaml: [], toml: [], ini: [],
  sql: [], diff: [], latex: [], llvm: [], nasm: [], verilog: [],
};
const ALIASES = {
  html: "markup", xml: "markup", svg: "markup", js: "javascript", mjs: "javascript", ts: "typescript", tsx: "jsx", "c++": "cpp", cc: "cpp", cxx: "cpp", h: "cpp",
  hpp: "cpp", cuda: "cpp", cu: "cpp", "c#": "csharp", cs: "csharp", kt: "kotlin", golang: "go", rs: "rust", py: "python", python3: "python", rb: "ruby",
  jl: "julia", hs: "haskell", sh: "bash", shell: "bash", zsh: "bash", console: "bash", ps1: "powershell", bat: "batch", dockerfile: "docker",
  make: "makefile", jsonc: "json", json5: "json", yml: "yaml", postgresql: "sql", mysql: "sql", patch: "diff", tex: "latex", asm: "nasm", sv: "verilog",
};

function languageOf(name) {
  const known = name.toLowerCase();
  const language = Object.hasOwn(ALIASES, known) ? ALIASES[known] : known;
  return Object.hasOwn(NEEDS, language) ? language : null;
}

async function load(language) {
  globalThis.Prism ??= { manual: true };
  await loadScript("lib/prism/prism-core.js");
  for (const needed of NEEDS[language]) await load(needed);
  await loadScript(`lib/prism/prism-${language}.js`);
}

/// `isClosed`: all of the code is there, so that it can be coloured.
export function codeBlock({ language, text, isClosed }) {
  const code = el("code", {}, text);
  const bar = el("div", { class: "code-bar" }, el("span", {}, language || "text"), copyButton("Copy the code", () => code.textContent));
  const known = languageOf(language);
  if (isClosed && known !== null && text.length <= MAX_CHARACTERS) colour(code, known, text);
  return el("div", { class: "code" }, bar, el("pre", { tabindex: "0", "aria-label": `Code${language ? `, ${language}` : ""}` }, code));
}

async function colour(code, language, text) {
  try {
    await load(language);
    const nodes = nodesOf(globalThis.Prism.tokenize(text, globalThis.Prism.languages[language]));
    code.replaceChildren(...nodes);
  } catch {
    // It stays without colours.
  }
}

function nodesOf(tokens) {
  if (typeof tokens === "string") return [document.createTextNode(tokens)];
  if (Array.isArray(tokens)) return tokens.flatMap(nodesOf);
  const aliases = [tokens.alias ?? []].flat();
  const span = el("span", { class: ["token", tokens.type, ...aliases].join(" ") });
  span.append(...nodesOf(tokens.content));
  return [span];
}
