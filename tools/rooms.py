#!/usr/bin/env python3
"""Builds and runs the tests of rooms, parts of the tree that are tested alone (test/rooms.toml).

  tools/rooms.py ROOM...            the tests of these rooms
  tools/rooms.py --changed [REV]    those that changes since REV (default: HEAD, what is not committed) can break
  tools/rooms.py --list             rooms, and what belongs to them
  tools/rooms.py --check            fails where a file, a program or a pattern has no counterpart

Prints each program and its tests, and "N passed, N failed" last. Works on the build in build/.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import tomllib
import xml.etree.ElementTree as ET

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
LIT = "/usr/lib/llvm-19/build/utils/lit/lit.py"


def rooms():
    with open(ROOT / "test/rooms.toml", "rb") as file:
        return tomllib.load(file)


def room_of(path, table):
    """The room with the longest entry that the path begins with, or None."""
    entries = ((len(source), name) for name, room in table.items() for source in room["sources"]
               if path == source or path.startswith(source.rstrip("/") + "/"))
    return max(entries, default=(0, None))[1]


def programs_of_file(path):
    """The programs whose lists in CMake files name a test's source file."""
    text = (ROOT / "test/unit/CMakeLists.txt").read_text() + (ROOT / "test/kernels/CMakeLists.txt").read_text()
    blocks = re.findall(r"moe_add_gtest\((\w+)(.*?)\n\s*\)|moe_add_gtest\((\w+)([^)]*)\)", text, re.S)
    name = re.escape(os.path.basename(path))
    return {first or second for first, inner, second, other in blocks if re.search(rf"\b{name}\b", inner + other)}


def changed_files(revision):
    def git(*arguments):
        return subprocess.run(["git", "-C", ROOT, *arguments], stdout=subprocess.PIPE, text=True, check=True).stdout.split("\0")

    return sorted(filter(None, git("diff", "-z", "--name-only", revision) + git("ls-files", "-z", "--others", "--exclude-standard")))


def of_changes(files, table):
    """Returns (names of rooms, programs, patterns of lit tests) for changed files."""
    names, programs, patterns = set(), set(), []
    for path in files:
        inTest = re.fullmatch(r"test/(?:unit|kernels)/[\w/]+\.(?:cpp|h|inc)", path) and programs_of_file(path)
        if inTest:
            programs |= inTest
        elif re.fullmatch(r"test/.*\.(test|mlir)", path):
            patterns.append(re.escape(path.removeprefix("test/")) + "$")
        elif path.endswith(".md"):
            names.add("pages")
        elif room := room_of(path, table):
            names.add(room)
        else:
            sys.exit(f"error: {path} belongs to no room: add it to test/rooms.toml")
    return names, programs, patterns


def known_tests():
    """For each program its tests that are not nightly, and whether that is all of them, by ctest."""
    listing = subprocess.run(["ctest", "--test-dir", BUILD, "--show-only=json-v1"], stdout=subprocess.PIPE, check=True).stdout
    tests = {}
    for test in json.loads(listing)["tests"]:
        command = test.get("command") or [""]
        labels = next((each["value"] for each in test["properties"] if each["name"] == "LABELS"), [])
        found = [each.removeprefix("--gtest_filter=") for each in command if each.startswith("--gtest_filter=")]
        mine = tests.setdefault(os.path.basename(command[0]), [[], True])
        if "nightly" in labels:
            mine[1] = False
        elif found:
            mine[0].append(found[0])
    return tests


def run_program(name, tests, isWhole, shard, shards, folder):
    """Runs a shard of a program, and returns (passed, names of failed, seconds, output)."""
    report = f"{folder}/{name}.{shard}.json"
    environment = dict(os.environ, GTEST_TOTAL_SHARDS=str(shards), GTEST_SHARD_INDEX=str(shard))
    flags = folder + f"/{name}.flags"
    with open(flags, "w") as file:
        file.write("" if isWhole else "--gtest_filter=" + ":".join(tests) + "\n")
    start = time.monotonic()
    result = subprocess.run([BUILD / "bin" / name, f"--gtest_flagfile={flags}", f"--gtest_output=json:{report}", "--gtest_brief=1"],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=environment)
    seconds = time.monotonic() - start
    passed, failed = 0, []
    try:
        with open(report) as file:
            suites = json.load(file)["testsuites"]
    except (OSError, ValueError):
        return 0, [f"{name} (no report, exit status {result.returncode})"], seconds, result.stdout
    for suite in suites:
        for test in suite["testsuite"]:
            if test.get("failures"):
                failed.append(f"{name} {suite['name']}.{test['name']}")
            elif test["result"] == "COMPLETED":
                passed += 1
    if result.returncode != 0 and not failed:
        failed.append(f"{name} (exit status {result.returncode})")
    return passed, failed, seconds, result.stdout


def run_programs(programs):
    tests, shards = known_tests(), os.cpu_count() or 1
    passed, failed = 0, []
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(shards) as pool:
        running = {name: [pool.submit(run_program, name, *tests[name], shard, shards, folder) for shard in range(shards)]
                   for name in sorted(programs) if name in tests and tests[name][0]}
        for name, parts in running.items():
            results = [part.result() for part in parts]
            bad = [test for result in results for test in result[1]]
            if bad:
                print("".join(result[3] for result in results), end="")
            count = sum(result[0] for result in results)
            print(f"{name}: {count} passed, {len(bad)} failed, {sum(result[2] for result in results):.0f} s of CPUs", flush=True)
            passed += count
            failed += bad
    return passed, failed


def run_lit(pattern):
    with tempfile.TemporaryDirectory() as folder:
        report = folder + "/lit.xml"
        start = time.monotonic()
        status = subprocess.run([sys.executable, LIT, "-q", "--xunit-xml-output", report, "--filter", pattern, BUILD / "test"]).returncode
        try:
            cases = list(ET.parse(report).getroot().iter("testcase"))
        except (OSError, ET.ParseError):
            return 0, [f"lit (exit status {status})"]
        bad = [case for case in cases if case.find("failure") is not None]
        good = [case for case in cases if case.find("skipped") is None and case.find("failure") is None]
        print(f"lit: {len(good)} passed, {len(bad)} failed, {time.monotonic() - start:.0f} s")
        return len(good), [f"{case.get('classname')}.{case.get('name')}" for case in bad]


def check(table):
    errors = []
    programs = {name for room in table.values() for name in room.get("programs", [])}
    known = {name for name in known_tests() if re.fullmatch(r"moe\w+_tests|\w+Test", name)}
    errors += [f"{name}: no room has this program" for name in sorted(known - programs)]
    errors += [f"{name}: there is no such program" for name in sorted(programs - known)]
    names = [str(path.relative_to(ROOT / "test")) for kind in ("test", "mlir") for path in (ROOT / "test").rglob("*." + kind)]
    for room, values in table.items():
        errors += [f"{room}: no {source}" for source in values["sources"] if not (ROOT / source).exists()]
        if values.get("lit") and not any(re.search(values["lit"], name) for name in names):
            errors.append(f"{room}: no lit test is called like {values['lit']}")
    top = {path.name for path in ROOT.iterdir() if not path.name.startswith("build")} - {".git"}
    errors += [f"{name}: belongs to no room" for name in sorted(top) if not room_of(name, table) and
               not any(source.startswith(name + "/") for room in table.values() for source in room["sources"])]
    print("\n".join(errors) or "rooms: ok")
    return 1 if errors else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="*", metavar="ROOM")
    parser.add_argument("--changed", nargs="?", const="HEAD", metavar="REV")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    table = rooms()
    if arguments.check:
        return check(table)
    if arguments.list:
        for name, room in table.items():
            print(f"{name:10} {', '.join(room['sources'])}")
        return 0
    if unknown := set(arguments.rooms) - set(table):
        parser.error(f"no room is called {', '.join(sorted(unknown))}; there are {', '.join(table)}")
    names, programs, patterns = set(arguments.rooms), set(), []
    if arguments.changed:
        changed, programs, patterns = of_changes(changed_files(arguments.changed), table)
        names |= changed
    if not names and not programs and not patterns:
        print("nothing has changed" if arguments.changed else "name a room, or --changed", file=sys.stderr)
        return 0 if arguments.changed else 2
    for name in sorted(names):
        programs |= set(table[name].get("programs", []))
        patterns += [table[name]["lit"]] if table[name].get("lit") else []
    print("rooms:", ", ".join(sorted(names)) or "none", flush=True)
    targets = sorted(programs) + (["lit_tools"] if patterns else [])
    if subprocess.run(["cmake", "--build", BUILD, "--target", *targets]).returncode != 0:
        return 1
    passed, failed = run_programs(programs) if programs else (0, [])
    if patterns:
        count, bad = run_lit("|".join(patterns))
        passed, failed = passed + count, failed + bad
    for name in failed:
        print("FAILED", name)
    print(f"{passed} passed, {len(failed)} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
