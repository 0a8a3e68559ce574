#!/usr/bin/env python3
"""Kills `moert serve` while it writes evaluated texts to its folder, and expects that the next start is clean.

  serve_kill.py --moert PATH --plan PLAN.fb --work DIR [--kills 4]

Standard library only.
"""
import argparse
import os
import shutil
import time

from load_clients import WORDS, Case, compare, tokens_of
from serve import Server

TEXTS = 4


def prompt_of(number):
    """Long enough to be worth a file, and unlike all others."""
    return f"{number} " + " ".join(WORDS[(number * 7 + i * i) % len(WORDS)] for i in range(280))


def temporaries(folder):
    return [name for name in os.listdir(folder) if name.endswith(".tmp")]


def wait_until(what, holds, pause=0.0):
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(pause)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--moert", "--plan", "--work"):
        p.add_argument(name, required=True)
    p.add_argument("--kills", type=int, default=4)
    a = p.parse_args()
    folder = os.path.join(a.work, "kill-cache")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    cases, written, hits = [], 0, 0
    for kill in range(a.kills + 1):
        server = Server(a.moert, [a.plan], "--cache-dir", folder)
        try:
            assert not temporaries(folder), "a file that was being written is left"
            files = os.listdir(folder)
            assert len(files) >= written, (files, written)
            # What was written before is found again, and gives the same texts up to near ties.
            cached = 0
            for case in cases:
                answer = server.json("/v1/completions", case.body())
                cached += answer["usage"]["prompt_tokens_details"]["cached_tokens"] > 200
                compare(case, tokens_of(answer["choices"]))
            assert cached >= written, f"{cached} of {written} files were used"
            if kill == a.kills:
                server.stop()
                break
            for number in range(kill * TEXTS, kill * TEXTS + TEXTS):
                cases.append(Case(prompt_of(number), 8))
                cases[-1].alone = tokens_of(server.json("/v1/completions", cases[-1].body())["choices"])
            # Each time, one more file may be complete.
            wait_until("nothing is written", lambda: len(os.listdir(folder)) - len(temporaries(folder)) >= len(files) + kill % 3)
            wait_until("nothing more is written", lambda: temporaries(folder))
            server.process.kill()
            server.process.wait()
            hits += bool(temporaries(folder))
            written = len(os.listdir(folder)) - len(temporaries(folder))
        finally:
            server.process.kill()
    print(f"killed {a.kills} times, {hits} while a file was half written; {written} files were used again")
    assert hits > 0 and written > 0
    print("kill: ok")


if __name__ == "__main__":
    main()
