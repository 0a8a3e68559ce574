#!/usr/bin/env python3
"""Runs lit on copies of a unit model, of which some are changed, and on tables with mistakes; prints what lit says."""
import argparse
import os
import re
import shutil
import struct
import subprocess
import sys

SUPPORT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support")
CONFIG = """
import os, sys
sys.path.insert(0, {support!r})
import unit_models
config.name = "copies"
config.source_dir, config.build_dir, config.tools_dir, config.python = {source!r}, {work!r}, {bin!r}, {python!r}
config.environment["XDG_CACHE_HOME"] = os.environ["XDG_CACHE_HOME"]
config.suffixes = [".recipe"]
config.test_format = unit_models.UnitModelTest({work!r} + "/suite", "tests.table")
"""


def move_logit(path, by):
    """Adds `by` to a logit in the middle of a file of float32."""
    with open(path, "r+b") as file:
        at = os.path.getsize(path) // 8 * 4
        file.seek(at)
        value, = struct.unpack("<f", file.read(4))
        file.seek(at)
        file.write(struct.pack("<f", value + by))


def change_text(path):
    """Makes the last token of the greedy text another one."""
    with open(path) as file:
        text = file.read()
    with open(path, "w") as file:
        file.write(re.sub(r"(greedy: .*?)(\d+)\]", lambda found: f"{found[1]}{int(found[2]) ^ 1}]", text))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--lit", "--bin", "--data", "--work"):
        parser.add_argument(name, required=True)
    options = parser.parse_args()
    shutil.rmtree(options.work, ignore_errors=True)
    suite, data = options.work + "/suite", options.work + "/test/data/unit"
    os.makedirs(suite)
    os.makedirs(data)
    for name in ("good", "logit", "text", "wants"):
        open(f"{suite}/{name}.recipe", "w").close()
        for suffix in (".gguf", ".logits.npy", ".txt"):
            shutil.copyfile(f"{options.data}/qwen3{suffix}", f"{data}/{name}{suffix}")
    move_logit(data + "/logit.logits.npy", 0.05)
    change_text(data + "/text.txt")
    with open(suite + "/lit.cfg", "w") as file:
        file.write(CONFIG.format(support=SUPPORT, source=os.path.dirname(os.path.dirname(SUPPORT)), work=options.work,
                                 bin=options.bin, python=sys.executable))
    for second in ("", "absent --rel 1", "wants --rel 1"):
        with open(suite + "/tests.table", "w") as file:
            file.write(f"wants requires=what-no-machine-has\n{second}\n")
        done = subprocess.run([sys.executable, options.lit, "-j1", suite], capture_output=True, text=True)
        print(done.stdout, done.stderr, sep="")


main()
