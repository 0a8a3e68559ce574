#!/usr/bin/env python3
"""Counts the tests in JUnit reports, lists the skipped ones by reason, and prints "N passed, N failed" last.

  count-tests.py REPORT.xml...

ctest runs the whole lit suite as one test named "lit"; its cases are counted
from lit's own report, which has to be given too. Exits 1 when a test failed,
a report is missing or nothing ran.
"""
import collections
import re
import sys
import xml.etree.ElementTree as ET


def cases(path):
    """Yields (name, whether it failed, why it was skipped or None) of every test of a report."""
    for case in ET.parse(path).getroot().iter("testcase"):
        bad = case.find("failure") is not None or case.find("error") is not None
        skipped = case.find("skipped")
        left_out = case.get("status") in ("notrun", "disabled")
        reason = None
        if not bad and (skipped is not None or left_out):
            # GoogleTest prints a line for the place, then what GTEST_SKIP was given; lit has a message.
            told = re.search(r"^[^\n]*: Skipped\n(.*?)$", case.findtext("system-out") or "", re.M)
            message = skipped.get("message") if skipped is not None else None
            if message and message.startswith("Test not selected"):
                continue  # Another run has executed the test.
            reason = (told and told.group(1).strip()) or message or "not run"
        yield f'{case.get("classname", "")}.{case.get("name")}', bad, reason


def main(paths):
    failed, passed, skipped = [], 0, collections.defaultdict(list)
    for path in paths:
        try:
            for name, bad, reason in cases(path):
                if name == "lit.lit":
                    continue
                if bad:
                    failed.append(name)
                elif reason:
                    skipped[reason].append(name)
                else:
                    passed += 1
        except (OSError, ET.ParseError) as error:
            failed.append(f"{path}: {error}")
    for reason, names in sorted(skipped.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        print(f"SKIPPED {len(names)} ({reason}): {shown}")
    for name in failed:
        print("FAILED", name)
    print(f"{passed} passed, {len(failed)} failed, {sum(map(len, skipped.values()))} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
