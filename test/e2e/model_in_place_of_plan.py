#!/usr/bin/env python3
"""Gives commands of moert a model in place of a plan.

  model_in_place_of_plan.py --moert PATH --model MODEL.gguf --work DIR

The model has a context of 512 tokens. Standard library only.
"""
import argparse
import glob
import json
import os
import shutil
import subprocess

parser = argparse.ArgumentParser()
for name in ("moert", "model", "work"):
    parser.add_argument(f"--{name}", required=True)
arguments = parser.parse_args()
MOERT, MODEL, WORK = arguments.moert, arguments.model, arguments.work
shutil.rmtree(WORK, ignore_errors=True)
os.makedirs(os.path.join(WORK, "moec"))
# Measurements of this machine are not made again.
for measured in glob.glob(os.path.join(os.environ.get("XDG_CACHE_HOME", ""), "moec", "native*.json")):
    shutil.copy(measured, os.path.join(WORK, "moec"))
LONG = "In the beginning God created the heaven and the earth. " * 18


def moert(*words, fails=False):
    done = subprocess.run([MOERT, *words], capture_output=True, text=True, cwd=WORK, stdin=subprocess.DEVNULL,
                          env={**os.environ, "XDG_CACHE_HOME": WORK}, timeout=300)
    assert (done.returncode != 0) == fails, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def kept(*words):
    return json.loads(moert("plans", "--json", *words))["plans"]


def run(*words, fails=False, compiles=False):
    text = moert("run", MODEL, "-n", "1", *words, fails=fails)
    assert ("compiling" in text) == compiles, text
    return text


# A wish for a context is one for a plan, too, and a limit.
run("-p", "x", "-c", "128", compiles=True)
assert "128" in run("-c", "128", "-p", LONG, fails=True)
assert kept()[0]["contexts"] == [128], kept()
run("-p", LONG, "-c", "512", compiles=True)
assert [plan["contexts"] for plan in kept()] == [[128], [512]], kept()
# The smallest kept plan that holds a request is taken: the one of 512 serves 300 too, and 128 goes on.
run("-p", "x", "-c", "300")
run("-p", "x", "-c", "64")
assert len(kept()) == 2
# The kept plans are small, because the model is on the disk only once.
assert all(plan["bytes"] < os.path.getsize(MODEL) / 4 for plan in kept()), kept()
# Without a context, all contexts that fit count; later requests fit as well.
run("-p", "x", compiles=True)
run("-p", "x")
for words in (["-p", "x", "-c", "100"], ["-p", LONG]):
    run(*words)
# Options of compiling are part of a kept plan's key, in any order.
run("-p", "x", "--kv-type", "q8_0", "--ubatch", "64", compiles=True)
run("-p", "x", "--ubatch", "64", "--kv-type", "q8_0")
assert len(kept()) == 4 and any("q8_0" in plan["options"] for plan in kept()), kept()
moert("perplexity", MODEL, "-f", __file__, "--ctx", "64")
moert("bench", MODEL, "-p", "8", "-n", "2", "-r", "1", "--no-limits")
moert("logits", MODEL, "--tokens", "5,9", "--out", "x.npy")
# Impossible requests are refused before anything is compiled.
before = len(kept())
for words in (["--n-gpu-layers", "nonsense"], ["--rules", "gone.yaml"], ["--temp", "warm"],
              ["--nothing"], ["-c", "many"]):
    run("-p", "x", *words, fails=True)
for words in (["--place", "nothing.at.all=cpu0"], ["--kv-type", "f17"]):
    run("-p", "x", *words, fails=True, compiles=True)
assert len(kept()) == before
# A failure is mended by the same command.
failure = run("-p", "x", "-c", "100000", fails=True, compiles=True)
assert "moec compile" not in failure, failure
assert len(kept()) == before
# A model that changes is compiled again, and what was kept of it goes.
copy = os.path.join(WORK, "copy.gguf")
with open(MODEL, "rb") as source, open(copy, "wb") as target:
    target.write(source.read())
moert("run", copy, "-p", "x", "-n", "1", "-c", "64")
first, = kept(copy)
os.utime(copy, (1, 1))
assert kept(copy)[0]["stale"] == "the model has changed"
moert("run", copy, "-p", "x", "-n", "1", "-c", "64")
second, = kept(copy)
assert first["plan"] != second["plan"] and not os.path.exists(first["plan"])
# Kept plans can be removed.
os.remove(copy)
assert [plan["plan"] for plan in json.loads(moert("plans", "--clear-old", "--json"))["removed"]] == [second["plan"]]
assert len(kept()) == before
moert("plans", "--clear", MODEL)
assert kept() == [] and os.listdir(os.path.join(WORK, "moec", "plans")) == []
print("a model in place of a plan: ok")
