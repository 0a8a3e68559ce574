"""Compares a tool's reference with what `TOOL help --markdown` prints.

Usage: reference.py TOOL PAGE.md [--write]
"""
import subprocess
import sys

tool, path = sys.argv[1:3]
printed = subprocess.run([tool, "help", "--markdown"], check=True, capture_output=True, text=True).stdout
if "--write" in sys.argv:
    with open(path, "w") as file:
        file.write(printed)
else:
    with open(path) as file:
        if file.read() != printed:
            sys.exit(f"{path}: is not what {tool} help --markdown prints; write it with reference.py {tool} {path} --write")
