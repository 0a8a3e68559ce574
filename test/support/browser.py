"""A headless Chromium, controlled over the pipe of its DevTools protocol."""
import base64
import json
import os
import shutil
import subprocess
import tempfile

NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
KEYS = {"ArrowRight": 39, "ArrowLeft": 37, "Home": 36, "End": 35, "Enter": 13, "Escape": 27, "Tab": 9, "k": 75}
TEXT_OF_KEY = {"Enter": "\r"}
CTRL, SHIFT = 2, 8  # Values of press() for modifier keys.

# Elements that reach beyond the window and are not in one that matches {skipped}, and text of
# elements that match {texts} with too little contrast to its background: WCAG requires 4.5.
WIDE = """[...document.querySelectorAll("body *")].filter((e) => !e.closest({skipped}) && e.getBoundingClientRect().right > innerWidth + 1)
  .map((e) => e.tagName + "#" + e.id + "." + e.className)"""
FAINT = """(() => {{
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => {{ for (; e; e = e.parentElement) {{ const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; }} return [255, 255, 255]; }};
  return [...document.querySelectorAll({texts})]
    .filter((e) => e.textContent.trim() && e.getClientRects().length)
    .filter((e) => {{ const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x); return (a + 0.05) / (b + 0.05) < 4.5; }})
    .map((e) => e.tagName + ": " + e.textContent.slice(0, 40));
}})()"""


def find():
    """Returns the path of an installed browser, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page; errors and warnings on its console are in `complaints`."""

    def __init__(self, program):
        self.folder = tempfile.mkdtemp(prefix="moe-browser-")
        # The protocol's descriptors are 3 and 4. Before the child runs, they are ours.
        to_child, self.out = os.pipe()
        self.input, from_child = os.pipe()
        command = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                   "--disable-background-networking", "--hide-scrollbars", "--remote-debugging-pipe", "--user-data-dir=" + self.folder, "about:blank"]
        shell = ["sh", "-c", f'exec "$@" 3<&{to_child} 4>&{from_child}', "sh", *command]
        self.process = subprocess.Popen(shell, pass_fds=(to_child, from_child), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_child)
        os.close(from_child)
        self.pending = b""
        self.number = 0
        self.complaints = []
        self.session = None
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.out)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.input)
        shutil.rmtree(self.folder, ignore_errors=True)

    def receive(self):
        while b"\0" not in self.pending:
            read = os.read(self.input, 1 << 20)
            if not read:
                raise RuntimeError("the browser ended")
            self.pending += read
        message, _, self.pending = self.pending.partition(b"\0")
        event = json.loads(message)
        if event.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
            self.complaints.append(event["params"])
        if event.get("method") == "Runtime.consoleAPICalled" and event["params"]["type"] in ("error", "warning", "assert"):
            self.complaints.append(event["params"])
        return event

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            event = self.receive()
            if event.get("id") == self.number:
                if "error" in event:
                    raise RuntimeError(f"{method}: {event['error']['message']}")
                return event["result"]

    def show(self, path, width, height, scheme="light"):
        """Loads a file in a window of the given size in CSS pixels."""
        self.open("file://" + os.path.abspath(path), width, height, scheme)

    def open(self, url, width, height, scheme="light"):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=url)
        while self.receive().get("method") != "Page.loadEventFired":
            pass

    def wide(self, skipped):
        return self.run(WIDE.format(skipped=json.dumps(skipped)))

    def faint(self, texts):
        return self.run(FAINT.format(texts=json.dumps(texts)))

    def run(self, script):
        """Returns the value of an expression, which may be a promise."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"]))
        return result["result"].get("value")

    def press(self, key, modifiers=0):
        for kind in ("keyDown", "keyUp"):
            text = {"text": TEXT_OF_KEY[key]} if key in TEXT_OF_KEY and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, modifiers=modifiers, windowsVirtualKeyCode=KEYS[key], **text)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def screenshot(self, path, whole=True, **clip):
        image = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole, **clip)
        with open(path, "wb") as file:
            file.write(base64.b64decode(image["data"]))
