#!/usr/bin/env python3
"""Measures the decode speed of a plan alone and while other processes keep CPUs busy.

Runs `moert bench` with 0, 1, 2 ... busy processes of normal priority, and with each
--moert, in turns and in several rounds. Prints medians in tokens per second and as
percentages of the same moert's undisturbed median. To compare two builds, give both:
only runs that alternate within seconds see the same machine.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager


@contextmanager
def busy_processes(count):
    """Runs this number of processes that never sleep."""
    processes = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(count)]
    try:
        time.sleep(0.3 if count else 0)  # Waits until the threads have spread over the cores.
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def samples(moert, args):
    command = [moert, "bench", args.plan, "-p", "0", "-n", str(args.tokens), "-r",
               str(args.repetitions), "--no-limits", "-o", "json"]
    command += ["-t", str(args.threads)] if args.threads else []
    command += ["--pin"] if args.pin else []
    result = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(result.stdout)[0]["samples_ts"]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("plan")
    p.add_argument("--moert", action="append", help="may be repeated; default: build/bin/moert")
    p.add_argument("--busy", type=lambda text: [int(n) for n in text.split(",")], default=[0, 1, 2],
                   help="numbers of busy processes, by turns (default: 0,1,2)")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--tokens", type=int, default=128, help="of a run of moert bench")
    p.add_argument("--repetitions", type=int, default=5, help="of a run of moert bench")
    p.add_argument("--threads", type=int, help="default: one per core")
    p.add_argument("--pin", action="store_true")
    args = p.parse_args()
    builds = args.moert or ["build/bin/moert"]
    if os.getloadavg()[0] > 0.3:
        print(f"this machine is not idle: its load is {os.getloadavg()[0]:.1f}", file=sys.stderr)

    speeds = {(busy, build): [] for busy in args.busy for build in builds}
    for _ in range(args.rounds):
        for busy, build in speeds:
            with busy_processes(busy):
                speeds[busy, build] += samples(build, args)

    print(f"| busy processes | {'moert':32} | t/s (median) | quartiles       | of undisturbed |")
    print(f"| -------------: | {'-' * 32} | -----------: | --------------: | -------------: |")
    for (busy, build), found in speeds.items():
        median = statistics.median(found)
        low, _, high = statistics.quantiles(found, n=4)
        alone = speeds.get((0, build))
        share = f"{100 * median / statistics.median(alone):.1f} %" if alone else ""
        print(f"| {busy:14} | {build[-32:]:32} | {median:12.1f} | {f'{low:.1f} - {high:.1f}':>15} "
              f"| {share:>14} |")


if __name__ == "__main__":
    main()
