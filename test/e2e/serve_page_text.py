#!/usr/bin/env python3
"""How the web page of `moert serve` shows what models write, on a desktop and a phone, light and dark.

  serve_page_text.py [--shots FOLDER]   with pictures of it to look at
"""
import argparse
import json
import os
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import fake_openai
from chat_page import DESKTOP, LAST, PHONE, Page
from fake_openai import Think

SCROLLED = ".offscreen, .skip, .table, pre, .formula, #sidebar"
TEXTS = "h1, h2, h3, h4, h5, p, span, button, a, code, summary, label, td, th, li, textarea, input, select, option"


HOSTILE = """<script>window.pwned = 1</script><img src=x onerror="window.pwned = 2"> <b>bold?</b>

[click](javascript:window.pwned=3) [data](data:text/html,<script>1</script>) <javascript:alert(1)> ![picture](https://example.org/x.png)

<iframe src="https://example.org"></iframe> &lt;b&gt; <style>body { display: none }</style>

| <svg onload=1> | x |
|---|---|
| `<b>` | [y](vbscript:x) |

$\\href{javascript:window.pwned=4}{x}$ $\\htmlClass{hidden}{y}$ $\\includegraphics{https://example.org/y.png}$ $\\pmb{z}$ $\\fcolorbox{red}{blue}{w}$ $\\unknown{$

[open](https://example.org/ok "title") **unclosed *and `broken [x](

```html
<script>window.pwned = 5</script>
"""


def check_hostile(page, server):
    """Nothing that a model writes becomes more than text, its own Markdown, and links to the web."""
    page.new_chat()
    server.replies["Attack."] = [Think("<img src=x onerror=1>"), *[HOSTILE[i:i + 5] for i in range(0, len(HOSTILE), 5)]]
    page.say("Attack.")
    page.say("<img src=x onerror=\"window.pwned = 6\">")
    page.until("document.querySelector('#messages .katex') !== null")
    assert page.run("window.pwned") is None
    assert page.run("document.querySelectorAll('#messages :is(script, img, iframe, style, object, b, form)').length") == 0
    links = page.run("[...document.querySelectorAll('#messages a')].map((e) => [e.getAttribute('href'), e.rel])")
    # The picture, the address in the text of the frame, the link.
    assert links == [["https://example.org/" + path, "noopener noreferrer"] for path in ("x.png", "", "ok")], links
    text = page.texts()[1]
    for part in ("<script>window.pwned = 1</script><img src=x onerror=\"window.pwned = 2\"> <b>bold?</b>", "[click](javascript:window.pwned=3)", "**unclosed *and `broken [x](", "&lt;b&gt;"):
        assert part in text, (part, text)
    assert page.run("[...document.querySelectorAll('#messages *')].every((e) => [...e.attributes].every((a) => !a.name.startsWith('on')))")


def check_open_code(page, server):
    """Code whose end is not there yet gets longer in place."""
    page.new_chat()
    go, end = threading.Event(), threading.Event()
    server.replies["Code."] = ["```py\na = 1\n", go, "b = 2\n", end, "```\nDone."]
    page.run("document.getElementById('input').focus()")
    page.type("Code.")
    page.press("Enter")
    page.until(f"(window.code = {LAST}?.querySelector('pre code'))?.textContent === 'a = 1\\n'")
    go.set()
    page.until("code.textContent === 'a = 1\\nb = 2\\n' && code.isConnected")
    end.set()
    page.ready()
    page.until(f"{LAST}.querySelector('.token.number') !== null")
    assert page.run(f"{LAST}.querySelector('pre').textContent") == "a = 1\nb = 2"


def check_without_libraries():
    """Formulas and code are shown as they were written where the libraries cannot be loaded."""
    server = fake_openai.Server()
    for path in [path for path in server.files if path.startswith("/lib/")]:
        del server.files[path]
    server.replies["Show."] = ["$x^2$\n\n```py\na = 1\n```\n"]
    with Page(server) as page:
        page.load()
        page.say("Show.")
        page.until("performance.getEntriesByType('resource').filter((entry) => entry.name.includes('/lib/')).length >= 3")
        assert page.run(f"{LAST}.querySelector('.formula').textContent") == "x^2"
        assert page.run(f"{LAST}.querySelector('pre').textContent") == "a = 1"
        assert [entry for entry in page.complaints if "entry" not in entry] == [], page.complaints
        page.check_policy()


def markdown_cases():
    """Small texts of every construct, broken ones too, and mixtures of them."""
    parts = ["# Title\n", "text *em* **strong** `code` ~~old~~\n", "- a\n  - b\n\n  c\n", "1. x\n2) y\n", "> quote\n> > deep\n", "```zz\nx = 1\n", "```\n", "\n", "a | b\n",
             "--- | :-:\n", "1 | 2\n", "$$\nx\n$$\n", "$x$ and $5 \\(y\\)\n", "***\n", "[l](https://e.org) https://e.org/a_b.\n", "- [ ] t\n", "* * *a** b*\n", "\\[z\\]\n", "    indented\n", "<b>x</b>\n"]
    cases, state = ["".join(parts)], 1
    for _ in range(120):
        text = ""
        for _ in range(8):
            state = state * 1103515245 + 12345 & 0x7fffffff
            text += parts[(state >> 16) % len(parts)]
        cases.append(text)
    return cases


def check_markdown(page, server):
    # Text that comes in pieces ends as the same elements as text that is there at once.
    different = page.run(f"""import("./markdown.js").then(async ({{ GrowingMarkdown, renderMarkdown }}) => {{
      await import("./load.js").then(({{ loadScript }}) => loadScript("lib/katex/katex.js"));
      return {json.dumps(markdown_cases())}.filter((text) => {{
        const whole = document.createElement("div"), grown = document.createElement("div");
        whole.append(...renderMarkdown(text));
        const growing = new GrowingMarkdown(grown);
        for (let i = 0; i < text.length; i += 3) {{
          growing.append(text.slice(i, i + 3));
          growing.show(false);
        }}
        growing.show(true);
        return !whole.isEqualNode(grown) && [whole.innerHTML, grown.innerHTML].map((html) => html.replaceAll(/<div class="code">.*?<pre/gs, "")).some((html, i, all) => html !== all[0]);
      }});
    }})""")
    assert different == [], different[:2]
    shown = lambda text: page.run(f"""import("./markdown.js").then(({{ renderMarkdown }}) => {{
      const element = document.createElement("div");
      element.append(...renderMarkdown({json.dumps(text)}));
      return element.innerHTML;
    }})""")
    for text, html in [
            ("a *b **c*** d", "<p>a <em>b <strong>c</strong></em> d</p>"), ("snake_case_name __init__", "<p>snake_case_name <strong>init</strong></p>"),
            ("*a **b** c*", "<p><em>a <strong>b</strong> c</em></p>"), ("**a *b* c**", "<p><strong>a <em>b</em> c</strong></p>"), ("_a b* c_*d*", "<p><em>a b* c</em><em>d</em></p>"),
            ("x* *y*", "<p>x* <em>y</em></p>"), ("~~a~b~~", "<p><del>a~b</del></p>"), ("**a** b **c**", "<p><strong>a</strong> b <strong>c</strong></p>"),
            ("costs $5 or $10", "<p>costs $5 or $10</p>"), ("\\*not\\*", "<p>*not*</p>"), ("``a`b``", "<p><code>a`b</code></p>"), ("2 * 3 * 4", "<p>2 * 3 * 4</p>"),
            ("1. a\n2. b", "<ol><li><span>a</span></li><li><span>b</span></li></ol>"), ("3. c", "<ol start=\"3\"><li><span>c</span></li></ol>"),
            ("- a\n  - b\n- c", "<ul><li><span>a</span><ul><li><span>b</span></li></ul></li><li><span>c</span></li></ul>"),
            ("> q\n\np", "<blockquote><p>q</p></blockquote><p>p</p>"), ("x\n---\ny", "<p>x</p><hr><p>y</p>"), ("## H ##", "<h5 class=\"level-2\">H</h5>"), ("#tag", "<p>#tag</p>"),
            ("line\nline", "<p>line\nline</p>"), ("a<br>b", "<p>a<br>b</p>"), ("a < b > c & d", "<p>a &lt; b &gt; c &amp; d</p>")]:
        assert shown(text) == html, (text, shown(text))
    depth = page.run("""import("./markdown.js").then(({ renderMarkdown }) => {
      const depthOf = (element) => 1 + Math.max(0, ...[...element.children].map(depthOf));
      return Math.max(...["*a ".repeat(300) + " a*".repeat(300), "> ".repeat(300) + "x", "[".repeat(300) + "](https://e.org)".repeat(300)].flatMap((text) => renderMarkdown(text).map(depthOf)));
    })""")
    assert depth < 40, depth
    # These texts are slow in a careless parser.
    for text in ("[" * 1000000 + "](x)", "*a " * 6000, "[" * 19000, "> " * 3000 + "x", "".join("  " * i + "- a\n" for i in range(400)), "`" * 9000 + "x" + "`" * 8999, "$" * 9000, "|" * 9000 + "\n" + "|-" * 4500, "#" * 50000, "a\n" * 30000, "<" * 19000 + ">", "**" * 9000, "_a" * 9000):
        took = page.run(f"import('./markdown.js').then(({{ renderMarkdown }}) => {{ const from = performance.now(); document.createElement('div').append(...renderMarkdown({json.dumps(text)})); return performance.now() - from; }})")
        assert took < 5000, (text[:10], took)


RICH = """## Result

Inline $e^{i\\pi} + 1 = 0$, `code`, a long word: """ + "Donaudampfschifffahrt" * 12 + """

$$\\sum_{k=0}^{n} k = \\frac{n(n+1)}{2} \\quad \\text{for all} \\quad n \\in \\mathbb{N} \\quad \\text{and more and more and more and more}$$

| column one | column two | column three | column four | column five |
|---|---|---|---|---|
| some words | some words | some words | some words | 12345 |

```python
def answer(question: str) -> int:
    return 42  # whatever the question was, and this comment is much longer than a phone is wide
```

1. first
2. second

> quoted
"""


def check_layout(page, server, shots):
    page.new_chat()
    server.replies["Show all."] = [Think("Let me think."), RICH]
    page.say("Show all.")
    page.until("document.querySelector('#messages .token.keyword') !== null && document.querySelector('#messages .katex') !== null")
    grounds = {}
    for size in (DESKTOP, (800, 900), PHONE):
        for scheme in ("light", "dark"):
            page.load(size, scheme)
            page.until("document.querySelector('#messages .katex') !== null")
            assert page.run("document.documentElement.scrollWidth") == size[0], (size, page.wide(SCROLLED))
            assert page.wide(SCROLLED) == [], (size, page.wide(SCROLLED))
            assert page.run("[...document.querySelectorAll('.table, pre, .formula.display')].every((e) => e.scrollWidth <= e.clientWidth || getComputedStyle(e).overflowX === 'auto')")
            assert page.faint(TEXTS) == [], (scheme, page.faint(TEXTS))
            grounds[scheme] = page.run("getComputedStyle(document.body).backgroundColor")
            if shots:
                page.screenshot(f"{shots}/page-{size[0]}-{scheme}.png", whole=False)
    assert grounds == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 27)"}, grounds
    # The colours can be chosen, and the choice is kept.
    page.run("document.getElementById('settings-open').click(); const theme = document.getElementById('theme'); theme.value = 'light'; theme.dispatchEvent(new Event('change'))")
    assert page.run("getComputedStyle(document.body).backgroundColor") == grounds["light"]
    assert page.wide(SCROLLED) == [] and page.faint(TEXTS) == [], page.faint(TEXTS)
    page.load(PHONE, "dark")
    assert page.run("getComputedStyle(document.body).backgroundColor") == grounds["light"]
    # On a phone, the list opens like a drawer.
    page.click("Conversations")
    assert page.active() == "new-chat" and page.run("document.getElementById('main').inert")
    page.press("Escape")
    assert page.active() == "menu" and not page.run("document.getElementById('main').inert")


def check_long(page, server, folder):
    """In a long conversation a new reply touches nothing but its own element."""
    messages, parent = [], ""
    for i in range(600):
        messages.append({"id": f"m{i}", "parent": parent, "role": "user" if i % 2 == 0 else "assistant", "content": f"**{i}** " + "some words " * 40})
        parent = f"m{i}"
    path = os.path.join(folder, "long.json")
    with open(path, "w") as file:
        json.dump({"format": "moert-conversations", "version": 1, "conversations": [{"id": "long", "title": "Long", "messages": messages}]}, file)
    assert page.import_file(path) == "1 conversation imported."
    page.click("Long", "document.getElementById('conversations')")
    assert len(page.texts()) == 600
    page.until("document.getElementById('to-end').hidden")
    page.run("""window.touched = 0; new MutationObserver((records) => records.forEach((record) => {
      const article = record.target.nodeType === 1 ? record.target.closest(".message") : record.target.parentElement?.closest(".message");
      if (article && article !== [...document.querySelectorAll(".message")].at(-1)) touched++;
    })).observe(document.getElementById("messages"), { childList: true, characterData: true, attributes: true, subtree: true })""")
    announced = "window.announced = 0; new MutationObserver((records) => announced += records.length).observe(document.getElementById('announcer'), { childList: true })"
    page.run(announced)
    server.replies["Go on."] = ["word "] * 1000
    page.say("Go on.")
    assert page.run("touched") == 0
    assert page.run("announced") <= 4
    assert page.texts()[-1] == ("word " * 1000).strip()
    rest = page.run("(() => { const pane = document.getElementById('thread'); return pane.scrollHeight - pane.scrollTop - pane.clientHeight; })()")
    assert rest < 4, f"{rest} pixels below what is shown"


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--shots")
    arguments = arguments.parse_args()
    server = fake_openai.Server()
    with Page(server) as page, tempfile.TemporaryDirectory() as folder:
        page.load()
        check_hostile(page, server)
        check_open_code(page, server)
        check_markdown(page, server)
        page.check_policy()
        check_layout(page, server, arguments.shots)
        check_long(page, server, folder)
        page.check_policy()
        assert page.complaints == [], page.complaints
    check_without_libraries()


main()
