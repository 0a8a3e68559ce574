"""Checks the tables of test/bench/results.

Usage: results.py SOURCE. Each row has as many cells as the heading, a name in the
column `machine` is one of machines.csv, and the page of benchmarks names each file.
"""
import csv
import fnmatch
import os
import re
import sys

folder = os.path.join(sys.argv[1], "test", "bench")
with open(os.path.join(folder, "README.md"), encoding="utf-8") as file:
    named = set(re.findall(r"([\w*]+\.csv)", file.read()))
tables = {}
for name in sorted(os.listdir(os.path.join(folder, "results"))):
    with open(os.path.join(folder, "results", name), encoding="utf-8", newline="") as file:
        tables[name] = list(csv.reader(file))
machines = {row[0] for row in tables["machines.csv"][1:]}

failures = [f"test/bench/README.md names {name}, which does not exist" for name in named if not fnmatch.filter(tables, name)]
for name, (heading, *rows) in tables.items():
    if not any(fnmatch.fnmatch(name, pattern) for pattern in named):
        failures.append(f"{name}: test/bench/README.md does not name it")
    for number, row in enumerate(rows, 2):
        if len(row) != len(heading):
            failures.append(f"{name}:{number}: has {len(row)} cells; the heading has {len(heading)}")
        elif heading[0] == "machine" and row[0] not in machines:
            failures.append(f'{name}:{number}: "{row[0]}" is no machine of machines.csv')
sys.exit("\n".join(failures) or 0)
