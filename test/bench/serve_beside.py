#!/usr/bin/env python3
"""Measures `moert serve` beside llama-server on the same model, by turns, and prints medians as a table.

  serve_beside.py PLAN.fb MODEL.gguf [--llama-server PATH] [--rounds 5]

Without --llama-server the one inside the PyPI package xllamacpp is used; it is built without AVX-512. Both servers stay
up, and one is idle while the other is measured. Requests are streamed over /v1/chat/completions, with greedy sampling
and texts that do not end. Rows:

  tokens/s, N clients    tokens of N texts of --tokens tokens, by the time from the first request to the last token
  first token, N clients median time to the first token in these runs (prompts of about 60 tokens)
  first token, prompt    of a prompt of about --prompt tokens that is new
  second turn            the first token of a second question after that prompt and its answer
  after a restart        the first token of a third question, when the server has been stopped and started in between

The model needs a chat template. Standard library only, but for xllamacpp.
"""
import argparse
import concurrent.futures
import http.client
import json
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

WORDS = ("river stone lamp winter garden letter harbour engine window forest music paper silver morning island "
         "bridge candle market story wheel").split()
XLLAMACPP = """
import signal, sys, xllamacpp
p = xllamacpp.CommonParams()
p.model.path, p.port, p.n_parallel, p.n_ctx = sys.argv[1], *map(int, sys.argv[2:5])
p.cpuparams.n_threads = p.cpuparams_batch.n_threads = int(sys.argv[5])
server = xllamacpp.Server(p)
signal.pause()
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Server:
    """A process that serves on a port, which may be started again."""

    def __init__(self, name, command):
        self.name, self.command = name, command

    def start(self):
        self.port = free_port()
        self.process = subprocess.Popen([str(word).replace("{port}", str(self.port)) for word in self.command],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"{self.name} does not start: {self.command}")
            time.sleep(0.05)

    def is_ready(self):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except OSError:
            return False

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def chat(self, messages, most):
        """Streams an answer; returns its text, times of the first and the last token, and the usage."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        body = {"messages": messages, "max_tokens": most, "temperature": 0, "ignore_eos": True, "stream": True,
                "stream_options": {"include_usage": True}}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            sys.exit(f"{self.name}: {answer.status} {answer.read().decode()}")
        text, first, last, usage = "", None, None, None
        for line in answer:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[len(b"data: "):])
            usage = event.get("usage") or usage
            delta = event["choices"][0]["delta"].get("content") if event["choices"] else None
            if delta:
                text, last = text + delta, time.monotonic()
                first = first or last
        connection.close()
        return text, first, last, usage


def words(count):
    return " ".join(random.choice(WORDS) for _ in range(count))


def ask(text):
    return {"role": "user", "content": text}


def together(server, clients, tokens):
    """Texts of several clients at the same time: tokens per second in all, and times to first tokens."""
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        start = time.monotonic()
        runs = [pool.submit(server.chat, [ask(words(25))], tokens) for _ in range(clients)]
        runs = [run.result() for run in runs]
    made = sum(usage["completion_tokens"] for _, _, _, usage in runs)
    end = max(last for _, _, last, _ in runs)
    return made / (end - start), [first - start for _, first, _, _ in runs]


def turns(server, prompt):
    """Times to the first token of a new long prompt, of a second turn, and of a third after a restart."""
    messages, times, sizes = [], [], []
    for turn in range(3):
        if turn == 2:
            time.sleep(3)  # Nothing runs meanwhile, so that caches are written.
            server.stop()
            server.start()
        messages.append(ask(words(prompt if turn == 0 else 12)))
        start = time.monotonic()
        text, first, _, usage = server.chat(messages, 24)
        times.append(first - start)
        sizes.append(usage["prompt_tokens"])
        messages.append({"role": "assistant", "content": text})
    return times, sizes


def measure(servers, a):
    """Rows by name: for each server the values of all rounds."""
    rows = {}

    def add(row, server, *values):
        rows.setdefault(row, {other.name: [] for other in servers})[server.name] += values

    for number in range(a.rounds):
        for clients in a.clients:
            for server in servers:
                speed, firsts = together(server, clients, a.tokens)
                add(f"tokens/s, {clients} clients", server, speed)
                add(f"first token, {clients} clients, ms", server, *(1e3 * first for first in firsts))
        for server in servers:
            times, sizes = turns(server, a.prompt)
            for row, seconds in zip((f"first token, prompt of {a.prompt}, ms", "second turn, ms", "after a restart, ms"),
                                    times):
                add(row, server, 1e3 * seconds)
        print(f"round {number + 1}: load {os.getloadavg()[0]:.1f}, prompts of {sizes} tokens", file=sys.stderr)
    return rows


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("plan", help="of the model, for as many sequences as clients")
    p.add_argument("model")
    p.add_argument("--moert", default="build/bin/moert")
    p.add_argument("--llama-server", help="default: the one of the Python package xllamacpp")
    p.add_argument("--clients", type=lambda text: [int(n) for n in text.split(",")], default=[1, 4, 8])
    p.add_argument("--tokens", type=int, default=128)
    p.add_argument("--prompt", type=int, default=1500, help="words of the long prompt, about as many tokens")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--ctx", type=int, default=2560, help="tokens of context of each sequence of llama-server")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("-o", "--output", help="also write all values to this file, as JSON")
    a = p.parse_args()
    random.seed(1)
    if os.getloadavg()[0] > 0.3:
        print(f"this machine is not idle: its load is {os.getloadavg()[0]:.1f}", file=sys.stderr)
    most = max(a.clients)
    cache = tempfile.mkdtemp()
    if a.llama_server:
        other = [a.llama_server, "-m", a.model, "--port", "{port}", "-np", most, "-c", most * a.ctx, "-t", a.threads]
    else:
        other = [sys.executable, "-c", XLLAMACPP, a.model, "{port}", most, most * a.ctx, a.threads]
    servers = [Server("moert serve", [a.moert, "serve", a.plan, "--port", "{port}", "-t", a.threads, "--sequences", most,
                                      "--cache-dir", cache]),
               Server("llama-server", other)]
    try:
        for server in servers:
            server.start()
            together(server, 1, 16)
        rows = measure(servers, a)
    finally:
        for server in servers:
            if getattr(server, "process", None):
                server.process.kill()
        shutil.rmtree(cache)
    print(f"| {'':34} | {' | '.join(f'{server.name:>12}' for server in servers)} | ratio |")
    print(f"|{'-' * 36}|{'|'.join('-' * 13 + ':' for _ in servers)}|------:|")
    for row, found in rows.items():
        ours, theirs = (statistics.median(found[server.name]) for server in servers)
        ratio = ours / theirs if "tokens/s" in row else theirs / ours
        print(f"| {row:34} | {ours:12.1f} | {theirs:12.1f} | {ratio:5.2f} |")
    if a.output:
        with open(a.output, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
