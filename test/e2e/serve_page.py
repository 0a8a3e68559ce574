#!/usr/bin/env python3
"""Converses on the web page of `moert serve` as people do, with a server whose replies are scripted."""
import json
import os
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import browser
import fake_openai
from chat_page import LAST, SECONDS, Page
from fake_openai import Cut, Refuse, Think


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
    page.press("Enter")  # A reply is on its way, so that nothing is sent.
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
    assert page.active() == "input"  # The button that had the focus has disappeared.
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
    assert page.active() == "Numbers"
    # Another tab gets a message about changes.
    page.run("window.told = []; new BroadcastChannel('moert').onmessage = ({ data }) => told.push(data)")
    page.new_chat()
    page.say("Tell")
    page.until("told.length === 1")
    page.click("Delete “Tell”")
    page.until("told.length === 2 && told[0] === told[1]")
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


def check_list(page, server):
    """The list is made anew when a reply ends: a name that is being typed stays, and so does the focus."""
    page.new_chat()
    for answer in ("one", "two"):
        go = threading.Event()
        server.replies["Wait."] = ["a ", go, answer]
        page.run("document.getElementById('input').focus()")
        page.type("Wait.")
        page.press("Enter")
        page.until(f"{LAST}?.getAttribute('aria-busy') === 'true'")
        if answer == "one":
            page.click("Rename “Numbers”")
            page.type("Other")
        else:
            page.run("document.querySelector('#conversations [aria-label=\"Delete “Numbers”\"]').focus()")
        go.set()
        page.ready()
        assert page.active() == ("Name of the conversation" if answer == "one" else "Delete “Numbers”"), page.active()
        if answer == "one":
            page.press("Escape")
            assert page.active() == "Numbers"
    page.click("Delete “Wait.”")


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
    assert page.import_file(path) == "All conversations of this file are here already."
    for title in ("Numbers", "How are you?", "Name a colour."):
        page.click(f"Delete “{title}”")
    assert page.import_file(path) == "3 conversations imported."
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
        assert message in page.import_file(broken), message
    assert page.run("document.querySelectorAll('#conversations .title').length") == 3


def check_settings(page, server):
    page.load()
    page.new_chat()
    page.click("Settings")
    page.until("document.getElementById('settings').open")
    # The server's own values are shown once /props has answered.
    page.until("document.getElementById('temperature').placeholder == '0.8'")
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
    # An unanswered message is sent once more, in one message with the next.
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
        server.loading = 0.5
        page.say("Too early")
        assert "still loading" in page.texts(".error")[0]
        page.until("!document.getElementById('status').hidden")
        server.loading = None
        page.until("document.getElementById('status').hidden")
        page.click("Try again", LAST)
        page.until(f"{LAST}.textContent.includes('You said: Too early')")
        page.ready()
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


def main():
    server = fake_openai.Server()
    with Page(server) as page, tempfile.TemporaryDirectory() as folder:
        page.load()
        check_stream(page, server)
        check_stop(page, server)
        check_branches(page, server)
        check_kept(page)
        check_list(page, server)
        check_transfer(page, folder)
        check_settings(page, server)
        check_keyboard(page, server)
        assert page.complaints == [], page.complaints
        check_errors(page, server)
        page.check_policy()
    check_server_states()


main()
