#!/usr/bin/env python3
"""Counts the tests in JUnit reports and prints "N passed, N failed" last.

  count-tests.py CTEST.xml LIT.xml

ctest runs the whole lit suite as one test named "lit"; its cases are counted
from lit's own report instead. Exits 1 when a test failed, a report is missing
or nothing ran.
"""
import sys
import xml.etree.ElementTree as ET


def cases(path):
    """Yields (name, failed) of every test that ran."""
    for case in ET.parse(path).getroot().iter("testcase"):
        if case.get("status") in ("notrun", "disabled"):
            continue
        bad = case.find("failure") is not None or case.find("error") is not None
        if case.find("skipped") is None or bad:
            yield f'{case.get("classname", "")}.{case.get("name")}', bad


def main(ctest_path, lit_path):
    failed, passed = [], 0
    for path in (ctest_path, lit_path):
        try:
            for name, bad in cases(path):
                if path == ctest_path and name.split(".")[-1] == "lit":
                    continue
                if bad:
                    failed.append(name)
                else:
                    passed += 1
        except (OSError, ET.ParseError) as error:
            failed.append(f"{path}: {error}")
    for name in failed:
        print("FAILED", name)
    print(f"{passed} passed, {len(failed)} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
