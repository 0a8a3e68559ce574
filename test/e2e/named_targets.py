"""Finds tests that run, by moert, a plan that moec compiled for a named target.

Such a test fails on every CPU that lacks the target's instructions: it has to run the plan by moert-soft, or compile
it for this machine. Reads the RUN lines of all tests below a folder, with their substitutions."""

import pathlib
import re
import sys

COMPILES = re.compile(r"\bmoec compile\b.*?--target[ =](\S+)")
WRITES = re.compile(r"-o (\S+)")
RUNS = re.compile(r"(?<![-\w])moert (?!info\b|render\b|tokenize\b)\w+ (\S+)")


def run_lines(text):
    """The RUN lines of a test, continued ones joined, with the values of its DEFINE lines."""
    text = re.sub(r"\\\n\s*(?:#\s*)?RUN:", " ", text)
    values = dict(re.findall(r"^\s*DEFINE: (%\{\w+\}) =[ ]*(.*)$", text, re.M))
    lines = re.findall(r"RUN: (.*)$", text, re.M)
    for _ in range(3):
        for name, value in values.items():
            lines = [line.replace(name, value) for line in lines]
    return lines


def faults(text):
    named = {}
    for line in run_lines(text):
        target = COMPILES.search(line)
        output = WRITES.search(line)
        if output:
            named.pop(output.group(1), None)
        # Plans for GPUs are refused first because there is no GPU.
        if target and output and target.group(1) != "native" and "+" not in target.group(1):
            named[output.group(1)] = target.group(1)
        for plan in RUNS.findall(line):
            if plan in named:
                yield f"runs {plan}, which is for {named[plan]}: {line.strip()}"


assert list(faults("RUN: moec compile m.gguf --target xeon -o a.fb\nRUN: moert run a.fb\n"))
assert not list(faults("RUN: moec compile m.gguf --target xeon -o a.fb\nRUN: moert-soft run a.fb\nRUN: moert info a.fb\n"))

found = [f"{path}: {fault}" for path in sorted(pathlib.Path(sys.argv[1]).rglob("*.test")) for fault in faults(path.read_text())]
print("\n".join(found))
sys.exit(bool(found))
