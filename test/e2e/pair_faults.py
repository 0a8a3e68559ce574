"""Makes every system call of a recompilation fail, or kills the process there.

A plan and its weights are in a folder with other files. The same output is
compiled again with other options while test/support/Faults.cpp injects a fault
at call 1, 2, 3, ... After each fault, the old or the new pair must run and give
its own logits, and no other file may have changed. A compilation that failed,
rather than being killed, leaves no files behind; a later compilation removes
those of a killed one. Power failures are not tested, but content is flushed
before it gets a name, and each name before the next one.
"""
import argparse
import os
import shutil
import subprocess
import sys

IDS = "3,10,17,24"
# Files that are not moec's: their names are similar, but contents or endings differ.
FOREIGN = {
    "plan.weights.tmp.notes": b"a user's",
    "plan.weights.0123456789abcdef": b"no weights file",
    "plan.weights.backup": b"moec weights 3\n",
    "other.weights.0123456789abcdef": b"moec weights 3\n",
    "plan.fb.old": b"x",
}


class Test:
    def __init__(self, options):
        self.options = options
        self.work = os.path.realpath(options.work)
        self.folder = os.path.join(self.work, "out")
        self.start = os.path.join(self.work, "start")
        self.failures = []

    def compile(self, folder, compile_args, faults=None):
        environment = dict(os.environ)
        if faults:
            environment.update(faults, LD_PRELOAD=self.options.library, FAULT_UNDER=self.folder)
        return subprocess.run(
            [self.options.moec, "compile", os.path.join(folder, "m.gguf"),
             "-o", os.path.join(folder, "plan.fb")] + compile_args.split(),
            env=environment, capture_output=True, text=True, timeout=120)

    def logits(self, folder):
        npy = os.path.join(self.work, "logits.npy")
        if os.path.exists(npy):
            os.remove(npy)
        run = subprocess.run(
            [self.options.moert, "logits", os.path.join(folder, "plan.fb"), "--tokens", IDS,
             "--threads", "1", "--out", npy], capture_output=True, text=True, timeout=120)
        if run.returncode != 0:
            return "does not run: " + run.stderr.strip()
        with open(npy, "rb") as file:
            return file.read()

    @staticmethod
    def weights(folder):
        with open(os.path.join(folder, "plan.weights"), "rb") as file:
            return file.read()

    def checked_compile(self, folder, compile_args):
        run = self.compile(folder, compile_args)
        if run.returncode != 0:
            sys.exit("cannot compile: " + run.stderr)

    def prepare(self):
        shutil.rmtree(self.work, ignore_errors=True)
        os.makedirs(self.start)
        shutil.copy(self.options.model, os.path.join(self.start, "m.gguf"))
        # References: the new pair in a folder of its own, and the old one as the starting point.
        self.checked_compile(self.start, self.options.new)
        self.new, new_weights = self.logits(self.start), self.weights(self.start)
        self.checked_compile(self.start, self.options.old)
        self.old, old_weights = self.logits(self.start), self.weights(self.start)
        if not isinstance(self.old, bytes) or not isinstance(self.new, bytes) or self.old == self.new:
            sys.exit("the references must run and differ")
        # If the weights were the same, any plan would run with either.
        if old_weights == new_weights:
            sys.exit("the references must have different weights")
        for name, content in FOREIGN.items():
            with open(os.path.join(self.start, name), "wb") as file:
                file.write(content)
        self.names = set(os.listdir(self.start))
        self.restore()
        count = os.path.join(self.work, "count")
        log = os.path.join(self.work, "log")
        run = self.compile(self.folder, self.options.new, {"FAULT_AT": "0", "FAULT_COUNT": count, "FAULT_LOG": log})
        if run.returncode != 0 or self.logits(self.folder) != self.new:
            sys.exit("cannot compile without faults: " + run.stderr)
        with open(count) as file:
            self.calls = int(file.read())
        if self.calls < 10:
            sys.exit(f"only {self.calls} calls were counted")
        with open(log) as file:
            self.check_durable(file.read().splitlines())

    def check_durable(self, calls):
        flushed, unflushed_folders, renames = set(), set(), 0
        for call in calls:
            what, *paths = call.split(" ")
            if what == "sync":
                flushed.add(paths[0])
                unflushed_folders.discard(paths[0])
                continue
            if paths[0] not in flushed or unflushed_folders:
                self.failures.append(f"{call}, but neither its content nor names before it are flushed: {calls}")
            flushed.add(paths[1])
            unflushed_folders.add(os.path.dirname(paths[1]))
            renames += 1
        if unflushed_folders or renames != 3:
            self.failures.append(f"expected three renames and their folders flushed, found {calls}")

    def restore(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.start, self.folder)

    def fail(self, kind, call, what):
        self.failures.append(f"{kind} at call {call} of {self.calls}: {what}")

    def foreign_changes(self):
        for name in sorted(FOREIGN) + ["m.gguf"]:
            try:
                with open(os.path.join(self.start, name), "rb") as before, \
                        open(os.path.join(self.folder, name), "rb") as after:
                    if before.read() != after.read():
                        yield name + " changed"
            except OSError as error:
                yield str(error)

    def strike(self, kind, call):
        self.restore()
        run = self.compile(self.folder, self.options.new, {"FAULT_AT": str(call), "FAULT_KIND": kind})
        dies = kind in ("kill", "torn")
        if dies and run.returncode != -9:
            return self.fail(kind, call, f"was not killed but returned {run.returncode}")
        if not dies and (run.returncode < 0 or run.returncode == 1):
            self.fail(kind, call, f"returned {run.returncode}: {run.stderr}")
        logits = self.logits(self.folder)
        if logits not in (self.old, self.new):
            self.fail(kind, call, logits if isinstance(logits, str) else "other logits")
        if run.returncode == 0 and logits != self.new:
            self.fail(kind, call, "said that it wrote the new pair")
        for change in self.foreign_changes():
            self.fail(kind, call, change)
        if dies and self.options.recover:
            again = self.compile(self.folder, self.options.new)
            if again.returncode != 0:
                self.fail(kind, call, "cannot compile afterwards: " + again.stderr)
            if self.logits(self.folder) != self.new:
                self.fail(kind, call, "the next compilation's pair does not run")
        # If a rename or its undoing failed, the pair may need its staged weights.
        left = set(os.listdir(self.folder)) - self.names
        if left and (logits == self.old or dies) and (self.options.recover or not dies) \
                and not self.may_stay(kind, left):
            self.fail(kind, call, f"left {sorted(left)}")

    @staticmethod
    def may_stay(kind, left):
        # The clean-up itself has failed.
        return kind in ("eio", "enospc") and len(left) == 1


def main():
    parser = argparse.ArgumentParser()
    for name in ("moec", "moert", "library", "model", "work", "old", "new"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--kinds", default="eio,enospc,kill,torn")
    parser.add_argument("--recover", action="store_true", help="compile again after each death")
    test = Test(parser.parse_args())
    test.prepare()
    for kind in test.options.kinds.split(","):
        for call in range(1, test.calls + 1):
            test.strike(kind, call)
    for failure in test.failures:
        print(failure)
    if test.failures:
        sys.exit(1)
    print(f"faults: ok, {test.calls} calls")


main()
