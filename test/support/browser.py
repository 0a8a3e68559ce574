"""A headless Chromium, controlled over the pipe of its DevTools protocol."""
import base64
import json
import os
import shutil
import subprocess
import tempfile

NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]


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
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        while self.receive().get("method") != "Page.loadEventFired":
            pass

    def run(self, script):
        """Returns the value of an expression, which may be a promise."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"]))
        return result["result"].get("value")

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode={
                "ArrowRight": 39, "ArrowLeft": 37, "Home": 36, "End": 35, "Enter": 13}[key], **({"text": "\r"} if key == "Enter" and kind == "keyDown" else {}))

    def screenshot(self, path, whole=True, **clip):
        image = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole, **clip)
        with open(path, "wb") as file:
            file.write(base64.b64decode(image["data"]))
