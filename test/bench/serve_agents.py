#!/usr/bin/env python3
"""Puts the traffic of coding agents on `moert serve`: long conversations that grow by calls of tools, with titles and a
subagent between their turns, clients that leave and try again, and several keys.

  serve_agents.py PLAN.fb [--moert PATH] [--seconds 600] [--agents 4] [--tools 100] [--most TOKENS] [--check]
                  [--gap 1] [options of moert serve]

Each agent has a key, a system prompt and tools of its own and streams /v1/chat/completions. It begins with a short
prompt, and each turn adds the reply and a tool's result until the prompt has --most tokens (default: six tenths of the
context); then it begins another conversation. After some turns it asks for a title, or a subagent asks for
something under another system prompt. One request in eight is given up halfway and sent again. The table says what came
of it; with --check it fails where a request is lost, something still runs or holds pages afterwards, a stream stops for
more than --gap seconds while it generates, a turn finds less than 95 % of the earlier prompt although the cache has room for all
conversations, or memory grows by more than 256 MiB beside the KV cache. Standard library only.
"""
import argparse
import collections
import http.client
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from serve_hostile import MIB, Server, free_port

WORDS = ("file line function return value table error test index buffer parse branch commit merge result path name "
         "module class method string number list object call check read write search replace").split()


class KeyedServer(Server):
    def __init__(self, moert, plan, keys, options):
        with tempfile.NamedTemporaryFile("w", suffix=".keys", delete=False) as file:
            file.writelines(f"agent{i}:secret-{i}\n" for i in range(keys))
        os.chmod(file.name, 0o600)
        self.port = free_port()
        self.process = subprocess.Popen(
            [moert, "serve", plan, "--port", str(self.port), "--log", "off", "--api-key-file", file.name,
             "--public-metrics", *options], stderr=subprocess.DEVNULL)
        while self.process.poll() is None:
            try:
                if self.request("GET", "/health")[0] == 200:
                    break
            except OSError:
                time.sleep(0.05)
        os.remove(file.name)
        if self.has_ended():
            sys.exit("the server did not start")

    def metric(self, name):
        for line in self.request("GET", "/metrics")[1].decode().splitlines():
            if line.startswith((name + "{", name + " ")):
                return float(line.split()[-1])
        raise KeyError(name)


class Report:
    def __init__(self):
        self.lock = threading.Lock()
        self.statuses = collections.Counter()
        self.gaps, self.firsts, self.found, self.lost = [0.0], [], [], []

    def add(self, **values):
        with self.lock:
            for name, value in values.items():
                getattr(self, name).append(value)

    def count(self, status):
        with self.lock:
            self.statuses[status] += 1


class Agent:
    def __init__(self, server, report, index, arguments):
        self.server, self.report, self.arguments = server, report, arguments
        self.draw = random.Random(index)
        self.key = f"secret-{index}"
        self.tools = [{"type": "function", "function": {
            "name": f"tool_{index}_{i}", "description": self.text(8),
            "parameters": {"type": "object", "required": ["path"], "properties": {
                "path": {"type": "string"}, "limit": {"type": "integer", "minimum": 0, "maximum": 1000}}}}}
            for i in range(arguments.tools)]

    def text(self, words):
        return " ".join(self.draw.choices(WORDS, k=words))

    def ask(self, messages, tools, leaves=False):
        """Streams an answer. Returns its text and usage; none where it was left, or refused for good."""
        body = json.dumps({"messages": messages, "max_tokens": 24, "temperature": 0.7, "stream": True,
                           "stream_options": {"include_usage": True}, **({"tools": tools} if tools else {})})
        for _ in range(100):
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=120)
            try:
                start = time.monotonic()
                connection.request("POST", "/v1/chat/completions", body, {"Authorization": "Bearer " + self.key})
                answer = connection.getresponse()
                if answer.status != 200:
                    self.report.count(answer.status)
                    error = answer.read()
                    if answer.status != 503:
                        self.report.add(lost=error[:200])
                        return None
                    time.sleep(float(answer.getheader("Retry-After", "1")) / 4)
                    continue
                text, usage, last = "", None, None
                for line in answer:
                    if not line.startswith(b"data: "):
                        continue
                    if line.strip() == b"data: [DONE]":
                        self.report.count(200)
                        return text, usage
                    event = json.loads(line[6:])
                    if "error" in event:
                        self.report.count("error in a stream")
                        return text, usage
                    usage = event.get("usage") or usage
                    delta = event["choices"][0]["delta"] if event["choices"] else {}
                    if delta.get("content") or delta.get("tool_calls"):
                        now = time.monotonic()
                        if last is None:
                            self.report.add(firsts=now - start)
                        else:
                            self.report.add(gaps=now - last)
                        last = now
                        text += delta.get("content") or ""
                        if leaves:
                            self.report.count("left")
                            return None
                self.report.add(lost=b"a stream without an end")
                return None
            except OSError as error:
                self.report.add(lost=repr(error).encode())
                return None
            finally:
                connection.close()
        self.report.add(lost=b"refused a hundred times")
        return None

    def run(self, deadline):
        while time.monotonic() < deadline:
            size = self.arguments.most
            messages = [{"role": "system", "content": "You are an agent. " + self.text(min(60, size // 40))},
                        {"role": "user", "content": self.text(size // 12)}]
            earlier = 0
            while time.monotonic() < deadline:
                if self.draw.random() < 0.125:
                    self.ask(messages, self.tools, leaves=True)
                said = self.ask(messages, self.tools)
                if said is None or said[1] is None:
                    break
                text, usage = said
                if earlier:
                    self.report.add(found=usage["prompt_tokens_details"]["cached_tokens"] / earlier)
                earlier = usage["prompt_tokens"]
                if earlier > self.arguments.most:
                    break
                messages += [{"role": "assistant", "content": text or "ok"},
                             {"role": "user", "content": "Result: " + self.text(self.draw.randint(5, min(300, size // 20)))}]
                other = self.draw.random()
                if other < 0.3:
                    self.ask([{"role": "system", "content": "Write a title."},
                              {"role": "user", "content": self.text(min(100, size // 8))}], None)
                elif other < 0.4:
                    self.ask([{"role": "system", "content": "You are a subagent. " + self.text(min(100, size // 30))},
                              {"role": "user", "content": self.text(min(600, size // 8))}], self.tools[:10])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("plan")
    parser.add_argument("--moert", default="moert")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--agents", type=int, default=4)
    parser.add_argument("--tools", type=int, default=100)
    parser.add_argument("--most", type=int, default=0)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--gap", type=float, default=1, help="seconds between two tokens of a stream, at most")
    arguments, options = parser.parse_known_args()
    server = KeyedServer(arguments.moert, arguments.plan, arguments.agents, options)
    report, early = Report(), server.resident()
    info = json.loads(subprocess.run([arguments.moert, "info", arguments.plan, "--json"], stdout=subprocess.PIPE,
                                     check=True).stdout)
    # The cache's pages belong to the system until they are written to.
    cache = sum(device["kv_bytes"] for device in info["devices"])
    pages = server.metric("moert_cache_pages")
    context = json.loads(server.request("GET", "/v1/models", None, {"Authorization": "Bearer secret-0"})[1])
    arguments.most = arguments.most or context["data"][0]["meta"]["n_ctx"] * 6 // 10
    deadline = time.monotonic() + arguments.seconds
    threads = [threading.Thread(target=Agent(server, report, i, arguments).run, args=(deadline,))
               for i in range(arguments.agents)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    time.sleep(1)
    failures = []
    if server.has_ended():
        sys.exit("the server ended")
    for name in ("moert_requests_running", "moert_requests_queued"):
        if server.metric(name) != 0:
            failures.append(f"{name} is {server.metric(name)}")
    if server.metric("moert_cache_pages_free") != pages:
        failures.append("pages are held")
    growth = server.resident(most=True) - early
    found = sorted(report.found) or sys.exit("no conversation had a second turn: give a larger --most")
    server.stop()
    rows = {
        "answers": ", ".join(f"{count} x {status}" for status, count in sorted(report.statuses.items(), key=str)),
        "lost": f"{len(report.lost)} {report.lost[:2] if report.lost else ''}",
        "first token, median and most": f"{statistics.median(report.firsts):.2f} s, {max(report.firsts):.2f} s",
        "gap between tokens, 99 % and most":
            f"{sorted(report.gaps)[len(report.gaps) * 99 // 100]:.2f} s, {max(report.gaps):.2f} s",
        "earlier prompt found, least, 5 % and median":
            f"{found[0]:.1%}, {found[len(found) // 20]:.1%}, {statistics.median(found):.1%} of {len(found)} turns",
        "memory, growth, of it the cache at most": f"{growth / MIB:.0f} MiB, {cache / MIB:.0f} MiB",
    }
    for name, value in rows.items():
        print(f"| {name} | {value} |")
    hasRoom = arguments.agents * arguments.most * 1.3 < pages * 64
    if report.lost:
        failures.append(f"{len(report.lost)} requests are lost")
    if max(report.gaps) > arguments.gap:
        failures.append("a stream stops for too long")
    if hasRoom and found[0] < 0.95:
        failures.append(f"a turn finds {found[0]:.1%} of the earlier prompt")
    if growth > 256 * MIB + cache:
        failures.append("memory grows")
    for failure in failures:
        print("fault: " + failure)
    if not failures:
        print("serve_agents: ok")
    sys.exit(arguments.check and bool(failures))


if __name__ == "__main__":
    main()
