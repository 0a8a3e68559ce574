#!/usr/bin/env python3
"""Lists the options in the sources of another tool that TheirOptions.def and our own commands lack.

  their_options.py --moec PATH --moert PATH --table TheirOptions.def SOURCE...

A source is a C++ or Python file that reads a command line, such as llama.cpp's common/arg.cpp and tools/*/*.cpp,
ik_llama.cpp's common/common.cpp and examples/*/*.cpp, or KTransformers' server/args.py. Options are the texts in it that
are one word and begin with a hyphen. The exit status is 1 if one is unknown. Standard library only.
"""
import argparse
import os
import re
import subprocess
import sys

TEXT = re.compile(r"""(["'])(--?[A-Za-z][\w.-]*\w|-[A-Za-z])\1""")


def normal(name):
    return name.replace("_", "-") if name.startswith("--") else name


def of_table(path):
    """Returns the names of the rows of a table and of those that it includes."""
    with open(path) as file:
        text = "\n".join(line for line in file.read().split("\n") if not line.lstrip().startswith("//"))
    names = []
    for row in re.finditer(r'MOE_THEIRS\(\s*((?:"[^"]*"\s*)+),', text):
        names += "".join(re.findall(r'"([^"]*)"', row[1])).split(",")
    for included in re.findall(r'^#include "(.*)"$', text, re.M):
        names += of_table(os.path.join(os.path.dirname(path), os.path.basename(included)))
    return names


def of_help(tool):
    """Returns the names of our own options."""
    page = subprocess.run([tool, "help", "--markdown"], check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", page))


def of_source(path):
    with open(path, errors="replace") as file:
        names = {normal(match[2]) for match in TEXT.finditer(file.read())}
    return {name for name in names if not name.startswith("-W")}  # Warnings of a compiler are no options.


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("moec", "moert", "table"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("sources", nargs="+", metavar="SOURCE")
    args = parser.parse_args()
    known = set(of_table(args.table)) | of_help(args.moec) | of_help(args.moert)
    missing = 0
    for source in args.sources:
        names = of_source(source)
        unknown = sorted(names - known)
        missing += len(unknown)
        print(f"{source}: {len(names)} options, {len(unknown)} unknown", *unknown)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
