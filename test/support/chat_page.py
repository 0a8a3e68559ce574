"""The web page of moert serve in a headless browser, as its tests use it."""
import json

import browser

DESKTOP = (1280, 860)
PHONE = (360, 740)
SECONDS = 20  # Time within which elements must appear.
RECORD_VIOLATIONS = "window.violations = []; document.addEventListener('securitypolicyviolation', (event) => violations.push(event.violatedDirective + ' ' + event.blockedURI))"
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

    def import_file(self, path):
        """Returns what the page says of a file of conversations."""
        self.run("document.getElementById('notice').hidden = true")
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector="#import-file")["nodeId"]
        self.call("DOM.setFileInputFiles", files=[path], nodeId=node)
        self.until("!document.getElementById('notice').hidden")
        return self.run("document.querySelector('#notice span').textContent")

    def check_policy(self):
        """Nothing was asked of other servers, and nothing that the Content-Security-Policy forbids was tried."""
        assert self.run("window.violations") == [], self.run("window.violations")
        strange = [url for url in self.requested if not url.startswith((self.server.url, f"blob:{self.server.url}", "data:"))]
        assert self.requested and strange == [], strange
