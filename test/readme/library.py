"""Writes the only C program that a page shows to a file.

Usage: library.py PAGE FILE.c
"""
import sys

from page import blocks_of

page, out = sys.argv[1:]
programs = ["\n".join(block.lines) for block in blocks_of(open(page).read()) if "int main(" in "\n".join(block.lines)]
assert len(programs) == 1, f"{page} shows {len(programs)} programs in C"
with open(out, "w") as file:
    file.write(programs[0] + "\n")
