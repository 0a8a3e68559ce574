#!/usr/bin/env python3
"""Drives `moert serve` with the official Python clients of OpenAI, Anthropic and Ollama, and with LangChain.

  serve_clients.py --moert PATH --work DIR PLAN.fb=TRAIT,TRAIT... [--only TEXT]

Each plan is served with all checks of clients/ that its traits allow (clients/common.py lists them); a plan that is
"slow" also with keys, and with room for two requests. Needs the PyPI packages openai, anthropic, ollama,
langchain-openai, langchain-anthropic and langchain-ollama.
"""
import argparse
import os
import time
import traceback

from clients.common import CHECKS, KEY, MODEL, Target
from serve import Server


def run_checks(arguments, plan, traits, options, must_have=frozenset()):
    """Serves a plan and runs the checks that need no other traits, but these; returns names of those that failed."""
    server = Server(arguments.moert, [plan], "--alias", MODEL, *options)
    failed = []
    try:
        target = Target(server.base, traits)
        for name, needed, function in CHECKS:
            if not must_have <= needed <= traits or arguments.only not in name:
                continue
            start = time.monotonic()
            try:
                function(target)
            except Exception:  # Whichever client has failed, the next checks still run.
                traceback.print_exc()
                failed.append(name)
            else:
                print(f"{os.path.basename(plan)}: {name}: ok, {time.monotonic() - start:.1f} s", flush=True)
        server.stop()
    finally:
        server.process.kill()
    return failed


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("plans", nargs="+", metavar="PLAN.fb=TRAITS")
    p.add_argument("--moert", required=True)
    p.add_argument("--work", required=True)
    p.add_argument("--only", default="", help="checks whose names hold this")
    a = p.parse_args()
    os.makedirs(a.work, exist_ok=True)
    keys = os.path.join(a.work, "keys")
    with open(keys, "w") as file:
        file.write(f"test:{KEY}\n")
    failed = []
    for argument in a.plans:
        plan, _, names = argument.rpartition("=")
        traits = frozenset(names.split(","))
        failed += run_checks(a, plan, traits, ())
        if "slow" in traits:
            failed += run_checks(a, plan, traits | {"keys"}, ("--api-key-file", keys), {"keys"})
            failed += run_checks(a, plan, traits | {"full"}, ("--sequences", "1", "--queue", "1"), {"full"})
    assert not failed, f"failed: {', '.join(failed)}"
    print("clients: ok")


if __name__ == "__main__":
    main()
