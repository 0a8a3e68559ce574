#!/usr/bin/env python3
"""Shows that heavy and hostile requests to `moert serve` keep others neither waiting nor short of memory.

  serve_hostile.py PLAN.fb [--moert PATH] [--only NAME] [--check]

While each load runs, two other clients stream a text, and /health is asked ten times a second. A row a load: how long it
took, the answers by status, the longest time of /health, the longest gap between two tokens of the streams, and the most
memory beside what the server had with the two streams alone. With --check it fails where /health takes more than 100 ms,
a gap is above 1 s or memory above 256 MiB. Linux; standard library only.
"""
import argparse
import collections
import http.client
import json
import random
import socket
import subprocess
import sys
import threading
import time

MIB = 1 << 20
HEALTH_SECONDS, GAP_SECONDS, MEMORY = 0.1, 1.0, 256 * MIB


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Server:
    def __init__(self, moert, plan):
        self.port = free_port()
        self.process = subprocess.Popen([moert, "serve", plan, "--port", str(self.port), "--log", "off"],
                                        stderr=subprocess.DEVNULL)
        while True:
            try:
                if self.request("GET", "/health")[0] == 200:
                    return
            except OSError:
                pass
            if self.process.poll() is not None:
                sys.exit("the server did not start")
            time.sleep(0.05)

    def request(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def resident(self, most=False):
        """Bytes of memory, now or at most since clear_most()."""
        if self.process.poll() is not None:
            return 0
        with open(f"/proc/{self.process.pid}/status") as status:
            fields = dict(line.split(":", 1) for line in status)
        return int(fields["VmHWM" if most else "VmRSS"].split()[0]) * 1024

    def clear_most(self):
        with open(f"/proc/{self.process.pid}/clear_refs", "w") as file:
            file.write("5")

    def has_ended(self):
        return self.process.poll() is not None

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


class Watch:
    """Two streams and a monitor, beside which something else happens."""

    def __init__(self, server):
        self.server, self.running = server, True
        self.gaps, self.health = [0.0], [0.0]
        self.threads = [threading.Thread(target=self.stream, args=(i,)) for i in range(2)]
        self.threads.append(threading.Thread(target=self.monitor))
        self.begun = threading.Barrier(3)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        self.begun.wait(120)
        return self

    def __exit__(self, *_):
        self.running = False
        for thread in self.threads:
            thread.join()

    def stream(self, index):
        last = None
        while self.running and not self.server.has_ended():
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=300)
            connection.request("POST", "/v1/completions", json.dumps(
                {"prompt": f"Story {index}: once upon a time", "max_tokens": 2000, "stream": True, "ignore_eos": True}))
            answer = connection.getresponse()
            while self.running:
                line = answer.readline()
                if not line:
                    break
                if not line.startswith(b"data:"):
                    continue
                now = time.monotonic()
                if last is None:
                    self.begun.wait(120)
                else:
                    self.gaps.append(now - last)
                last = now
            connection.close()

    def monitor(self):
        while self.running and not self.server.has_ended():
            start = time.monotonic()
            status, _ = self.server.request("GET", "/health")
            assert status == 200, status
            self.health.append(time.monotonic() - start)
            time.sleep(0.1)


def text_body(size):
    """One long prompt."""
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 9))) for _ in range(20000)]
    text = []
    while size > 0:
        text.append(draw.choice(words))
        size -= len(text[-1]) + 1
    return json.dumps({"prompt": " ".join(text), "max_tokens": 1})


def members_body(size):
    """Objects of as many members as one may have."""
    one = "{" + ",".join(f'"k{i}":1' for i in range(4999)) + "}"
    return '{"prompt":"a","max_tokens":1,"x":[' + ",".join([one] * (size // len(one))) + "]}"


def schema_body(schema):
    return json.dumps({"prompt": "a", "max_tokens": 1, "response_format":
                       {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}})


def regex_body(index):
    """A pattern of about a kilobyte, none like another."""
    return json.dumps({"prompt": "a", "max_tokens": 4, "regex": f"({'[a-z ]{0,30}' * 40}x{index}){{0,20}}"})


def prompts_body(choices):
    return json.dumps({"prompt": ["p" * 500] * 2048, "n": choices, "max_tokens": 1})


def loads():
    """Bodies that are sent together, by name."""
    yield "two bodies of 16 MB, members", [members_body(16 * MIB)] * 2
    yield "two bodies of 16 MB, text", [text_body(16 * MIB)] * 2
    yield "a body of 32 MB, members", [members_body(32 * MIB)]
    yield "a body of 32 MB, text", [text_body(32 * MIB)]
    yield "60 regexes", [regex_body(i) for i in range(60)]
    yield "schema of 200,000 items", [schema_body({"type": "array", "prefixItems": [{"type": "null"}] * 200_000})]
    yield "schema of 200,000 names", [schema_body({"type": "object", "required": [f"a{i}" for i in range(200_000)]})]
    yield "regex of 200,000 words", [json.dumps({"prompt": "a", "regex": "|".join(f"a{i}" for i in range(200_000))})]
    yield "2,048 prompts x 128", [prompts_body(128)] * 4


def send(server, bodies):
    """Sends bodies at the same time and returns how many answers had which status."""
    statuses = collections.Counter()

    def one(body):
        try:
            statuses[server.request("POST", "/v1/completions", body)[0]] += 1
        except OSError as error:
            statuses[type(error).__name__] += 1

    threads = [threading.Thread(target=one, args=(body.encode(),)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statuses


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("plan")
    parser.add_argument("--moert", default="moert")
    parser.add_argument("--only", default="", help="loads whose name has this text")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    failed = False
    print("| load | seconds | answers | /health ms | longest gap ms | memory MiB |\n|---|---|---|---|---|---|")
    for name, bodies in loads():
        if arguments.only not in name:
            continue
        server = Server(arguments.moert, arguments.plan)
        try:
            with Watch(server) as watch:
                time.sleep(1)
                before = server.resident()
                server.clear_most()
                watch.gaps, watch.health = [0.0], [0.0]
                start = time.monotonic()
                statuses = send(server, bodies)
                seconds = time.monotonic() - start
                time.sleep(1)
                memory = server.resident(most=True) - before
                ended = server.has_ended()
            health, gap = max(watch.health), max(watch.gaps)
        finally:
            server.stop()
        answers = ", ".join(f"{count} x {status}" for status, count in sorted(statuses.items(), key=str))
        isBad = ended or health > HEALTH_SECONDS or gap > GAP_SECONDS or memory > MEMORY
        failed |= isBad
        name += " (the server ended)" if ended else ""
        print(f"| {name} | {seconds:.1f} | {answers} | {health * 1000:.0f} | {gap * 1000:.0f} | {memory / MIB:.0f}"
              f"{' (!)' if isBad else ''} |", flush=True)
    sys.exit(arguments.check and failed)


if __name__ == "__main__":
    main()
