#!/usr/bin/env python3
"""Drives `moert serve` with many clients of every kind, and checks that it survives them.

  serve_load.py --moert PATH --plan PLAN.fb --work DIR [--seconds 10] [--clients 32] [--seed 1] [--max-refusal-ms MS]

Clients take whole answers and streams, read slowly, leave, stay half open, and send what is malformed or too large. Then:

* the process is alive, nothing got a status 500, and it ends in good order,
* every answer has the tokens and probabilities that a server for one sequence gives, up to near ties,
* no page of the cache is lost, no generation and no connection is left,
* its memory does not grow after the first half of the time,
* a short prompt gets its first token at most two steps of the engine later than it could,
* at four times the load that it takes, it refuses with status 503 and Retry-After, and what it accepts is right.

Standard library only. The plan must decode 8 sequences together.
"""
import argparse
import collections
import json
import os
import shutil
import statistics
import sys
import threading
import time
import urllib.parse

from load_clients import WORDS, Client, make_cases, tokens_of
from serve import Server

SEQUENCES = 8
CHUNK = 64 # Prompt tokens of a step; a prompt's turn is a quarter of them.
MOST_GROWTH = 12 << 20 # Bytes for allocators, and for what clients do at the same time.


class Report:
    """What clients did, by all threads."""

    def __init__(self, seconds):
        self.counts, self.errors, self.timings = collections.Counter(), [], []
        self.open = collections.deque()
        self.lock, self.stop = threading.Lock(), threading.Event()
        self.end = time.monotonic() + seconds

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def keep(self, connection):
        """Lets it stay open for long, but not so many that the server refuses more of one peer."""
        with self.lock:
            self.open.append(connection)
            oldest = self.open.popleft() if len(self.open) > 64 else None
        if oldest:
            oldest.close()

    def sleep(self, seconds):
        self.stop.wait(seconds)

    def is_over(self):
        return self.stop.is_set() or time.monotonic() >= self.end

    def run(self, work):
        """Calls work() until the time is over; the first failure ends all."""
        try:
            while not self.is_over():
                work()
        except Exception as error: # pylint: disable=broad-except
            self.errors.append(f"{type(error).__name__}: {error}")
            self.stop.set()

    def check(self):
        assert not self.errors, self.errors[:3]

    def close(self):
        while self.open:
            self.open.popleft().close()


def address_of(server):
    place = urllib.parse.urlparse(server.base)
    return place.hostname, place.port


def metrics(server):
    values = {}
    for line in server.request("/metrics")[2].split("\n"):
        if line and not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            values[name.split("{")[0]] = float(value)
    return values


def memory(server):
    with open(f"/proc/{server.process.pid}/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon"))


def wait_until(what, holds):
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def percentile(values, part):
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def fill_in(moert, plan, cases):
    """What each case gets from a server that generates one text at a time."""
    server = Server(moert, [plan], "--sequences", "1")
    try:
        for case in cases:
            case.alone = tokens_of(server.json("/v1/completions", case.body())["choices"])
            assert len(case.alone) == case.most, case.alone
        server.stop()
    finally:
        server.process.kill()


def together(report, works):
    threads = [threading.Thread(target=report.run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    return threads


def check_load(server, cases, a):
    """All kinds of clients at once. Prints how the memory went."""
    report = Report(a.seconds)
    threads = together(report, [Client(address_of(server), cases, report, a.seed * 1000 + i).anything for i in range(a.clients)])
    memories = []
    while not report.is_over():
        assert server.process.poll() is None, "the server has ended"
        memories.append(memory(server))
        report.sleep(0.1)
    for thread in threads:
        thread.join()
    report.close()
    report.check()
    assert server.process.poll() is None, "the server has ended"
    counts = report.counts
    print(f"load: {a.clients} clients, {dict(counts)}")
    for kind in ("equal", "left", "half open", "malformed", "oversized", "by schema"):
        assert counts[kind] > 0, f"nobody was {kind}"
    # Each answer has dozens of tokens, some of which are near ties.
    assert counts["ties"] < counts["equal"], counts
    half, most = max(memories[:len(memories) // 2]), max(memories[len(memories) // 2:])
    print(f"memory: {half >> 10} KiB at most in the first half, {most >> 10} KiB in the second")
    assert most - half < MOST_GROWTH, "memory grows"
    short = [queue + prompt for tokens, queue, prompt in report.timings if tokens <= CHUNK // 4]
    print(f"first tokens of short prompts in the crowd: {percentile(short, .5)} steps, 99 %: {percentile(short, .99)}")


def check_nothing_lost(server):
    """Pages, generations and connections are as before all clients."""
    wait_until("generations are left", lambda: server.json("/slots") == [])
    wait_until("connections are left", lambda: metrics(server)["moert_http_connections_open"] == 1)
    # Texts that begin otherwise than all others share no pages. There are more of them than the server keeps.
    for i in range(70):
        server.complete(f"{chr(97 + i % 26)}{i} {i * i}", max_tokens=1)
    wait_until("a generation is left", lambda: server.json("/slots") == [])
    now = metrics(server)
    pages = {name: int(now["moert_cache_pages" + name]) for name in ("", "_free", "_empty", "_kept")}
    print(f"pages: {pages}")
    assert pages["_free"] == pages[""], "pages are held by generations"
    assert pages["_empty"] + pages["_kept"] == pages[""], "pages are lost"
    assert now["moert_requests_failed_total"] == 0, now


def check_first_tokens(server, count):
    """Short prompts, one after another, beside as many long ones as leave one place."""
    report, number = Report(600), iter(range(1 << 30))

    def long():
        words = " ".join(WORDS[(next(number) * 7 + i * i) % len(WORDS)] for i in range(220))
        server.complete(f"{next(number)} {words}", max_tokens=4, ignore_eos=True)
    threads = together(report, [long] * (SEQUENCES - 1))
    steps = []
    for i in range(count):
        timings = server.complete(f"{i * 31 % 97} men {i}", max_tokens=1)["timings"]
        own = -(-timings["prompt_n"] // (CHUNK // 4))
        steps.append(timings["queue_steps"] + timings["prompt_steps"] - own)
    report.stop.set()
    for thread in threads:
        thread.join()
    report.check()
    print(f"first tokens beside {SEQUENCES - 1} long texts: at most {max(steps)} steps after their own of {count}")
    assert max(steps) <= 2, steps


def check_overload(moert, plan, cases, a):
    """Four times as many clients as run and wait."""
    running, waiting = 2, 6
    server = Server(moert, [plan], "--sequences", str(running), "--queue", str(waiting))
    try:
        speed = {}
        for times in (1, 4):
            report, waits = Report(a.seconds / 5), []

            def make(seed, report=report, waits=waits):
                client = Client(address_of(server), cases, report, seed)

                def work():
                    start = time.monotonic()
                    if not client.whole():
                        waits.append(1e3 * (time.monotonic() - start))
                        report.sleep(0.02)
                return work
            for thread in together(report, [make(i) for i in range(times * (running + waiting))]):
                thread.join()
            report.check()
            counts = report.counts
            speed[times] = (counts["equal"] + counts["ties"]) / (a.seconds / 5)
        assert counts["refused"] > 0 and counts["equal"] > 0, counts
        log = server.stop()
    finally:
        server.process.kill()
    records = [json.loads(line) for line in log.split("\n") if line.startswith("{")]
    own = [record["ms"] for record in records if record["status"] == 503]
    print(f"overload: {dict(counts)}, {speed[4]:.0f} answers/s, without overload {speed[1]:.0f}; refused after "
          f"{statistics.median(own):.1f} ms, 99 %: {percentile(own, .99):.1f} ms by the server's log; clients saw "
          f"{statistics.median(waits):.1f} ms, 99 %: {percentile(waits, .99):.1f} ms")
    assert a.max_refusal_ms is None or percentile(own, .99) <= a.max_refusal_ms, "refusals take long"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--moert", "--plan", "--work"):
        p.add_argument(name, required=True)
    p.add_argument("--seconds", type=float, default=10)
    p.add_argument("--clients", type=int, default=32)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--max-refusal-ms", type=float)
    a = p.parse_args()
    cache = os.path.join(a.work, "load-cache")
    shutil.rmtree(cache, ignore_errors=True)
    cases = make_cases(40, a.seed)
    fill_in(a.moert, a.plan, cases)
    server = Server(a.moert, [a.plan], "--prefill-chunk", str(CHUNK), "--cache-dir", cache, "--cache-size", "8MiB")
    try:
        check_load(server, cases, a)
        check_first_tokens(server, 40)
        check_nothing_lost(server)
        log = server.stop()
    finally:
        server.process.kill()
        with open(os.path.join(a.work, "server.log"), "w") as file:
            file.writelines(server.lines)
    assert not any(case.prompt in log for case in cases if len(case.prompt) > 20), "the log has prompts"
    check_overload(a.moert, a.plan, cases, a)
    print("load: ok")


if __name__ == "__main__":
    sys.exit(main())
