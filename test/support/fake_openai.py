"""A server of scripted chats with moert serve's OpenAI interface and its web page, for tests of the page."""
import http.server
import json
import os
import socket
import threading

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PAGE = os.path.join(ROOT, "runtime", "serve", "page")
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data:; connect-src 'self'; "
          "base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".svg": "image/svg+xml", ".woff2": "font/woff2", ".txt": "text/plain; charset=utf-8"}
CONTEXT = 4096
PATIENCE = 30  # Seconds for which a script waits for the test.


def page_files():
    """Paths of the page's files by the path that is served: the folder, and what libraries.txt names."""
    files = {"/" + name: os.path.join(PAGE, name) for name in os.listdir(PAGE) if name != "libraries.txt"}
    files["/"] = files["/index.html"]
    for line in open(os.path.join(PAGE, "libraries.txt")):
        if line.strip() and not line.startswith("#"):
            name, path = line.split()
            files["/" + name] = path
    return files


class Think(str):
    """Text of the reasoning."""


class Refuse:
    """An answer that is an error."""

    def __init__(self, status, message, code=None, headers={}):
        self.status, self.headers = status, headers
        self.body = {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}


class Cut:
    """The connection ends here."""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        self.server.connections.append(self.connection)

    def log_message(self, *_):
        pass

    def send(self, status, kind, body, headers={}):
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_json(self, value, status=200, headers={}):
        self.send(status, "application/json", json.dumps(value).encode(), headers)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        files, path = self.server.files, self.path.split("?")[0]
        if path in files:
            with open(files[path], "rb") as file:
                self.send(200, TYPES[os.path.splitext(path)[1] or ".html"], file.read(),
                          {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff"})
        elif path == "/health":
            loading = self.server.loading
            self.send_json({"status": "ok"} if loading is None else {"status": "loading", "progress": loading}, 200 if loading is None else 503)
        elif path == "/placement":
            self.send(200, TYPES[".html"], b"<!doctype html><title>Placement</title>")
        elif not self.may_enter():
            return
        elif path == "/v1/models":
            self.send_json({"object": "list", "data": [{"id": name, "object": "model"} for name in self.server.models]})
        elif path == "/props":
            self.send_json({"default_generation_settings": {"n_ctx": CONTEXT, "params": {"temperature": 0.8, "top_k": 40}}})
        else:
            self.send_json(Refuse(404, "there is no such page").body, 404)

    def may_enter(self):
        key = self.server.key
        if key and self.headers.get("Authorization") != f"Bearer {key}":
            self.send_json(Refuse(401, "this server asks for an API key").body, 401, {"WWW-Authenticate": "Bearer"})
            return False
        return True

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.may_enter():
            return
        if self.server.loading is not None:
            self.send_json(Refuse(503, "the model is being loaded").body, 503)
            return
        self.server.requests.append(request)
        script = self.server.script(request)
        if script and isinstance(script[0], Refuse):
            self.send_json(script[0].body, script[0].status, script[0].headers)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            self.stream(request, script)
        except (BrokenPipeError, ConnectionResetError):
            self.server.gone.set()
        self.close_connection = True

    def event(self, value):
        self.wfile.write(f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode())
        self.wfile.flush()

    def chunk(self, delta, finish=None):
        self.event({"id": "1", "object": "chat.completion.chunk", "created": 1, "model": self.server.models[0],
                    "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    def stream(self, request, script):
        self.chunk({"role": "assistant"})
        count, finish = 0, "stop"
        for step in script:
            if isinstance(step, threading.Event):
                assert step.wait(PATIENCE), "the test did not go on"
            elif isinstance(step, Cut):
                return
            elif isinstance(step, Refuse):
                self.event(step.body)
                return
            elif isinstance(step, dict):
                finish = step["finish"]
            else:
                self.chunk({"reasoning_content" if isinstance(step, Think) else "content": step})
                count += 1
        self.chunk({}, finish)
        prompt = sum(len(message["content"].split()) for message in request["messages"])
        self.event({"id": "1", "object": "chat.completion.chunk", "created": 1, "model": self.server.models[0], "choices": [],
                    "usage": {"prompt_tokens": prompt, "completion_tokens": count, "total_tokens": prompt + count,
                              "prompt_tokens_details": {"cached_tokens": prompt // 2}},
                    "timings": {"prompt_n": prompt - prompt // 2, "prompt_ms": 20.0, "predicted_n": count, "predicted_ms": 25.0 * (count - 1), "cache_n": prompt // 2}})
        self.event("[DONE]")


class Server(http.server.ThreadingHTTPServer):
    """`replies`: by the last message, a list of texts, Think, events to wait for, {"finish": reason}, Refuse, Cut."""
    daemon_threads = True

    def __init__(self, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.files = page_files()
        self.models = ["tiny-kjv-q4_k_m"]
        self.key = ""
        self.loading = None  # None, or the model part that is being loaded.
        self.connections = []
        self.requests = []  # Requests for chats.
        self.replies = {}
        self.gone = threading.Event()  # Set when a client leaves in the middle of a reply.
        self.url = f"http://127.0.0.1:{self.server_address[1]}/"
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def script(self, request):
        last = request["messages"][-1]["content"]
        reply = self.replies.get(last, ["You said: ", last])
        return reply.pop(0) if reply and isinstance(reply[0], list) else reply

    def stop(self):
        """As if the process had ended."""
        self.shutdown()
        self.server_close()
        for connection in self.connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # The connection is closed already.

    def handle_error(self, *_):
        pass  # Browsers reset connections that they do not need any more.
