#!/usr/bin/env python3
"""Runs every command with a standard stream that fails: full, closed, or a pipe without a reader.

  streams.py --bin FOLDER --model MODEL.gguf --work DIR

Lost output must be reported: exit code 4 if the command would otherwise succeed, its own code if it
fails anyway; never a signal, and at most one more line than usual on stderr, if that works. If the reader
of a pipe has gone, the exit code is 141, as a shell reports for other programs, without a line. A stream
that a command does not use does not matter.
"""
import argparse
import filecmp
import os
import re
import shutil
import subprocess
import sys

IO, UNREAD_CODE = 4, 141
FULL, CLOSED, UNREAD = "full", "closed", "unread"
WHY = {FULL: "No space left on device", CLOSED: "Bad file descriptor"}
# Combinations of descriptors and kinds of failure.
FAILURES = [{fd: how} for fd in (1, 2) for how in (FULL, CLOSED, UNREAD)]
FAILURES += [{1: FULL, 2: FULL}, {0: CLOSED, 1: CLOSED, 2: CLOSED}]
FEW = [{1: FULL}, {0: CLOSED, 1: CLOSED, 2: CLOSED}]


def run(command, folder, failing):
    """Returns the exit code and the output on working streams; standard input is empty."""
    def fail():
        for fd, how in failing.items():
            if how == CLOSED:
                os.close(fd)
                continue
            if how == FULL:
                broken = os.open("/dev/full", os.O_WRONLY)
            else:
                unread, broken = os.pipe()
                os.close(unread)
            os.dup2(broken, fd)
            os.close(broken)

    def target(fd):
        return None if fd in failing else subprocess.PIPE
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=target(1), stderr=target(2),
                          preexec_fn=fail, timeout=300)
    return done.returncode, done.stdout or b"", done.stderr or b""


class Checker:
    def __init__(self, work):
        self.work = work
        self.problems = 0

    def check(self, command, failures, outputs=(), usual=None):
        """Checks a command. `outputs` are files that it writes, identical in every run. A command that takes long and
        succeeds on working streams does not run on them if `usual` is a pattern of the lines that it then prints on
        stderr."""
        folder = os.path.join(self.work, "run")
        before = os.path.join(self.work, "usual")
        for path in (folder, before):
            shutil.rmtree(path, ignore_errors=True)
        os.makedirs(before)
        code, out, err = (0, b"", b"") if usual else run(command, before, {})
        uses = {1: bool(out or usual), 2: bool(err or usual)}
        for failing in failures:
            os.makedirs(folder)
            found, _, text = run(command, folder, failing)
            lost = [fd for fd in failing if uses.get(fd)]
            unread = [fd for fd in lost if failing[fd] == UNREAD]
            expected = (UNREAD_CODE if unread else IO) if code == 0 and lost else code
            problems = []
            if found != expected:
                problems.append(f"exit code {found}, expected {expected}")
            known = len(re.findall(usual, text, re.MULTILINE)) if usual else err.count(b"\n")
            added = text.count(b"\n") - known
            if added > (1 if lost and not unread else 0):
                problems.append(f"{added} lines more than usual on stderr")
            if code == 0 and lost == [1] and not unread and 2 not in failing:
                last = text.splitlines()[-1:]
                if not last or not re.fullmatch(f"error: .*output.*: {WHY[failing[1]]}".encode(), last[0]):
                    problems.append(f"expected an error about {WHY[failing[1]]}")
            for word in (b"LLVM ERROR", b"terminate", b"what()", b"Stack dump"):
                if word in text:
                    problems.append(f"{word.decode()} on stderr")
            # A file that got the number of a closed stream would have received its text.
            if set(os.listdir(folder)) != set(outputs if found in (0, IO, UNREAD_CODE) else []) - self.absent(code, outputs):
                problems.append(f"files {os.listdir(folder)}")
            for name in os.listdir(folder):
                if not filecmp.cmp(os.path.join(folder, name), os.path.join(before, name), shallow=False):
                    problems.append(f"{name} differs")
            for problem in problems:
                self.problems += 1
                print(" ".join(command), failing, problem, text[-300:], sep="\n    ")
            shutil.rmtree(folder)

    def absent(self, code, outputs):
        return set(outputs) if code != 0 else set()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--bin", "--model", "--work"):
        p.add_argument(name, required=True)
    a = p.parse_args()
    moec, moert, moe_opt = (os.path.join(os.path.abspath(a.bin), tool) for tool in ("moec", "moert", "moe-opt"))
    shutil.rmtree(a.work, ignore_errors=True)
    os.makedirs(a.work)
    work, model = os.path.abspath(a.work), os.path.abspath(a.model)
    plan, text = os.path.join(work, "p.fb"), os.path.join(work, "p.mlir")
    prompt, graph = os.path.join(work, "prompt.txt"), os.path.join(work, "graph.mlir")
    subprocess.run([moec, "compile", model, "--ctx", "128", "-o", plan], check=True, stderr=subprocess.DEVNULL)
    with open(text, "wb") as file:
        subprocess.run([moec, "inspect", plan], check=True, stdout=file)
    with open(graph, "wb") as file:
        subprocess.run([moec, "compile", model, "--emit", "moe"], check=True, stdout=file)
    with open(prompt, "w") as file:
        file.write("In the beginning God created the heaven and the earth. " * 20)

    checker = Checker(work)
    quick = ["-p", "4", "-n", "2", "--no-limits", "-t", "1"]
    for words in (
            "--help", "--version", "", "compil", "compile --help", "model M", "model M --json", "explain P",
            "explain P --full", "explain P --json", "explain P --html -", "explain M", "inspect P", "inspect nowhere", "targets", "targets --json",
            "targets 4090+xeon", "targets 4090+xeon --json", "targets nowhere", "architectures", "formats", "formats --json",
            "compile M --emit moe", "compile M --emit placed --target xeon", "compile M --emit plan --target xeon -v",
            "compile M --target xeon --experts 99 -o q.fb", "compile M --target xeon --weights reference -o -"):
        checker.check([moec] + [{"P": plan, "M": model}.get(w, w) for w in words.split()], FAILURES)
    compiled = [moec, "compile", model, "--target", "xeon", "-o", "q.fb"]
    checker.check(compiled, FAILURES, ["q.fb", "q.weights"])
    checker.check(compiled + ["--json"], FEW, ["q.fb", "q.weights"])
    checker.check(compiled + ["-v", "--weights", "reference"], FEW, ["q.fb"])
    checker.check([moec, "assemble", text, "-o", "q.fb"], FAILURES, ["q.fb"])
    checker.check([moec, "assemble", text, "-o", "-"], FEW)
    os.environ["XDG_CACHE_HOME"] = os.path.join(work, "cache")
    # calibrate measures for 20 seconds; test/compile/calibrate.test has it on working streams.
    checker.check([moec, "calibrate", "--force"], FEW, usual=rb"^(?:measuring|note:) .*\n")

    for words in (
            "--help", "--version", "", "rn", "run --help", "run P -p the -n 4", "run P -p the -n 4 --json",
            "run P -p the -n 4 --stats", "run nowhere -p the", "tokenize P --text the", "info P", "info P --json",
            "info M", "verify P", "verify P --json", "verify nowhere"):
        checker.check([moert] + [{"P": plan, "M": model}.get(w, w) for w in words.split()], FAILURES)
    checker.check([moert, "logits", plan, "--tokens", "3,4", "-t", "1", "--out", "x.npy"], FEW, ["x.npy"])
    checker.check([moert, "logits", plan, "--tokens", "3,4", "-t", "1", "--out", "-"], FEW)
    # The output of these differs between runs, but its length does not.
    for command in (["perplexity", plan, "--file", prompt, "-t", "1"],
                    ["perplexity", plan, "--file", prompt, "-t", "1", "--json"],
                    ["profile", plan] + quick, ["profile", plan, "--json"] + quick,
                    ["profile", plan, "--trace", "-"] + quick,
                    ["bench", plan, "-r", "1"] + quick, ["bench", plan, "-r", "1", "-o", "json"] + quick,
                    ["bench", plan, "-r", "1", "-o", "csv"] + quick):
        checker.check([moert] + command, FAILURES)

    checker.check([moe_opt, graph, "--moe-print-cost"], [{1: FULL}, {1: CLOSED}])
    print(f"{checker.problems} problems")
    return checker.problems != 0


if __name__ == "__main__":
    sys.exit(main())
