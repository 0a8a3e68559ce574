"""Compares the reference in tools/README.md with what `moec help --markdown` and `moert help --markdown` print.

Usage: reference.py README [--write]
"""
import subprocess
import sys

START = "<!-- The rest is printed by `moec help --markdown` and `moert help --markdown`. -->\n"
path = sys.argv[1]
with open(path) as file:
    before, marker, reference = file.read().partition(START)
assert marker, f"{path}: has no line {START}"
printed = "\n" + "\n".join(
    subprocess.run([tool, "help", "--markdown"], check=True, capture_output=True, text=True).stdout
    for tool in ("moec", "moert"))
if "--write" in sys.argv:
    with open(path, "w") as file:
        file.write(before + marker + printed)
elif printed != reference:
    sys.exit(f"{path}: the reference is not what the tools print; write it again with reference.py {path} --write")
