// Formulas, set by KaTeX, which is loaded when the first one appears. KaTeX builds elements and sets their
// styles one by one, which the page's Content-Security-Policy allows.

import { el } from "./dom.js";
import { loadScript, loadStyles } from "./load.js";

const MAX_CHARACTERS = 4000;
// `trust` would allow links, pictures and classes; the last two bound sizes in em, and the work.
const OPTIONS = { throwOnError: true, strict: "ignore", trust: false, maxSize: 20, maxExpand: 200 };
// In MathML KaTeX writes these with style attributes, which the policy forbids.
const STYLED_MATHML = /\\(pmb|f?colorbox)/;

async function load() {
  await Promise.all([loadStyles("lib/katex/katex.css"), loadScript("lib/katex/katex.js")]);
  return globalThis.katex;
}

/// An element with the formula. Until KaTeX is there, and where it finds an error, it shows the source.
export function formula(tex, isDisplay) {
  const element = el(isDisplay ? "div" : "span", { class: isDisplay ? "formula display" : "formula" }, el("code", {}, tex));
  if (tex.length > MAX_CHARACTERS) return element;
  if (globalThis.katex) render(globalThis.katex, tex, isDisplay, element);
  else load().then((katex) => render(katex, tex, isDisplay, element), () => {});
  return element;
}

function render(katex, tex, isDisplay, element) {
  const result = document.createElement("span");
  const isStyled = STYLED_MATHML.test(tex);
  try {
    katex.render(tex, result, { ...OPTIONS, displayMode: isDisplay, output: isStyled ? "html" : "htmlAndMathml" });
  } catch (error) {
    element.title = error instanceof Error ? error.message : "This formula has an error";
    return;
  }
  if (isStyled) {
    element.setAttribute("role", "math");
    element.setAttribute("aria-label", tex);
  }
  element.replaceChildren(...result.childNodes);
}
