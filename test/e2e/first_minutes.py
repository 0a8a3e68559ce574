"""Follows the suggested commands from moec model to a text, and runs a model with moert alone.

Usage: first_minutes.py FOLDER MODEL
"""
import glob
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import tools

root, model = sys.argv[1:]
# Uses the suite's measurements of this machine, and a cache folder without plans.
measured = glob.glob(os.path.join(os.environ["XDG_CACHE_HOME"], "moec/native*.json"))
os.environ["XDG_CACHE_HOME"] = cache = os.path.join(root, "cache")
os.makedirs(os.path.join(cache, "moec"))
for path in measured:
    shutil.copy(path, os.path.join(cache, "moec"))
shutil.copy(model, os.path.join(root, "my model.gguf"))


def must(command):
    result = tools.run(command, root)
    assert result.code == 0, result
    return result


def next_of(result):
    found = re.findall(r"^next: (.*)$", result.err, re.M)
    assert len(found) == 1, result
    return found[0]


# Every command but the first is suggested by the previous one.
command = next_of(must(["moec", "model", "my model.gguf"]))
assert command == "moec plan 'my model.gguf'", command
command = next_of(must(command))
assert command == "moec compile 'my model.gguf'", command
command = next_of(must(command))
assert command.startswith("moert run plan.fb -p ") or command == "moert chat plan.fb", command
assert must(command + " -n 4").out.strip()

# Options that affect the plan are in the suggested command. For a plan for another machine, moec compile suggests
# what can be done with it here.
command = next_of(must(["moec", "plan", "my model.gguf", "-t", "4090+xeon", "--ctx", "64"]))
assert command == "moec compile 'my model.gguf' --target 4090+xeon --ctx 64", command
other = must(["moec", "compile", "my model.gguf", "--target", "xeon-amx", "-o", "o.fb"])
assert next_of(other) == "moec explain o.fb", other
must(next_of(other))

# A model in place of a plan is compiled once, cached, and compiled again after it has changed.
words = ["moert", "my model.gguf", "-p", "In the beginning", "-n", "4", "--temp", "0"]
first = must(words)
assert "compiling 'my model.gguf' for this machine" in first.err, first
assert len([name for name in os.listdir(os.path.join(cache, "moec/plans")) if name.endswith(".fb")]) == 1
second = must(["moert", "-m", *words[1:]])
assert "compiling" not in second.err and second.out == first.out, second
# A context is compiled for whatever plan is kept, and found again.
short = must([*words, "-c", "100"])
assert "compiling" not in short.err and short.out == first.out, short
long = tools.run([*words, "-c", "100000"], root)
assert long.code != 0 and "--ctx 100000: the model was trained for 512 tokens" in long.err, long
os.utime(os.path.join(root, "my model.gguf"), (1, 1))
assert "compiling" in must(words).err
# moert runs a plan without compiling it; without a prompt it starts a conversation.
assert must(["moert", "plan.fb", *words[2:]]).out == first.out
assert tools.run(["moert", "my model.gguf"], root).code == 0

missing = tools.run(["moert", "no.gguf", "-p", "x"], root)
assert missing.code == 4 and "no.gguf" in missing.err, missing
with open(os.path.join(root, "bad.gguf"), "wb") as file:
    file.write(b"GGUF\3\0\0\0")
bad = tools.run(["moert", "bad.gguf", "-p", "x"], root)
assert bad.code == 3 and "bad.gguf" in bad.err, bad
# Without moec, the error says what is missing, and the purpose.
alone = os.path.join(root, "moert")
shutil.copy(shutil.which("moert"), alone)
os.utime(os.path.join(root, "my model.gguf"), (2, 2))
path, os.environ["PATH"] = os.environ["PATH"], "/usr/bin:/bin"
lacking = tools.run(["./moert", "my model.gguf", "-p", "x"], root)
os.environ["PATH"] = path
assert lacking.code == 4 and "cannot start moec, which compiles models" in lacking.err, lacking
print("ok")
