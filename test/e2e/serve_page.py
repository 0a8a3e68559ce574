#!/usr/bin/env python3
"""Uses the web page of `moert serve` as people do, with a server whose replies are scripted.

  serve_page.py [--shots FOLDER]   with pictures of it to look at
"""
import argparse
import json
import os
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import browser
import fake_openai
from fake_openai import Cut, Refuse, Think

DESKTOP = (1280, 860)
PHONE = (360, 740)
SECONDS = 20  # that something may take to appear
RECORD_VIOLATIONS = "window.violations = []; document.addEventListener('securitypolicyviolation', (event) => violations.push(event.violatedDirective + ' ' + event.blockedURI))"
SCROLLED = ".offscreen, .skip, .table, pre, .formula, #sidebar"
TEXTS = "h1, h2, h3, h4, h5, p, span, button, a, code, summary, label, td, th, li, textarea, input, select, option"
LAST = "[...document.querySelectorAll('.message')].at(-1)"


class Page(browser.Browser):
    """The page of a server of its own; notes each request that the browser makes."""

    def __init__(self, server):
        self.requested = []
        super().__init__(browser.find())
        self.server = server
        self.call("Network.enable")
        self.call("Page.addScriptToEvaluateOnNewDocument", source=RECORD_VIOLATIONS)

    def receive(self):
        event = super().receive()
        if event.get("method") == "Network.requestWillBeSent":
            self.requested.append(event["params"]["request"]["url"])
        return event

    def load(self, size=DESKTOP, scheme="light"):
        self.open(self.server.url, *size, scheme)
        self.until("document.getElementById('send').getAttribute('aria-label') !== null && document.getElementById('model-name').textContent !== '' || !document.getElementById('status').hidden || document.querySelector('dialog[open]')")

    def until(self, condition):
        """Waits until an expression of the page is true."""
        self.run(f"""new Promise((resolve, reject) => {{
          const end = performance.now() + {SECONDS * 1000};
          const look = () => ({condition}) ? resolve(true) : performance.now() > end ? reject(new Error("never: " + {json.dumps(condition)} + "; the page shows: " + document.body.innerText.slice(0, 2000))) : setTimeout(look, 10);
          look();
        }})""")

    def ready(self):
        self.until("document.querySelector('[aria-busy]') === null && document.getElementById('send').getAttribute('aria-label') === 'Send'")

    def say(self, text):
        """Sends a message by keyboard and waits for the end of the reply."""
        count = self.run("document.querySelectorAll('.message').length")
        self.run("document.getElementById('input').focus()")
        self.type(text)
        self.press("Enter")
        self.until(f"document.querySelectorAll('.message').length === {count + 2}")
        self.ready()

    def texts(self, part=".body"):
        return self.run(f"[...document.querySelectorAll('.message {part}')].map((e) => e.textContent.trim())")

    def click(self, name, within="document"):
        """A button or link by its name."""
        found = self.run(f"""(() => {{
          const element = [...{within}.querySelectorAll("button, a")].find((e) => (e.getAttribute("aria-label") ?? e.textContent).trim() === {json.dumps(name)} && e.getClientRects().length);
          element?.click();
          return element !== undefined;
        }})()""")
        assert found, f"no button {name}"

    def new_chat(self):
        self.press("k", browser.CTRL)
        self.until("document.querySelectorAll('.message').length === 0")

    def active(self):
        return self.run("document.activeElement.id || document.activeElement.getAttribute('aria-label') || document.activeElement.textContent.trim()")


def check_stream(page, server):
    """Text appears while the reply is on its way, with what it cost at the end."""
    go = threading.Event()
    server.replies["How are you?"] = [Think("They ask **me**."), "I am ", go, "well."]
    page.run("document.getElementById('input').focus()")
    page.type("How are you?")
    page.press("Enter")
    page.until(f"{LAST}?.querySelector('.body').textContent.includes('I am')")
    assert page.run(f"{LAST}.getAttribute('aria-busy')") == "true"
    assert page.run("document.getElementById('send').getAttribute('aria-label')") == "Stop the reply"
    assert page.run(f"{LAST}.querySelector('details').open") is False
    go.set()
    page.ready()
    assert page.texts() == ["How are you?", "I am well."], page.texts()
    assert page.run(f"{LAST}.querySelector('.reasoning-text strong').textContent") == "me"
    assert page.run(f"{LAST}.querySelector('summary').textContent") == "Thoughts"
    cost = page.run(f"{LAST}.querySelector('.cost').textContent")
    assert cost.startswith("3 tokens · 40.0 tokens/s · prompt 3 tokens, 1 from the cache · first word after "), cost
    assert page.run("document.getElementById('context').textContent") == "6 of 4.1k tokens of context used"
    request = server.requests[-1]
    assert request == {"model": server.models[0], "messages": [{"role": "user", "content": "How are you?"}], "stream": True, "stream_options": {"include_usage": True}}, request
    page.say("And now?")
    assert [message["content"] for message in server.requests[-1]["messages"]] == ["How are you?", "I am well.", "And now?"]
    assert page.run("document.title") == "How are you? – moert"


def check_stop(page, server):
    page.new_chat()
    server.gone.clear()
    go = threading.Event()
    server.replies["Count."] = ["one ", go, *["more "] * 1000]
    page.run("document.getElementById('input').focus()")
    page.type("Count.")
    page.press("Enter")
    page.until(f"{LAST}?.querySelector('.body').textContent.includes('one')")
    page.type("A draft")
    page.press("Enter")  # nothing is sent while a reply is on its way
    page.press("Escape")
    page.ready()
    assert page.texts(".notes")[-1] == "Stopped.", page.texts(".notes")
    assert page.texts() == ["Count.", "one"], page.texts()
    assert page.run("document.getElementById('input').value") == "A draft"
    go.set()
    assert server.gone.wait(SECONDS), "the server is not told that the client has left"


def check_branches(page, server):
    """Regenerated replies and edited messages are versions beside the old ones."""
    page.new_chat()
    server.replies["Name a colour."] = [["Red."], ["Green."]]
    page.say("Name a colour.")
    page.say("Why?")
    page.run("document.querySelectorAll('.message')[1].querySelector('[aria-label=Regenerate]').focus()")
    page.press("Enter")
    page.until("document.querySelectorAll('.message').length === 2")
    page.ready()
    assert page.texts() == ["Name a colour.", "Green."]
    assert page.run(f"{LAST}.querySelector('.versions').textContent").endswith("2 / 2")
    assert page.active() == "input"  # as the button that had the focus is gone
    page.run(f"{LAST}.querySelector('.versions button:enabled').focus()")
    page.press("Enter")
    assert page.texts() == ["Name a colour.", "Red.", "Why?", "You said: Why?"], page.texts()
    assert page.active() == "Next version"
    page.click("Edit", "document.querySelectorAll('.message')[2]")
    assert page.active() == "Edit the message"
    page.run("document.activeElement.select()")
    page.type("Really?")
    page.press("Enter")
    page.until("document.querySelectorAll('.message')[2]?.querySelector('.body')?.textContent.startsWith('Really?')")
    page.ready()
    assert page.texts() == ["Name a colour.", "Red.", "Really?", "You said: Really?"], page.texts()
    assert [message["content"] for message in server.requests[-1]["messages"]] == ["Name a colour.", "Red.", "Really?"]
    page.click("Version before", "document.querySelectorAll('.message')[2]")
    assert page.texts()[2:] == ["Why?", "You said: Why?"]
    page.click("Edit", "document.querySelectorAll('.message')[0]")
    page.press("Escape")
    assert page.texts()[0] == "Name a colour." and page.active() == "Edit"


def check_kept(page):
    """A reload keeps conversations, the branch that is shown, and the draft."""
    before = page.texts()
    page.run("document.getElementById('input').focus()")
    page.type("Half a thou")
    page.load()
    assert page.texts() == before, page.texts()
    assert page.run("document.getElementById('input').value") == "Half a thou"
    page.run("document.getElementById('input').select()")
    page.type("x")
    page.press("k", browser.CTRL)
    assert page.run("document.getElementById('input').value") == ""
    titles = page.run("[...document.querySelectorAll('#conversations .title')].map((e) => e.textContent)")
    assert titles == ["Name a colour.", "Count.", "How are you?"], titles
    page.click("Delete “Count.”")
    assert "Count." not in page.run("document.getElementById('conversations').textContent")
    page.click("Undo")
    page.until("document.querySelectorAll('#conversations .title').length === 3")
    page.click("Rename “Count.”")
    page.run("document.activeElement.select()")
    page.type("Numbers")
    page.press("Enter")
    page.until("document.getElementById('conversations').textContent.includes('Numbers')")
    # Another tab changes a conversation, and deletes one that this tab shows.
    page.click("Numbers", "document.getElementById('conversations')")
    page.run("""import("./store.js").then(async ({ Conversations }) => {
      const other = await Conversations.open();
      const all = await other.all();
      const numbers = all.find((conversation) => conversation.title === "Numbers");
      window.change = async (change) => { change(numbers); await other.put(numbers); other.tell(numbers.id); };
      window.forget = async () => { await other.remove(numbers.id); other.tell(numbers.id); };
      await change((conversation) => { conversation.messages[0].content = "Changed"; });
    })""")
    page.until("document.querySelector('.message .body')?.textContent === 'Changed'")
    page.run("forget()")
    page.until("document.querySelectorAll('.message').length === 0")
    page.run("change((conversation) => { conversation.messages[0].content = 'Count.'; })")
    page.until("document.getElementById('conversations').textContent.includes('Numbers')")


def import_file(page, path):
    page.run("document.getElementById('notice').hidden = true")
    root = page.call("DOM.getDocument")["root"]["nodeId"]
    node = page.call("DOM.querySelector", nodeId=root, selector="#import-file")["nodeId"]
    page.call("DOM.setFileInputFiles", files=[path], nodeId=node)
    page.until("!document.getElementById('notice').hidden")
    return page.run("document.querySelector('#notice span').textContent")


def check_transfer(page, folder):
    page.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=folder, eventsEnabled=True)
    page.click("Export")
    while True:
        event = page.receive()
        if event.get("method") == "Browser.downloadProgress" and event["params"]["state"] == "completed":
            break
    path = os.path.join(folder, os.listdir(folder)[0])
    exported = json.load(open(path))
    assert sorted(conversation["title"] for conversation in exported["conversations"]) == ["How are you?", "Name a colour.", "Numbers"]
    assert import_file(page, path) == "All conversations of this file are here already."
    for title in ("Numbers", "How are you?", "Name a colour."):
        page.click(f"Delete “{title}”")
    assert import_file(page, path) == "3 conversations imported."
    page.click("Name a colour.", "document.getElementById('conversations')")
    assert page.texts()[:2] == ["Name a colour.", "Red."]
    for change, message in [
            (lambda file: "not JSON", "is not JSON"),
            (lambda file: json.dumps({"format": "other"}), "holds no conversations"),
            (lambda file: json.dumps({**file, "version": 9}), "has version 9"),
            (lambda file: json.dumps({**file, "conversations": [{"messages": [{"id": "a", "parent": "b", "role": "user", "content": ""}]}]}), "message 1 answers a message that is not before it"),
            (lambda file: json.dumps({**file, "conversations": [{"messages": [{"id": "a", "parent": "", "role": "user", "content": 7}]}]}), "message 1 has no text"),
            (lambda file: json.dumps({**file, "conversations": [{"messages": [{"id": "a", "parent": "", "role": "root", "content": ""}]}]}), "unknown role")]:
        broken = os.path.join(folder, "broken.json")
        with open(broken, "w") as file:
            file.write(change(exported))
        assert message in import_file(page, broken), message
    assert page.run("document.querySelectorAll('#conversations .title').length") == 3


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
            ("costs $5 or $10", "<p>costs $5 or $10</p>"), ("\\*not\\*", "<p>*not*</p>"), ("``a`b``", "<p><code>a`b</code></p>"), ("2 * 3 * 4", "<p>2 * 3 * 4</p>"),
            ("1. a\n2. b", "<ol><li><span>a</span></li><li><span>b</span></li></ol>"), ("3. c", "<ol start=\"3\"><li><span>c</span></li></ol>"),
            ("- a\n  - b\n- c", "<ul><li><span>a</span><ul><li><span>b</span></li></ul></li><li><span>c</span></li></ul>"),
            ("> q\n\np", "<blockquote><p>q</p></blockquote><p>p</p>"), ("x\n---\ny", "<p>x</p><hr><p>y</p>"), ("## H ##", "<h5 class=\"level-2\">H</h5>"), ("#tag", "<p>#tag</p>"),
            ("line\nline", "<p>line\nline</p>"), ("a<br>b", "<p>a<br>b</p>"), ("a < b > c & d", "<p>a &lt; b &gt; c &amp; d</p>")]:
        assert shown(text) == html, (text, shown(text))
    # What would be slow or deep in a careless parser.
    for text in ("*a " * 6000, "[" * 19000, "> " * 3000 + "x", "- " * 3000, "`" * 9000 + "x" + "`" * 8999, "$" * 9000, "|" * 9000 + "\n" + "|-" * 4500, "#" * 50000, "a\n" * 30000, "<" * 19000 + ">", "**" * 9000, "_a" * 9000):
        took = page.run(f"import('./markdown.js').then(({{ renderMarkdown }}) => {{ const from = performance.now(); document.createElement('div').append(...renderMarkdown({json.dumps(text)})); return performance.now() - from; }})")
        assert took < 1500, (text[:10], took)


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
    # On a phone the list is a drawer.
    page.click("Conversations")
    assert page.active() == "new-chat" and page.run("document.getElementById('main').inert")
    page.press("Escape")
    assert page.active() == "menu" and not page.run("document.getElementById('main').inert")


def check_settings(page, server):
    page.load()
    page.new_chat()
    page.click("Settings")
    page.until("document.getElementById('settings').open")
    assert page.run("document.getElementById('temperature').placeholder") == "0.8"
    for field, text in (("system", "Be brief."), ("temperature", "0.5"), ("top_p", "0.9"), ("top_k", "7"), ("min_p", "0.05"), ("max_tokens", "99"), ("seed", "3")):
        page.run(f"document.getElementById('{field}').focus()")
        page.type(text)
    page.press("Escape")
    page.until("!document.getElementById('settings').open")
    page.say("Hello")
    sent = {**server.requests[-1]}
    assert sent.pop("messages") == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
    assert {name: sent[name] for name in ("temperature", "top_p", "top_k", "min_p", "max_tokens", "seed")} == {"temperature": 0.5, "top_p": 0.9, "top_k": 7, "min_p": 0.05, "max_tokens": 99, "seed": 3}, sent
    page.run("document.getElementById('parameters-reset').click(); const system = document.getElementById('system'); system.value = ''; system.dispatchEvent(new Event('input'))")
    page.new_chat()
    page.say("Hello")
    assert "temperature" not in server.requests[-1] and len(server.requests[-1]["messages"]) == 1


def check_errors(page, server):
    page.new_chat()
    server.replies["Too long."] = [Refuse(400, "the prompt has 5000 tokens, and the context 4096", "context_length_exceeded")]
    page.say("Too long.")
    assert "Start a new chat" in page.texts(".error")[0]
    # What was not answered is sent once more, in one message with the next.
    server.replies["Too long.\n\nBusy."] = [[Refuse(503, "the queue is full", headers={"Retry-After": "2"})], ["At last."]]
    page.say("Busy.")
    assert "the queue is full" in page.texts(".error")[1]
    assert server.requests[-1]["messages"] == [{"role": "user", "content": "Too long.\n\nBusy."}], server.requests[-1]
    page.click("Try again", LAST)
    page.until(f"{LAST}.textContent.includes('At last.')")
    page.ready()
    assert len(page.texts()) == 4 and len(page.texts(".error")) == 1
    page.new_chat()
    server.replies["Fall."] = ["I fa", Cut()]
    page.say("Fall.")
    assert page.texts()[1] == "I fa" and "ended before" in page.texts(".error")[0], page.texts(".error")
    server.replies["Grammar."] = ["{", Refuse(500, "the grammar has no way on")]
    page.say("Grammar.")
    assert "the grammar has no way on" in page.texts(".error")[1]
    server.replies["Short."] = ["It was", {"finish": "length"}]
    page.say("Short.")
    assert "limit of tokens" in page.texts(".notes")[-1]


def check_server_states():
    """Loading, a key that is asked for, a server that is away and comes back."""
    server = fake_openai.Server()
    server.loading = 0.25
    with Page(server) as page:
        page.load()
        page.until("document.querySelector('#status progress')?.value === 0.25")
        assert page.run("document.querySelector('#status .percent').textContent") == "25 %"
        server.key, server.loading = "secret", None
        page.until("document.getElementById('key-dialog').open")
        assert page.active() == "key-asked"
        page.type("wrong")
        page.press("Enter")
        page.until("document.getElementById('key-asked').value === '' && document.getElementById('key-dialog').open")
        page.type("secret")
        page.press("Enter")
        page.until("document.getElementById('model-name').textContent !== '' && document.getElementById('status').hidden")
        page.say("With a key")
        assert page.texts()[1] == "You said: With a key"
        # The key is changed while the page is open: it is asked for again, and the message is not lost.
        server.key = "other"
        page.run("document.getElementById('input').focus()")
        page.type("Again")
        page.press("Enter")
        page.until("document.getElementById('key-dialog').open")
        page.type("other")
        page.press("Enter")
        page.until(f"{LAST}.textContent.includes('You said: Again')")
        page.ready()
        assert len(page.texts()) == 4
        server.stop()
        page.say("Anyone?")
        assert "cannot be reached" in page.texts(".error")[0]
        page.until("!document.getElementById('status').hidden")
        back = fake_openai.Server(server.server_address[1])
        back.key = "other"
        page.until("document.getElementById('status').hidden")
        page.click("Try again", LAST)
        page.until(f"{LAST}.textContent.includes('You said: Anyone?')")
        assert page.run("window.violations") == []


def check_keyboard(page, server):
    """The whole page by keyboard; everything that takes the focus has a name."""
    page.load()
    assert page.active() == "input"
    page.new_chat()
    page.say("By keys")
    order = []
    for _ in range(40):
        page.press("Tab")
        order.append(page.active())
        if order[-1] == "input":
            break
    assert "settings-open" in order and "Regenerate" in order and "new-chat" in order and order[-1] == "input", order
    assert order.index("new-chat") < order.index("settings-open") < order.index("Regenerate"), order
    nodes = page.call("Accessibility.getFullAXTree")["nodes"]
    roles = [node.get("role", {}).get("value") for node in nodes]
    assert {"navigation", "main", "banner", "article"} <= set(roles), set(roles)
    nameless = [node["role"]["value"] for node in nodes if not node["ignored"] and node["role"]["value"] in ("button", "link", "textbox", "combobox", "spinbutton", "dialog", "article", "navigation")
                and not node.get("name", {}).get("value")]
    assert nameless == [], nameless
    assert page.run("document.getElementById('announcer').textContent").startswith("The reply is complete. 2 tokens")
    page.run("document.getElementById('input').focus()")
    page.type("two")
    page.press("Enter", browser.SHIFT)
    page.type("lines")
    assert page.run("document.getElementById('input').value") == "two\nlines"
    page.press("Enter")
    page.until(f"{LAST}.textContent.includes('You said')")
    page.ready()
    assert server.requests[-1]["messages"][-1]["content"] == "two\nlines"


def check_long(page, server, folder):
    """In a long conversation a new reply touches nothing but its own element."""
    messages, parent = [], ""
    for i in range(600):
        messages.append({"id": f"m{i}", "parent": parent, "role": "user" if i % 2 == 0 else "assistant", "content": f"**{i}** " + "some words " * 40})
        parent = f"m{i}"
    path = os.path.join(folder, "long.json")
    with open(path, "w") as file:
        json.dump({"format": "moert-conversations", "version": 1, "conversations": [{"id": "long", "title": "Long", "messages": messages}]}, file)
    assert import_file(page, path) == "1 conversation imported."
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
        steps = [lambda: check_stream(page, server), lambda: check_stop(page, server), lambda: check_branches(page, server), lambda: check_kept(page),
                 lambda: check_transfer(page, folder), lambda: check_hostile(page, server), lambda: check_markdown(page, server)]
        for step in steps:
            step()
            assert page.run("window.violations") == [], page.run("window.violations")
        check_layout(page, server, arguments.shots)
        check_settings(page, server)
        check_keyboard(page, server)
        check_long(page, server, folder)
        assert page.run("window.violations") == [], page.run("window.violations")
        assert page.complaints == [], page.complaints
        check_errors(page, server)
        strange = [url for url in page.requested if not url.startswith((server.url, f"blob:{server.url}", "data:"))]
        assert page.requested and strange == [], strange
    check_server_states()


main()
