#!/usr/bin/env python3
"""Puts bytes that control a terminal into every string of every input; no command may print them.

  escapes.py --bin FOLDER --model MODEL.gguf --work DIR [--most N]

One string after another, in a copy of the model and of its plan, is overwritten by hostile bytes of
the same length. Commands that read the file are run on each copy; they may succeed or fail. Then all
strings with which they succeed are made hostile at once, for every command. Target files, text of the
plan dialect, paths and arguments are hostile, too. --most takes N strings of each file, evenly spaced,
instead of all.
"""
import argparse
import json
import os
import re
import shutil
import struct
import subprocess
import sys

# Escape sequences, BEL, backspace, DEL, CSI as a byte and as a character, marks that change the direction of text.
HOSTILE = b"\x1b]0;x\x07\x08\x7f\x9b2J\xc2\x9b2J\xe2\x80\xae\xe2\x81\xa6\r\x0b"
# Contains no bytes that end a string, for arguments and paths.
NAME = HOSTILE.decode("utf-8", "surrogateescape")
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\udc80-\udcff]")


class Checker:
    def __init__(self):
        self.problems = 0
        self.runs = 0

    def run(self, *command):
        """Returns the exit code; reports bytes that must not be printed."""
        done = subprocess.run([c.encode("utf-8", "surrogateescape") for c in command], stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=300)
        self.runs += 1
        problems = []
        for stream in (done.stdout, done.stderr):
            found = UNSAFE.search(stream.decode("utf-8", "surrogateescape"))
            if found:
                start = max(0, found.start() - 60)
                problems.append(repr(stream.decode("utf-8", "surrogateescape")[start:found.end() + 60]))
        if done.returncode not in range(8):
            problems.append(f"exit code {done.returncode}: {done.stderr[-300:]}")
        if "--json" in command and done.returncode == 0:
            try:
                json.loads(done.stdout)
            except ValueError as error:
                problems.append(f"not JSON: {error}")
        for problem in problems:
            self.problems += 1
            print(ascii(command), problem, sep="\n    ")
        return done.returncode


class Strings:
    """The sequences of printable bytes in a file, which can be overwritten and restored."""

    def __init__(self, path, most, region=None):
        self.path = path
        with open(path, "rb") as file:
            self.bytes = file.read(region)
        found = [m.span() for m in re.finditer(rb"[\x20-\x7e]{4,}", self.bytes)]
        # One string of each kind: layers differ in numbers, and a vocabulary has thousands of words.
        kinds, words = {}, []
        for begin, end in found:
            text = self.bytes[begin:end]
            if re.fullmatch(rb"[A-Za-z ]+", text):
                words.append((begin, end))
            else:
                kinds.setdefault(re.sub(rb"[0-9]+", b"", text)[:16], (begin, end))
        spans = sorted(list(kinds.values()) + words[::len(words) // 20])
        self.spans = spans[::-(-len(spans) // most)]

    def overwrite(self, spans):
        with open(self.path, "r+b") as file:
            for begin, end in spans:
                file.seek(begin)
                file.write((HOSTILE * (1 + (end - begin) // len(HOSTILE)))[:end - begin - 2])
                # Each string ends in another number, because moec assemble keeps equal strings once.
                file.write(b"%02d" % self.spans.index((begin, end)))

    def restore(self, spans):
        with open(self.path, "r+b") as file:
            for begin, end in spans:
                file.seek(begin)
                file.write(self.bytes[begin:end])


def content(path):
    with open(path, "rb") as file:
        return file.read()


def field_number(table, field):
    """Returns the number of a field in plan.fbs."""
    schema = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "runtime", "schema", "plan.fbs")
    with open(schema) as file:
        body = re.search(r"table %s \{(.*?)\n\}" % table, file.read(), re.S).group(1)
    return re.findall(r"^  (\w+):", body, re.M).index(field)


def forget_checksum(path):
    """Removes the plan's checksum. The plan stays valid and may then be changed: Plan.checksum in plan.fbs."""
    with open(path, "r+b") as file:
        data = file.read()
        root = struct.unpack_from("<I", data)[0]
        table = root - struct.unpack_from("<i", data, root)[0]
        entry = table + 4 + 2 * field_number("Plan", "checksum")
        for place, size in ((root + struct.unpack_from("<H", data, entry)[0], 8), (entry, 2)):
            file.seek(place)
            file.write(bytes(size))


def one_by_one(checker, strings, commands):
    """Makes each string hostile alone; returns those with which every command succeeds."""
    harmless = []
    for span in strings.spans:
        strings.overwrite([span])
        if all([checker.run(*command) == 0 for command in commands]):
            harmless.append(span)
        strings.restore([span])
    return harmless


def together(checker, strings, spans, commands):
    """Halves the set until all commands succeed on the rest, or it is one string."""
    strings.overwrite(spans)
    good = all([checker.run(*command) == 0 for command in commands])
    if not good:
        strings.restore(spans)
        if len(spans) > 1:
            half = len(spans) // 2
            return together(checker, strings, spans[:half], commands) + together(checker, strings, spans[half:], commands)
        return []
    return spans


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--bin", "--model", "--work"):
        p.add_argument(name, required=True)
    p.add_argument("--most", type=int, default=1 << 30)
    a = p.parse_args()
    moec, moert = (os.path.join(os.path.abspath(a.bin), tool) for tool in ("moec", "moert"))
    work = os.path.join(os.path.abspath(a.work), "w")
    shutil.rmtree(os.path.dirname(work), ignore_errors=True)
    os.makedirs(work)
    checker = Checker()

    def path(name):
        return os.path.join(work, name)
    clean = path("clean.fb")
    model = path("m.gguf")
    shutil.copyfile(a.model, model)
    checker.run(moec, "compile", model, "--ctx", "64", "-o", clean)
    forget_checksum(clean)

    # A plan: every string in it.
    plan = path("p.fb")
    shutil.copyfile(clean, plan)
    if os.path.exists(path("clean.weights")):
        shutil.copyfile(path("clean.weights"), path("p.weights"))
    strings = Strings(plan, a.most)
    reading = [(moec, "explain", plan), (moert, "info", plan), (moec, "inspect", plan)]
    harmless = one_by_one(checker, strings, reading)
    quick = ("-p", "4", "-n", "2", "--no-limits", "-t", "1")
    every = reading + [
        (moert, "tokenize", plan, "--text", "the"), (moert, "verify", plan), (moert, "verify", plan, "--json"), (moec, "explain", plan, "--full"), (moec, "explain", plan, "--json"), (moec, "explain", plan, "--html", "-"), (moert, "info", plan, "--json"),
        (moert, "run", plan, "-p", "the", "-n", "40", "--temp", "2", "-t", "1"),
        (moert, "run", plan, "-p", "the" + NAME, "-n", "4", "--json", "-t", "1"),
        (moert, "run", plan, "-p", "the", "-n", "4", "--stats", "--stop", NAME, "-t", "1"),
        (moert, "perplexity", plan, "--file", path("text"), "--ctx", "8", "-t", "1"),
        (moert, "perplexity", plan, "--file", path("text"), "--ctx", "8", "--json", "-t", "1"),
        (moert, "logits", plan, "--tokens", "3,4", "--out", path("x.npy"), "-t", "1"),
        (moert, "bench", plan, "-r", "1", *quick), (moert, "bench", plan, "-r", "1", "-o", "json", *quick),
        (moert, "bench", plan, "-r", "1", "-o", "csv", *quick),
        (moert, "profile", plan, *quick), (moert, "profile", plan, "--json", *quick)]
    with open(path("text"), "wb") as file:
        file.write(b"In the beginning " * 20 + HOSTILE)
    print(f"{len(strings.spans)} strings of a plan, {len(harmless)} of them free")
    if not together(checker, strings, harmless, reading):
        checker.problems += 1
        print("expected strings of a plan that may be anything")
    for command in every:
        checker.run(*command)

    # assemble reads the output of inspect.
    text, again = path("p.mlir"), path("again.fb")
    with open(text, "wb") as file:
        subprocess.run([moec, "inspect", plan], stdout=file, check=False)
    assembled = checker.run(moec, "assemble", text, "-o", again)
    if assembled == 0:
        forget_checksum(again)
    if assembled != 0 or content(again) != content(plan):
        checker.problems += 1
        print("a hostile plan does not survive inspect and assemble")

    # Spaces in the vocabulary become ESC in the byte-level alphabet, so generated text contains ESC.
    with open(clean, "rb") as file:
        spaces = re.sub(rb"\xc4\xa0(?=[a-z]{2})", b"\xc4\x9b", file.read())
    with open(plan, "wb") as file:
        file.write(spaces)
    if checker.run(moert, "run", plan, "-p", "the", "-n", "40", "-t", "1") != 0:
        checker.problems += 1
        print("expected a plan whose tokens are ESC to run")
    done = subprocess.run([moert, "run", plan, "-p", "the", "-n", "40", "-t", "1"], capture_output=True, check=False)
    if b"\\x1b" not in done.stdout:
        checker.problems += 1
        print("expected generated ESC, shown as \\x1b")

    # A model: every string in its header.
    header = 1 << 20
    strings = Strings(model, a.most, header)
    out = path("q.fb")
    reading = [(moec, "model", model), (moec, "compile", model, "--target", "xeon", "--weights", "reference", "-o", out),
               (moert, "run", clean, "-p", "the", "-n", "1")]
    one_by_one(checker, strings, reading)
    together(checker, strings, strings.spans[:100], reading[:2])
    for command in reading + [(moec, "model", model, "--json"), (moec, "compile", model, "--emit", "moe"),
                              (moec, "compile", model, "--emit", "plan", "--target", "4090+xeon", "-v"),
                              (moec, "explain", out), (moert, "info", out), (moec, "explain", model),
                              (moert, "run", model, "-p", "x")]:
        checker.run(*command)

    # A target file: every key and value, escaped and raw.
    with open(path("t.json"), "wb") as file:
        subprocess.run([moec, "targets", "xeon", "--json"], stdout=file, check=True)
    with open(path("t.json"), "rb") as file:
        target = file.read()
    escapes = json.dumps("\x1b[2J\x07\x7f\x9b\u202e").encode()[1:-1]
    for quote in list(re.finditer(rb'"[^"]+"', target))[:a.most]:
        for evil in (escapes, b"\x7f\xc2\x9b\xe2\x80\xae", HOSTILE):
            with open(path("t.json"), "wb") as file:
                file.write(target[:quote.start() + 1] + evil + target[quote.end() - 1:])
            checker.run(moec, "compile", a.model, "--target-file", path("t.json"), "--weights", "reference", "-o", out)
            checker.run(moec, "explain", out)
            checker.run(moert, "info", out)

    # Text of the plan dialect.
    with open(text, "rb") as file:
        lines = file.read().split(b"\n")
    for line in range(0, min(len(lines), 10 * a.most, 400), 16):
        for evil in (HOSTILE, b'"' + HOSTILE + b'"'):
            with open(text, "wb") as file:
                file.write(b"\n".join(lines[:line] + [evil + lines[line]] + lines[line + 1:]))
            checker.run(moec, "assemble", text, "-o", again)

    # Arguments and paths.
    folder = path("d" + NAME)
    os.makedirs(folder)
    evil = os.path.join(folder, NAME + ".fb")
    model = os.path.join(folder, NAME + ".gguf")
    shutil.copyfile(a.model, model)
    checker.run(moec, "compile", model, "--ctx", "64", "-o", evil)
    for command in (
            ("moec", "explain", evil), ("moec", "inspect", evil), ("moec", "model", model), ("moec", "explain", model),
            ("moec", "assemble", evil, "-o", evil), ("moec", "compile", NAME), ("moec", NAME), ("moec", "--" + NAME),
            ("moec", "compile", model, "--target", NAME), ("moec", "compile", model, "--target-file", model),
            ("moec", "compile", model, "--mla", NAME), ("moec", "compile", model, "--ctx", NAME),
            ("moec", "compile", model, "--emit", NAME), ("moec", "compile", model, "--dump-phases", evil),
            ("moec", "compile", model, "-o", os.path.join(evil, "x")), ("moec", "targets", NAME),
            ("moec", "model", model, NAME), ("moert", "info", evil), ("moert", "info", evil, "--json"),
            ("moert", "info", model), ("moert", "verify", evil), ("moert", "verify", model), ("moert", NAME), ("moert", "run", evil, "-p", "the", "-n", "2", "-t", "1"),
            ("moert", "run", evil, "-f", NAME), ("moert", "run", evil, "-p", "x", "--temp", NAME),
            ("moert", "run", evil, "-p", "x", "--" + NAME), ("moert", "run", evil, "-p", "x", "--model", NAME),
            ("moert", "bench", evil, "-pg", NAME), ("moert", "bench", evil, "-o", NAME), ("moert", "bench", evil, "-p", NAME),
            ("moert", "logits", evil, "--tokens", NAME, "--out", "x"),
            ("moert", "logits", evil, "--tokens", "3", "--out", os.path.join(evil, NAME)),
            ("moert", "perplexity", evil, "--file", NAME), ("moert", "tokenize", evil, "--file", NAME),
            ("moert", "profile", evil, "--trace", os.path.join(evil, NAME), *quick),
            ("moert", "bench", evil, "-r", "1", "-o", "json", *quick)):
        checker.run(os.path.join(a.bin, command[0]), *command[1:])
    print(f"{checker.runs} runs, {checker.problems} problems")
    return checker.problems != 0


if __name__ == "__main__":
    sys.exit(main())
