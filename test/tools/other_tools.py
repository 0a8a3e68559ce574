#!/usr/bin/env python3
"""Types options of other tools: each is ours, left out, or answered.

  other_tools.py --moec PATH --moert PATH --table TheirOptions.def --seed N --count N

Standard library only.
"""
import argparse
import random
import subprocess

from their_options import of_table

parser = argparse.ArgumentParser()
for name in ("moec", "moert", "table", "seed", "count"):
    parser.add_argument(f"--{name}", required=True)
options = parser.parse_args()
MOEC, MOERT = options.moec, options.moert
COMMANDS = [[MOEC, "compile", "x.gguf"], [MOERT, "run", "x.fb"], [MOERT, "chat", "x.fb"], [MOERT, "serve", "x.fb"],
            [MOERT, "bench", "x.fb"], [MOERT, "perplexity", "x.fb"]]


everything = of_table(options.table)
assert len(everything) == len(set(everything)) > 500, len(everything)
draw = random.Random(int(options.seed))
for name in draw.sample(everything, int(options.count)):
    for command in COMMANDS:
        typed = name.replace("-", "_").replace("__", "--", 1) if name.startswith("--") and draw.random() < 0.3 else name
        done = subprocess.run([*command, typed, "1"], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
        said = next((line for line in done.stderr.split("\n") if line.startswith("error")), "")
        assert done.returncode != 0 and said, (command, typed, done)
        assert "unknown option" not in said, f"{command[1:]} {typed}: {said}"
print(f"{len(everything)} names: ok")
