#!/usr/bin/env python3
"""Drives `moert serve` over HTTP, as clients do, and ends it with SIGTERM.

  serve.py --moert PATH --plan PLAN.fb --template FILE.jinja --work DIR

The plan must decode several sequences together. Standard library only.
"""
import argparse
import concurrent.futures
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

PROMPTS = ["In the beginning God created", "And it came to pass", "The LORD is my shepherd", "Blessed are the"]


class Server:
    def __init__(self, moert, plan, *options, program=None, pass_fds=()):
        """`program`: what starts the server instead."""
        program = program or [moert, "serve", *plan]
        self.process = subprocess.Popen([*program, "--port", "0", "--log", "json", *options],
                                        stderr=subprocess.PIPE, text=True, pass_fds=pass_fds)
        self.lines = []
        for line in self.process.stderr:
            self.lines.append(line)
            if line.startswith("serving "):
                self.base = line.split(" at ")[1].strip()
                # A program that writes to a full pipe waits.
                self.reader = threading.Thread(target=lambda: self.lines.extend(self.process.stderr), daemon=True)
                self.reader.start()
                return
        sys.exit("the server did not start:\n" + "".join(self.lines))

    def request(self, path, body=None, headers=()):
        """Returns status, headers and text of an answer."""
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json", **dict(headers)})
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, answer.headers, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read().decode()

    def json(self, path, body=None):
        status, _, text = self.request(path, body)
        assert status == 200, f"{path}: {status} {text}"
        return json.loads(text)

    def complete(self, prompt, **fields):
        return self.json("/v1/completions", {"prompt": prompt, "max_tokens": 16, "temperature": 0, **fields})

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.reader.join(60)
        assert self.process.wait(timeout=60) == 0, "".join(self.lines)
        return "".join(self.lines)


def run_alone(moert, plan, prompt):
    done = subprocess.run([moert, "run", plan, "-p", prompt, "-n", "16", "--temp", "0", "--json"],
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["text"]


def events(text):
    """The data of server-sent events."""
    return [line[len("data: "):] for line in text.split("\n") if line.startswith("data: ")]


def check_texts(server, moert, plan):
    """Texts of clients at the same time are those of moert run."""
    alone = [run_alone(moert, plan, prompt) for prompt in PROMPTS]
    with concurrent.futures.ThreadPoolExecutor(len(PROMPTS)) as pool:
        together = list(pool.map(lambda prompt: server.complete(prompt)["choices"][0]["text"], PROMPTS))
    assert together == alone, (together, alone)
    print("texts: equal")


def check_stream(server):
    whole = server.complete(PROMPTS[0])["choices"][0]["text"]
    status, headers, text = server.request("/v1/completions", {
        "prompt": PROMPTS[0], "max_tokens": 16, "temperature": 0, "stream": True,
        "stream_options": {"include_usage": True}})
    assert status == 200 and headers["Content-Type"].startswith("text/event-stream"), headers
    *chunks, last = events(text)
    assert last == "[DONE]", last
    chunks = [json.loads(chunk) for chunk in chunks]
    streamed = "".join(choice["text"] for chunk in chunks for choice in chunk["choices"])
    assert streamed == whole, (streamed, whole)
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["completion_tokens"] == 16, chunks[-1]
    print("stream: equal")


def check_prefix(server):
    """A prompt that goes on after an earlier text is not evaluated again."""
    prompt = " ".join(PROMPTS) + " " + " ".join(reversed(PROMPTS)) + " for ever and ever,"
    server.complete(prompt)
    usage = server.complete(prompt + " and the people said unto him,")["usage"]
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    assert cached >= usage["prompt_tokens"] - 20 > 0, usage
    print("prefix: kept")


def check_schema(server):
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer",
              "minimum": 0, "maximum": 999}}, "required": ["name", "age"], "additionalProperties": False}
    # Such a small model fills its context with the blanks that JSON allows.
    blanks = {str(server.json("/tokenize", {"content": f"a{blank}"})["tokens"][-1]): -100 for blank in "\t\n\r "}
    answer = server.complete("A man:", max_tokens=200, temperature=1, seed=5, logit_bias=blanks, response_format={
        "type": "json_schema", "json_schema": {"name": "man", "schema": schema, "strict": True}})
    value = json.loads(answer["choices"][0]["text"])
    assert set(value) == {"name", "age"} and value["age"] == int(value["age"]), value
    status, _, text = server.request("/v1/completions", {"prompt": "x", "response_format": {
        "type": "json_schema", "json_schema": {"name": "n", "schema": {"$ref": "#/$defs/gone"}}}})
    assert status == 400 and "gone" in json.loads(text)["error"]["message"], (status, text)
    print("schema: held")


def check_template(server, moert, plan, work):
    """A model without a chat template of its own chats by one that is given."""
    answer = server.json("/v1/chat/completions", {"messages": [{"role": "user", "content": "Who art thou?"}],
                                                  "max_tokens": 8, "temperature": 0})
    assert answer["choices"][0]["message"]["content"], answer
    prompt = server.json("/apply-template", {"messages": [{"role": "user", "content": "Go."}]})["prompt"]
    assert prompt.endswith("And they said unto him, Go.\nAnd he answered and said unto them,"), prompt
    wrong = os.path.join(work, "wrong.jinja")
    with open(wrong, "w") as file:
        file.write("{% for %}")
    done = subprocess.run([moert, "serve", plan, "--port", "0", "--chat-template", wrong],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode != 0 and "wrong.jinja: chat template: line 1, column 8" in done.stderr, done.stderr
    print("template: given")


def check_errors(server):
    for path, body, status in (("/v1/completions", b"{", 400), ("/v1/completions", {"prompt": 7}, 400),
                               ("/v1/nowhere", {}, 404), ("/v1/completions", None, 405)):
        got, _, text = server.request(path, body)
        error = json.loads(text)["error"]
        assert got == status and error["message"], (path, got, text)
    status, _, _ = server.request("/v1/models", headers=[("Host", "evil.example.org")])
    assert status == 403, status
    status, _, _ = server.request("/v1/completions", {"prompt": "x"}, headers=[("Origin", "https://evil.example.org")])
    assert status == 403, status
    print("errors: clear")


def check_monitor(server, name):
    assert server.json("/health")["status"] == "ok"
    assert [model["id"] for model in server.json("/v1/models")["data"]] == [name]
    assert "moert_" in server.request("/metrics")[2]
    status, headers, page = server.request("/")
    assert status == 200 and "<title>" in page and "script-src 'self'" in headers["Content-Security-Policy"], headers
    status, headers, page = server.request("/placement")
    policy = headers["Content-Security-Policy"]
    nonce = policy.split("'nonce-")[1].split("'")[0]
    assert status == 200 and page.count("<script") == page.count(f'<script nonce="{nonce}"') > 0, headers
    assert "default-src 'none'" in policy and "script-src 'nonce-" in policy, policy
    assert server.request("/placement?model=other")[0] == 404
    print("monitor: there")


def check_models(moert, plan, work):
    """Plans of a folder are loaded when a request names them, and unloaded when idle."""
    folder = os.path.join(work, "plans")
    os.makedirs(folder, exist_ok=True)
    stem = os.path.splitext(plan)[0]
    for name in ("one", "two"):
        shutil.copy(plan, os.path.join(folder, name + ".fb"))
    server = Server(moert, ["--models", folder], "--idle", "0.01", "--weights-file", stem + ".weights")
    try:
        def loaded():
            return [model["name"] for model in server.json("/api/ps")["models"]]
        assert [model["id"] for model in server.json("/v1/models")["data"]] == ["one", "two"]
        assert loaded() == []
        texts = [server.complete(PROMPTS[0], model=name)["choices"][0]["text"] for name in ("two", "one")]
        assert len(set(texts)) == 1 and texts[0], texts
        status, _, text = server.request("/v1/completions", {"model": "three", "prompt": "x"})
        assert status == 404 and "three" in json.loads(text)["error"]["message"], (status, text)
        deadline = time.monotonic() + 60
        while loaded():
            assert time.monotonic() < deadline, "idle models stay loaded"
            time.sleep(0.05)
        server.stop()
    finally:
        server.process.kill()
    print("models: on demand")


def check_database(moert, plan, work):
    """What clients keep survives a server that is killed while it writes."""
    path = os.path.join(work, "kept.db")
    for suffix in ("", "-wal"):
        if os.path.exists(path + suffix):
            os.remove(path + suffix)
    server = Server(moert, [plan], "--alias", "kjv", "--database", path)
    made, stop = [], threading.Event()

    def write():
        while not stop.is_set():
            try:
                made.append(server.json("/v1/assistants", {"model": "kjv", "instructions": "x" * 2000})["id"])
            except (OSError, http.client.HTTPException):
                return

    writer = threading.Thread(target=write)
    writer.start()
    while len(made) < 20:
        assert writer.is_alive(), "the writer ended"
    server.process.kill()
    server.process.wait()
    stop.set()
    writer.join()
    second = Server(moert, [plan], "--alias", "kjv", "--database", path)
    try:
        for name in made:
            assert second.json("/v1/assistants/" + name)["instructions"] == "x" * 2000
        refused = subprocess.run([moert, "serve", plan, "--port", "0", "--database", path], capture_output=True, text=True)
        assert refused.returncode == 2 and "another process has this database" in refused.stderr, refused
        second.stop()
    finally:
        second.process.kill()
    print("database: kept")


def check_activation(moert, plan):
    """A socket that a service manager made is taken over, as systemd hands it over."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        start = f'exec 3<&{listener.fileno()}; LISTEN_FDS=1 LISTEN_PID=$$ exec "$0" "$@"'
        server = Server(moert, [plan], program=["sh", "-c", start, moert, "serve", plan], pass_fds=[listener.fileno()])
        try:
            assert server.base == f"http://127.0.0.1:{listener.getsockname()[1]}", server.base
            assert server.json("/health")["status"] == "ok"
            server.stop()
        finally:
            server.process.kill()
    print("activation: taken over")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--moert", "--plan", "--template", "--work"):
        p.add_argument(name, required=True)
    a = p.parse_args()
    os.makedirs(a.work, exist_ok=True)
    server = Server(a.moert, [a.plan], "--alias", "kjv", "--cache-dir", os.path.join(a.work, "cache"),
                    "--chat-template", a.template)
    try:
        check_monitor(server, "kjv")
        check_texts(server, a.moert, a.plan)
        check_stream(server)
        check_prefix(server)
        check_schema(server)
        check_template(server, a.moert, a.plan, a.work)
        check_errors(server)
        log = server.stop()
    finally:
        server.process.kill()
    secrets = [prompt for prompt in PROMPTS if prompt in log]
    assert not secrets, f"the log has prompts: {secrets}"
    print("log: no prompts")
    check_models(a.moert, a.plan, a.work)
    check_database(a.moert, a.plan, a.work)
    check_activation(a.moert, a.plan)
    print("serve: ok")


if __name__ == "__main__":
    main()
