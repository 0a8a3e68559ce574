"""Replicas of `moert serve`, a proxy before them, and clients that say what became of their requests."""
import http.client
import http.server
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

SECONDS = 60 # Nothing here takes that long unless it hangs.


def wait_for(what, condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited for {SECONDS} seconds: {what}"
        time.sleep(0.01)


def free_ports(count):
    """Ports below those that systems give to clients, so that a replica finds its own again."""
    found = []
    for port in range(15000 + os.getpid() * 16 % 15000, 32000):
        with socket.socket() as tried:
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
            if len(found) == count:
                return found
    sys.exit("no free ports")


class Replica:
    def __init__(self, moert, plan, port, log):
        self.command = [moert, "serve", plan, "--port", str(port), "--log", "off"]
        self.port, self.log, self.process = port, log, None

    def start(self, *options):
        with open(self.log, "a") as log:
            self.process = subprocess.Popen([*self.command, *options], stderr=log)
        wait_for(f"the replica at {self.port} is ready", self.is_ready)

    def is_healthy(self):
        assert self.process.poll() is None, open(self.log).read()
        try:
            return self.get("/health")[0] == 200
        except OSError:
            return False

    def is_ready(self):
        if not self.is_healthy():
            return False
        assert self.get("/metrics")[1], "the replica calls itself healthy before its model is loaded"
        return True

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def count(self, metric):
        """A metric; those of one model are all here."""
        return float(re.search(rf"^moert_{metric}{{.*}} (\S+)$", self.get("/metrics")[1], re.MULTILINE).group(1))

    def running(self):
        return sum(slot["is_processing"] for slot in json.loads(self.get("/slots")[1]))

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def begin_drain(self):
        self.process.send_signal(signal.SIGTERM)

    def wait_drained(self):
        code = self.process.wait(timeout=SECONDS)
        assert code == 0, f"status {code} after SIGTERM: {open(self.log).read()}"


class PacedReplica:
    """In a replica's place: a stream of two pieces, of which the second one is sent when the test says so."""

    FIRST, LAST = b'data: {"choices":[]}\n\n', b'data: {"error":{"message":"the end"}}\n\n'

    def __init__(self, port):
        self.go_on = threading.Event()
        paced = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.send_header("Connection", "close")
                self.end_headers()

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Transfer-Encoding", "chunked")
                # No connection may outlive this replica.
                self.send_header("Connection", "close")
                self.end_headers()
                for piece in (paced.FIRST, paced.LAST):
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                    paced.go_on.wait(SECONDS)
                self.wfile.write(b"0\r\n\r\n")

            def log_message(self, *words):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error):
        self.go_on.set()
        self.server.shutdown()
        self.server.server_close()


class Proxy:
    """haproxy or nginx with the file of the project, which only ports are changed in."""

    def __init__(self, kind, config, ports, work):
        self.port, *replicas = ports
        self.log = os.path.join(work, kind + ".log")
        environment = dict(os.environ)
        if kind == "haproxy":
            environment["MOERT_LISTEN"] = f"127.0.0.1:{self.port}"
            for number, port in enumerate(replicas, 1):
                environment[f"MOERT_REPLICA_{number}"] = f"127.0.0.1:{port}"
            check, run = ["haproxy", "-c", "-f", config], ["haproxy", "-db", "-f", config]
        else:
            main = self.write_nginx(config, work, dict(zip(("8000", "8081", "8082"), map(str, ports))))
            check, run = ["nginx", "-t", "-p", work, "-c", main], ["nginx", "-p", work, "-c", main]
        checked = subprocess.run(check, env=environment, capture_output=True, text=True)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(run, env=environment, stdout=log, stderr=log)
        wait_for(f"{kind} answers", self.is_up)

    @staticmethod
    def write_nginx(config, work, ports):
        with open(config) as file:
            text = file.read()
        for shipped, used in ports.items():
            assert f"127.0.0.1:{shipped}" in text, shipped
            text = text.replace(f"127.0.0.1:{shipped}", f"127.0.0.1:{used}")
        with open(os.path.join(work, "site.conf"), "w") as file:
            file.write(text)
        temporary = "".join(f" {name}_temp_path {name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        main = os.path.join(work, "main.conf")
        with open(main, "w") as file:
            file.write("daemon off; pid nginx.pid; error_log stderr; worker_processes 2;\n"
                       + ("user root;\n" if os.geteuid() == 0 else "")
                       + f"events {{ }}\nhttp {{ access_log off;{temporary} include site.conf; }}\n")
        return main

    def is_up(self):
        assert self.process.poll() is None, open(self.log).read()
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS).close()
            return True
        except OSError:
            return False

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Request:
    """One request for text of a known length, which ends in one of these ways:

      whole    all of it came
      cut      a part of a stream came, and then an error or the end of the connection before the
               end of the answer: the client knows
      refused  status 503 with Retry-After and an error in OpenAI's form
      lost     anything else
    """

    def __init__(self, port, session, stream, tokens=16, choices=1, key=None, **fields):
        self.stream, self.total, self.outcome, self.text = stream, tokens * choices, None, b""
        body = {"prompt": "In the beginning", "max_tokens": tokens, "n": choices, "ignore_eos": True, "stream": stream, **fields}
        if stream:
            body["stream_options"] = {"include_usage": True}
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        headers = {"Content-Type": "application/json"}
        if session is not None:
            headers["X-Session-Id"] = session
        if key is not None:
            headers["Authorization"] = "Bearer " + key
        # White space changes nothing, and makes the body larger than a proxy's usual buffer.
        self.connection.request("POST", "/v1/completions", json.dumps(body) + " " * 100_000, headers)

    def read_some(self):
        """Waits for the first bytes of the answer's body."""
        self.answer = self.connection.getresponse()
        self.text = self.answer.read1()

    def leave(self):
        self.connection.close()

    def finish(self):
        try:
            if not self.text:
                self.read_some()
            while piece := self.answer.read1():
                self.text += piece
            self.outcome = self.judge(self.answer.status, self.text.decode())
        except http.client.IncompleteRead:
            self.outcome = "cut" if self.stream else "lost: a part of an answer"
        except (OSError, http.client.HTTPException) as error:
            self.outcome = "cut" if self.text and self.stream else f"lost: {error!r}"
        self.connection.close()
        return self.outcome

    def judge(self, status, text):
        if status == 503 and self.answer.headers["Retry-After"] and json.loads(text)["error"]["message"]:
            return "refused"
        if status != 200:
            return f"lost: status {status}: {text}"
        if self.stream:
            chunks = [line[len("data: "):] for line in text.split("\n") if line.startswith("data: ")]
            if "error" in json.loads(chunks[-1] if chunks[-1] != "[DONE]" else "{}"):
                return "cut"
            if chunks[-1] != "[DONE]":
                return "lost: a part of a stream looks like all of it"
            usage = json.loads(chunks[-2])["usage"]
        else:
            usage = json.loads(text)["usage"]
        return "whole" if usage["completion_tokens"] == self.total else f"lost: {usage}"
