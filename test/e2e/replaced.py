"""Runs random sequences of commands in a folder of models, plans, weights, texts and sessions.

  replaced.py --bin FOLDER --data test/data/unit --work DIR --sequences N [--seed S]

Between commands, files are copied, renamed, linked, emptied and removed. A model of the rule for outputs, which shares
no code with the tools, predicts for every command whether it is refused and which files it may change. After every
command, the names, links and contents of all files are compared with this prediction. The model does not read files:
it recognises a file by the hash of its content, since it knows where each content came from.
"""
import argparse
import hashlib
import json
import os
import random
import shlex
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
import chat_model
from gguf_file import INT32, GgufFile

UINT16 = 2
PLAN, WEIGHTS, IR, RULES, REMARKS, PAGE, TRACE, NPY, SESSION, CHAT, PROFILE, MODEL, TARGET, OTHER = (
    "plan weights ir rules remarks page trace npy session chat profile model target other".split())


def read_digest(path):
    with open(path, "rb") as file:
        return hashlib.blake2b(file.read(), digest_size=16).hexdigest()


def digest(path, known={}):
    """Returns the digest of the file's content, cached as long as its inode shows no change."""
    info = os.stat(path)
    key = (info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
    if key not in known:
        known[key] = read_digest(path)
    return known[key]


def same(a, b):
    return os.path.exists(a) and os.path.exists(b) and os.path.samefile(a, b)


class Knowledge:
    """Facts about every content, by hash: its kind, and what a plan, text, session or weights file refers to."""

    def __init__(self):
        self.kinds, self.needs, self.plan_of = {}, {}, {}
        self.unsure = set()  # Texts that may belong to an incomplete plan.

    def learn(self, path, kind):
        self.kinds[digest(path)] = kind
        return digest(path)

    def kind(self, path):
        return self.kinds[digest(path)]

    def needed(self, plan, at=None):
        """Returns the paths at which a plan would look for its files, and their expected contents, as if it was at `at`."""
        at = at or plan
        folders = {os.path.dirname(at), os.path.dirname(os.path.realpath(at))}
        return [[(os.path.join(folder, recorded), content) for folder in folders]
                for recorded, content in self.needs[digest(plan)]]

    def runs(self, plan):
        return all(any(os.path.isfile(path) and digest(path) == content for path, content in places)
                   for places in self.needed(plan))


class Refused(Exception):
    """The command is refused by the rule: exit code 2."""


class Fails(Exception):
    """The command fails for another reason."""


def check_output(known, output, kind, inputs, force, pair=None):
    """Returns the real path that an output replaces."""
    real = os.path.realpath(output)
    if any(same(real, path) or os.path.realpath(path) == real for path in inputs):
        raise Refused(f"{output} is an input")
    if not os.path.lexists(real):
        return real
    if not os.path.isfile(real):
        if kind in (SESSION, WEIGHTS) and not os.path.isdir(real):
            raise Refused(f"{output} is a stream")
        raise Fails(f"{output} is no file")
    if os.path.getsize(real) == 0:
        return real
    there = known.kind(real)
    if there == WEIGHTS:
        with open(real, "rb") as file:
            owner = os.path.join(os.path.dirname(real), file.read(4096).split(b"\n")[1].decode().removeprefix("plan "))
        if os.path.exists(owner) and not same(owner, pair or ""):
            is_plan = os.path.isfile(owner) and os.path.getsize(owner) and known.kind(owner) == PLAN
            if not is_plan or any(same(path, real) for places in known.needed(owner) for path, _ in places):
                raise Refused(f"{output} holds the weights of {owner}")
    if there != kind and not force:
        raise Refused(f"{output} is {there}")
    return real


class Command:
    """An argument list. expect() returns the outputs as {real path: kind} or raises; learned() records the result."""

    stdin, may_fail = "", False

    def expect(self, known):
        raise NotImplementedError

    def learned(self, known, outputs):
        for path, kind in outputs.items():
            known.learn(path, kind)


class Compile(Command):
    def __init__(self, setup, model, mode, output, force, weights_file=None, rules=None, target=None, dump=None):
        self.setup, self.model, self.mode, self.output, self.force = setup, model, mode, output, force
        self.weights_file, self.dump = weights_file, dump
        self.dumps = setup.dumps[bool(rules)] if dump else []
        self.inputs = setup.parts(model) + [path for path in (rules, target) if path]
        self.words = ["moec", "compile", model, "-w", mode, "-o", output] + ["--force"] * force
        for option, value in (("--weights-file", weights_file), ("--place", rules and "@" + rules),
                              ("--target-file", target), ("--dump-phases", dump)):
            self.words += [option, value] if value else []

    def expect(self, known):
        outputs = {}
        plan = check_output(known, self.output, PLAN, self.inputs, self.force)
        outputs[plan] = PLAN
        weights = os.path.realpath(self.weights_file or plan.removesuffix(".fb") + ".weights")
        if weights == plan or same(weights, plan):
            raise Refused("the plan and its weights are two files")
        if self.dump:
            for name in self.dumps:
                check_output(known, os.path.join(self.dump, name), REMARKS if name == "remarks.txt" else IR,
                             self.inputs, self.force)
        if self.setup.packs[digest(self.model), self.mode]:
            outputs[check_output(known, weights, WEIGHTS, self.inputs, self.force, pair=plan)] = WEIGHTS
        return outputs

    def free(self):
        """Files that may change even if the command is refused, because dumps are written one after another."""
        return {os.path.realpath(os.path.join(self.dump, name)) for name in self.dumps}

    def learned(self, known, outputs):
        for path, kind in outputs.items():
            known.learn(path, kind)
        plan = next(path for path, kind in outputs.items() if kind == PLAN)
        needs = []
        listed = json.loads(subprocess.run(
            [self.setup.tool("moert"), "info", plan, "--json"], capture_output=True, text=True, check=False).stdout)
        for path, kind in outputs.items():
            if kind == WEIGHTS:
                place = os.path.join(os.path.realpath(os.path.dirname(self.weights_file)),
                                     os.path.basename(self.weights_file)) if self.weights_file else path
                needs.append((recorded(place, plan), digest(path)))
        if self.mode != "pack":
            needs += [(recorded(os.path.realpath(part), plan), digest(part)) for part in self.setup.parts(self.model)]
        # Some parts of a split model may be unused.
        used = {file["path"] for file in listed["files"]}
        known.needs[digest(plan)] = [need for need in needs if need[0] in used]
        assert len(known.needs[digest(plan)]) == len(used), (needs, used)
        for name in self.dumps:
            known.learn(os.path.join(self.dump, name), REMARKS if name == "remarks.txt" else IR)


def recorded(path, plan):
    relative = os.path.relpath(path, os.path.dirname(os.path.realpath(plan)))
    return path if relative.startswith("..") else relative


class Emit(Command):
    def __init__(self, setup, model, what, output, force, rules=None):
        self.what, self.inputs = what, setup.parts(model) + ([rules] if rules else [])
        self.kind, self.output, self.force = RULES if what == "rules" else IR, output, force
        self.words = ["moec", "compile", model, "--emit", what, "-o", output] + ["--force"] * force
        self.words += ["--place", "@" + rules] if rules else []

    def expect(self, known):
        return {check_output(known, self.output, self.kind, self.inputs, self.force): self.kind}

    def learned(self, known, outputs):
        super().learned(known, outputs)
        if self.what == "plan":
            known.unsure.add(digest(next(iter(outputs))))


class Assemble(Command):
    def __init__(self, text, output, force):
        self.text, self.output, self.force = text, output, force
        self.words = ["moec", "assemble", text, "-o", output] + ["--force"] * force

    def expect(self, known):
        # The text is parsed before it is known which files its plan needs.
        check_output(known, self.output, PLAN, [self.text], self.force)
        if known.kind(self.text) != IR or digest(self.text) not in known.needs:
            raise Fails("no text of a whole plan")
        needed = [path for places in known.needed(self.text, at=self.output) for path, _ in places]
        return {check_output(known, self.output, PLAN, [self.text] + needed, self.force): PLAN}

    def learned(self, known, outputs):
        super().learned(known, outputs)
        known.needs[digest(next(iter(outputs)))] = known.needs[digest(self.text)]


class OfPlan(Command):
    """A command that reads a plan and, except explain, runs it."""

    def __init__(self, plan, kind, output, force, words, runs=True, inputs=(), stdin=""):
        self.plan, self.kind, self.output, self.force, self.runs = plan, kind, output, force, runs
        self.inputs, self.stdin, self.words = list(inputs), stdin, words + (["--force"] * force if not stdin else [])

    def expect(self, known):
        if known.kind(self.plan) != PLAN:
            raise Fails("no plan")
        if self.kind == SESSION:  # The output is checked before the plan is loaded.
            check_output(known, self.output, self.kind, self.inputs, self.force)
        if self.runs and not known.runs(self.plan):
            raise Fails("a file of the plan is missing")
        needed = [path for places in known.needed(self.plan) for path, _ in places]
        real = check_output(known, self.output, self.kind, [self.plan] + needed + self.inputs, self.force)
        # The session of another plan is refused only when it is read.
        self.may_fail = (self.kind == SESSION and os.path.exists(real) and os.path.getsize(real) > 0
                         and known.kind(real) == SESSION and known.plan_of.get(digest(real)) != digest(self.plan))
        return {real: self.kind}

    def learned(self, known, outputs):
        super().learned(known, outputs)
        if self.kind == SESSION:
            known.plan_of[digest(next(iter(outputs)))] = digest(self.plan)


class Setup:
    """The files that every sequence starts with, created once, and their kinds."""

    def __init__(self, arguments):
        self.bin, self.folder = os.path.abspath(arguments.bin), os.path.join(os.path.abspath(arguments.work), "start")
        self.known = Knowledge()
        os.makedirs(os.path.join(self.folder, "sub"))
        # Uses a fixed description of this machine: moec stores no measurements while other programs keep the machine
        # busy.
        cache = os.path.join(os.path.abspath(arguments.work), "cache")
        os.makedirs(os.path.join(cache, "moec"))
        native = self.run(["moec", "targets", "native", "--json"])
        with open(os.path.join(cache, "moec", "native.json"), "w") as file:
            file.write(native)
        os.environ["XDG_CACHE_HOME"] = cache
        os.chdir(self.folder)
        shutil.copy(os.path.join(arguments.data, "llama.gguf"), "a.gguf")
        shutil.copy(os.path.join(arguments.data, "llama-bias.gguf"), "b.gguf")
        subprocess.run([sys.executable, chat_model.__file__, "t.gguf"], check=True)
        self.split("b.gguf")
        self.models = ["a.gguf", "b.gguf", "t.gguf", "c-00001-of-00002.gguf", "c-00002-of-00002.gguf"]
        self.packs = {}
        for name in self.models:
            self.known.learn(name, MODEL)
        for name in self.models[:4]:
            for mode in ("auto", "pack", "reference"):
                done = self.run(["moec", "compile", name, "-w", mode, "-o", "../scratch.fb", "--json"])
                for part in self.parts(name):
                    self.packs[digest(part), mode] = bool(json.loads(done)["packed"])
        self.dumps = []  # Names of the dumps without rules, and with rules.
        for i, rules in enumerate(([], ["--place", "blk.*=cpu0"])):
            self.run(["moec", "compile", "a.gguf", "-o", "../scratch.fb", "--dump-phases", f"../scratch{i}", *rules])
            self.dumps.append(sorted(os.listdir(f"../scratch{i}")))
        # Plans with their weights and texts, and one file of every other kind.
        for command in (Compile(self, "a.gguf", "pack", "p.fb", False), Compile(self, "b.gguf", "reference", "q.fb", False),
                        Compile(self, "t.gguf", "reference", "t.fb", False),
                        Compile(self, "c-00002-of-00002.gguf", "reference", "sub/c.fb", False)):
            outputs = command.expect(self.known)
            self.run(command.words)
            command.learned(self.known, outputs)
        for plan, text in (("p.fb", "p.mlir"), ("q.fb", "q.mlir")):
            with open(text, "w") as file:
                file.write(self.run(["moec", "inspect", plan]))
            self.known.needs[self.known.learn(text, IR)] = self.known.needs[digest(plan)]
        self.run(["moec", "compile", "a.gguf", "--emit", "rules", "-o", "rules.txt"])
        self.known.learn("rules.txt", RULES)
        with open("here.json", "w") as file:
            file.write(native)
        for name, text, kind in (("notes.txt", "what I know\n", OTHER), ("mine.rules", "blk.*=cpu0\n", OTHER),
                                 ("page.html", "<!doctype html>\nmine\n", OTHER), ("empty", "", OTHER),
                                 ("talk.json", json.dumps([{"role": "user", "content": "I"}]), CHAT),
                                 ("sub/notes", "module of mine\n", OTHER)):
            with open(name, "w") as file:
                file.write(text)
            self.known.learn(name, kind)
        self.known.learn("here.json", TARGET)
        os.symlink("a.gguf", "link.gguf")
        os.symlink("../p.fb", "sub/p.fb")
        os.symlink("nowhere", "dangling")
        os.link("b.gguf", "sub/hard")
        os.mkfifo("fifo")

    def split(self, path):
        """Splits a model: all keys and its first tensors in one part, the other tensors in a second."""
        whole = GgufFile.read(path)
        names = list(whole.tensors)
        for number, part in enumerate((names[:len(names) // 2], names[len(names) // 2:])):
            file = GgufFile()
            file.keys = dict(whole.keys) if number == 0 else {}
            file.keys.update({"split.no": (UINT16, number), "split.count": (UINT16, 2),
                              "split.tensors.count": (INT32, len(names))})
            file.tensors.update({name: whole.tensors[name] for name in part})
            file.write(f"c-{number + 1:05}-of-00002.gguf")

    def parts(self, model):
        name = os.path.basename(os.path.realpath(model))
        folder = os.path.dirname(model)
        if name.startswith("c-0000"):
            return [os.path.join(folder, f"c-{i}-of-00002.gguf") for i in ("00001", "00002")]
        return [model]

    def tool(self, name):
        return os.path.join(self.bin, name)

    def run(self, words):
        done = subprocess.run([self.tool(words[0])] + words[1:], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout


def state(folder):
    """Returns, for every name, the target of the link, or the content and the inode."""
    found = {}
    for path, folders, names in os.walk(folder):
        for name in folders + names:
            full = os.path.join(path, name)
            if os.path.islink(full):
                found[full] = ("link", os.readlink(full))
            elif os.path.isfile(full):
                found[full] = ("file", read_digest(full), os.stat(full).st_ino)
            else:
                found[full] = ("other",)
    return found


class Sequence:
    def __init__(self, setup, folder, seed):
        self.setup, self.folder, self.random = setup, folder, random.Random(seed)
        self.known = Knowledge()
        self.known.kinds, self.known.needs = dict(setup.known.kinds), dict(setup.known.needs)
        self.known.plan_of = dict(setup.known.plan_of)
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run(["cp", "-a", setup.folder, folder], check=True)
        os.chdir(folder)
        self.log, self.counts = [], {}

    def files(self, *kinds):
        """Returns the names of all files of these kinds, or of any kind."""
        return [name for name in self.names() if os.path.isfile(name) and os.path.getsize(name)
                and (not kinds or self.known.kind(name) in kinds)]

    @staticmethod
    def names():
        return sorted(os.path.normpath(os.path.join(path, name)) for path, _, names in os.walk(".") for name in names)

    def output(self):
        """Returns a name that may or may not exist."""
        fresh = ["new.fb", "new.weights", "sub/new", "p.weights", "q.weights", "x", "x.weights", "s.bin", "dangling"]
        there = [name for name in self.names() if name != "fifo"] + ["sub"]
        return self.random.choice(self.random.choice([fresh, there]))

    def command(self):
        pick = self.random.choice
        force = self.random.random() < 0.3
        plans, output = self.files(PLAN), self.output()
        talking = [plan for plan in plans if any(content == digest(os.path.join(self.setup.folder, "t.gguf"))
                                                 for _, content in self.known.needs[digest(plan)])]
        models = [name for name in self.files(MODEL) if os.path.basename(os.path.realpath(name)) in self.setup.models
                  and all(os.path.isfile(part) and os.path.getsize(part) and self.known.kind(part) == MODEL
                          for part in self.setup.parts(name))]
        own = digest(os.path.join(self.setup.folder, "mine.rules"))
        rules = pick([None, None, *self.files(RULES), *(name for name in self.files(OTHER) if digest(name) == own)])
        choices = []
        if models:
            model = pick(models)
            mode = pick(["auto", "pack", "reference"])
            target = pick([None, None, *self.files(TARGET)])
            weights = self.output() if mode != "reference" and self.random.random() < 0.4 else None
            choices += 3 * [lambda: Compile(self.setup, model, mode, output, force, weights, target=target)]
            # Rules and passes fit only the model that they were made with.
            if digest(model) == digest(os.path.join(self.setup.folder, "a.gguf")):
                choices += [lambda: Compile(self.setup, model, mode, output, force, rules=rules,
                                            dump=pick(["dump", "sub"]))]
                choices += 2 * [lambda: Emit(self.setup, model, pick(["moe", "placed", "plan", "rules"]), output, force, rules)
                                if not rules else Emit(self.setup, model, pick(["placed", "rules"]), output, force, rules)]
        texts = [name for name in self.files(IR) if digest(name) not in self.known.unsure]
        if texts:
            choices += 2 * [lambda: Assemble(pick(texts), output, force)]
        if plans:
            plan = pick(plans)
            choices += 2 * [lambda: OfPlan(plan, PAGE, output, force, ["moec", "explain", plan, "--html", output], runs=False)]
            choices += [lambda: OfPlan(plan, NPY, output, force,
                                       ["moert", "logits", plan, "--tokens", "1,2", "-t", "1", "--out", output]),
                        lambda: OfPlan(plan, TRACE, output, force, ["moert", "profile", plan, "--no-limits", "-p", "1", "-n",
                                                                    "1", "-t", "1", "--trace", output])]
        if talking:
            plan2, prompt = pick(talking), pick([None, *self.files(OTHER)])
            session = pick(self.files(SESSION) + [output, output, "fifo"])
            given = ["-f", prompt] if prompt else ["-p", "I"]
            choices += 2 * [lambda: OfPlan(plan2, SESSION, session, force,
                                           ["moert", "run", plan2, "-n", "1", "-t", "1", "--session", session, *given],
                                           inputs=[prompt] if prompt else [])]
            choices += [lambda: OfPlan(plan2, CHAT, output, force, ["moert", "chat", plan2, "-t", "1"],
                                       stdin=f"/save {'--force ' * force}{output}\n"),
                        lambda: OfPlan(plan2, PROFILE, output, force,
                                       ["moert", "profile-router", plan2, "--random", "2", "-t", "1", "-o", output])]
        return pick(choices)() if choices else None

    def person(self):
        """Changes files as a user might do by hand."""
        pick, names = self.random.choice, self.files()
        if not names:
            return
        old, new = pick(names), pick(["copy", "sub/copy", "p.weights", "q.fb", "other.fb", "c.fb"])
        what = pick(["cp", "cp", "mv", "rm", "ln", "ln -s", "empty", "edit"])
        if what == "rm":
            os.remove(old)
        elif what == "empty":
            os.truncate(old, 0)
        elif what == "edit" and self.known.kind(old) in (RULES, OTHER):
            with open(old, "a") as file:
                file.write("# edited\n")
            self.known.learn(old, OTHER if not self.is_rules(old) else RULES)
        elif what == "edit" or os.path.lexists(new):
            return
        elif what == "cp":
            shutil.copyfile(old, new)
        elif what == "mv":
            os.rename(old, new)
        elif what == "ln":
            os.link(os.path.realpath(old), new)
        else:
            os.symlink(os.path.abspath(old), new)
        self.log.append(f"  {what} {old} {new}")

    @staticmethod
    def is_rules(path):
        with open(path) as file:
            return "moec compile --place" in file.readline()

    def step(self):
        if self.random.random() < 0.4:
            self.person()
        command = self.command()
        if not command:
            return None
        before = state(".")
        try:
            outputs, verdict = command.expect(self.known), "done"
        except Refused as why:
            outputs, verdict, reason = {}, "refused", str(why)
        except Fails as why:
            outputs, verdict, reason = {}, "fails", str(why)
        words = [self.setup.tool(command.words[0])] + command.words[1:]
        done = subprocess.run(words, input=command.stdin, capture_output=True, text=True, timeout=60)
        self.log.append(f"$ {shlex.join(command.words)}" + (f" <<< {command.stdin!r}" if command.stdin else "")
                        + f"\n  {done.returncode}, expected: {verdict}" + ("" if verdict == "done" else f", {reason}")
                        + "\n  " + done.stderr.strip().replace("\n", "\n  "))
        self.counts[verdict] = self.counts.get(verdict, 0) + 1
        failed = done.returncode != 0 or (bool(command.stdin) and "error:" in done.stderr)
        if verdict == "done" and failed and command.may_fail:
            outputs, verdict = {}, "fails"
        if failed != (verdict != "done"):
            return f"expected it to be {verdict}"
        if verdict == "refused" and not command.stdin and done.returncode != 2:
            return "expected exit code 2"
        after = state(".")
        free = command.free() if isinstance(command, Compile) else set()
        may = set(outputs) | free
        for path in sorted(before.keys() | after.keys()):
            real = os.path.realpath(path)
            isOutput = real in may and os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)) == real
            if not isOutput and before.get(path) != after.get(path) and not (free and path == os.path.join(".", command.dump)):
                return f"{path} was {before.get(path)} and is {after.get(path)}"
        for path in outputs:
            if not os.path.isfile(path):
                return f"{path} was not written"
        for path in free:  # Includes files that a refused command wrote.
            if os.path.isfile(path) and before.get(os.path.relpath(path, self.folder)) != digest(path):
                content = digest(path)
                self.known.kinds.setdefault(content, REMARKS if path.endswith("remarks.txt") else IR)
                self.known.unsure.add(content)
        if verdict == "done":
            command.learned(self.known, outputs)
        return None

    def run(self, steps):
        for _ in range(steps):
            problem = self.step()
            if problem:
                return problem
        return None


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--bin", "--data", "--work"):
        p.add_argument(name, required=True)
    p.add_argument("--sequences", type=int, required=True)
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--only", type=int, help="the number of one sequence, which is shown")
    arguments = p.parse_args()
    arguments.work, arguments.data = os.path.abspath(arguments.work), os.path.abspath(arguments.data)
    shutil.rmtree(arguments.work, ignore_errors=True)
    setup = Setup(arguments)
    failures, counts = 0, {}
    for number in range(arguments.sequences):
        if arguments.only not in (None, number):
            continue
        sequence = Sequence(setup, os.path.join(arguments.work, "now"), arguments.seed * 100000 + number)
        problem = sequence.run(arguments.steps)
        for verdict, count in sequence.counts.items():
            counts[verdict] = counts.get(verdict, 0) + count
        if problem or arguments.only is not None:
            print(f"sequence {number} of seed {arguments.seed}:", *sequence.log, problem, sep="\n")
        failures += bool(problem)
    # Otherwise the model would hardly be tested.
    if arguments.only is None and min(counts.get(verdict, 0) for verdict in ("done", "refused")) < arguments.sequences:
        print(f"too few of each: {counts}")
        failures += 1
    print(f"{arguments.sequences} sequences, {sum(counts.values())} commands, {counts}: {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
