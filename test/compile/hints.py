"""Provokes each error that suggests a command and runs the command as pasted.

Usage: hints.py FOLDER TEST_DATA MODELS; v3.gguf is in FOLDER.
"""
import json
import os
import re
import shlex
import shutil
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import tools
from gguf_file import GgufFile

root, data, models = sys.argv[1:]
LITE = os.path.join(data, "unit/deepseek2-lite.gguf")
OTHER = os.path.join(data, "unit/deepseek2-split.gguf")
KJV = os.path.join(models, "tiny-kjv/tiny-kjv-q4_k_m.gguf")
LOGITS = ["--tokens", "3,10", "--out", "x.npy"]
# Options that are not at their defaults, and how a plan records them.
OPTIONS = ["--ctx", "64", "--ubatch", "16", "--kv-type", "f32", "--mla", "none",
           "--weights", "reference", "--experts", "1"]
# A name that needs quoting in a shell.
ODD = "it's a $HOME `x` \"q\" \\"

failures = []

# The text of each suggestion that the sources can print, as a pattern.
TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../runtime/base/Suggestions.def")
SUGGESTIONS = {
    name: "".join(".+" if part == "{}" else re.escape(part)
                  for part in re.split(r"(\{\})", "".join(re.findall(r'"([^"]*)"', text))))
    for name, text in re.findall(r"^MOE_SUGGESTION\((\w+),\s*(.*?)\)$", open(TABLE).read(), re.M | re.S)}
provoked = set()
# The commands of the first three need a network or a GPU, that of the fourth a model whose steps take more than
# memory: unit tests provoke the messages and do not run the commands. The nightly test of real models runs the last.
ELSEWHERE = {"InstallNvrtc": "../kernels/cuda/KernelCompilerTest.cpp", "ForThisGpu": "../unit/CudaDeviceTest.cpp",
             "ShorterOnGpu": "../unit/CudaDeviceTest.cpp", "SmallerSteps": "../unit/RecompileTest.cpp",
             "FittingPreTokenizer": "../e2e/real_models.py"}


class Folder:
    """A fresh folder; the current one of everything that a case runs."""

    def __init__(self, name):
        self.path = os.path.join(root, name)
        os.makedirs(self.path)

    def file(self, name):
        return os.path.join(self.path, name)

    def copy(self, source, name):
        os.makedirs(os.path.dirname(self.file(name)), exist_ok=True)
        shutil.copy(source, self.file(name))
        os.chmod(self.file(name), 0o644)
        return name

    def must(self, *command):
        result = tools.run(list(command), self.path)
        assert result.code == 0, result
        return result

    def compile(self, model, plan, *options):
        self.must("moec", "compile", model, *options, "-o", plan)

    def fails(self, code, *command):
        result = tools.run(list(command), self.path)
        assert result.code == code, f"expected exit code {code}:\n{result}"
        return result

    def pastes(self, result, model=None, code=0):
        """Runs the one command that `result` suggests; MODEL is `model`."""
        text = result.err if tools.hints(result.err) else result.out
        found = tools.hints(text)
        assert len(found) == 1, f"{len(found)} commands:\n{result}"
        command, has_model = found[0]
        said = text[:text.index(command)]
        kinds = [name for name, pattern in SUGGESTIONS.items() if re.search(pattern, said)]
        assert kinds, f"no text of Suggestions.def:\n{result}"
        provoked.update(kinds)
        assert has_model == (model is not None), result
        if model:
            command = command.replace(" MODEL ", f" {shlex.quote(model)} ")
        pasted = tools.run(command, self.path)
        assert pasted.code == code, f"{result}\npasted:\n{pasted}"
        return command

    def suggests_nothing(self, result):
        assert not tools.hints(result.err), result

    def options(self, plan):
        return tools.options_of(plan, self.path, "moert")


CASES = []


def case(function):
    CASES.append(function)
    return function


@case
def a_model_where_a_plan_belongs(here):
    model = here.copy(LITE, f"models/{ODD}.gguf")
    here.pastes(here.fails(2, "moert", "info", model))
    here.must("moert", "info", f"{ODD}.fb")
    here.copy(LITE, "-x.gguf")
    here.pastes(here.fails(2, "moec", "explain", "./-x.gguf"))
    here.must("moec", "explain", "./-x.fb")


@case
def options_of_other_tools(here):
    """What remains of a command without options that are refused works, with a path that needs quoting."""
    model = here.copy(KJV, f"{ODD}.gguf")
    refused = ["--samplers", "x", "--lora", "y"]
    here.pastes(here.fails(2, "moec", "compile", "-m", model, *refused, "--ctx-size", "64", "-o", f"{ODD}.fb"))
    here.pastes(here.fails(2, "moert", "run", "-m", f"{ODD}.fb", *refused, "-p", "a 'b' $c", "--predict", "2"))
    # No command is suggested if it has another mistake.
    here.suggests_nothing(here.fails(2, "moert", "run", f"{ODD}.fb", *refused, "--nonsense"))


@case
def commands_of_other_tools(here):
    plan = f"{ODD}.fb"
    here.compile(KJV, plan, "--ctx", "64")
    for name in ("llama-completion", "main"):
        here.pastes(here.fails(2, "moert", name, "-m", plan, "--temperature", "0", "-p", "a", "-n", "2"))
    here.pastes(here.fails(2, "moert", "ls"))
    here.pastes(here.fails(2, "moec", "llama-bench", plan, "-p", "4", "-n", "1", "-r", "1", "--no-limits"))
    here.pastes(here.fails(2, "moert", "show", KJV))
    here.suggests_nothing(here.fails(2, "moert", "pull", "x"))


@case
def options_of_compiling_beside_a_plan(here):
    plan = here.compile(here.copy(LITE, f"models/{ODD}.gguf"), f"{ODD}.fb", "--target", "native")
    failed = here.fails(2, "moert", "logits", f"{ODD}.fb", "--kv-type", "f32", *LOGITS)
    here.pastes(failed)
    assert "--kv-type f32" in here.options(f"{ODD}.fb"), here.options(f"{ODD}.fb")


@case
def a_plan_for_a_gpu_keeps_its_options(here):
    model = here.copy(LITE, f"models/{ODD}.gguf")
    plan = f"plans {ODD}/$p.fb"
    os.makedirs(os.path.dirname(here.file(plan)))
    here.compile(model, plan, "--target", "4090+raspberry-pi-5", *OPTIONS)
    recorded = here.options(plan)
    here.pastes(here.fails(7, "moert", "logits", plan, *LOGITS))
    here.must("moert", "logits", plan, *LOGITS)
    assert here.options(plan) == recorded.replace("--target 4090+raspberry-pi-5 ", ""), recorded


@case
def a_plan_from_another_folder(here):
    """The model lies below the plan, and is named from where the user is."""
    here.copy(LITE, "a/models/m.gguf")
    here.compile("a/models/m.gguf", "a/p.fb", "--target", "4090+n305")
    os.mkdir(here.file("b"))
    below = Folder(os.path.join(os.path.basename(here.path), "b/c"))
    below.pastes(below.fails(7, "moert", "logits", "../../a/p.fb", *LOGITS))
    below.must("moert", "logits", "../../a/p.fb", *LOGITS)


@case
def a_moved_model(here):
    model = here.copy(LITE, "m.gguf")
    here.compile(model, "p.fb", "--target", "4090+ryzen-5600x", "-ngl", "99", *OPTIONS)
    moved = f"{ODD}/n.gguf"
    os.mkdir(here.file(ODD))
    os.rename(here.file(model), here.file(moved))
    # The model is not at the recorded path, and only the user knows where it is; the missing GPU is
    # reported too.
    missing = here.fails(7, "moert", "logits", "p.fb", *LOGITS)
    assert tools.hints(missing.err)[0][1], missing
    here.compile(moved, "p.fb", "--target", "4090+ryzen-5600x", "-ngl", "99")
    os.rename(here.file(moved), here.file("m.gguf"))
    # The user names the model.
    failed = here.fails(7, "moert", "logits", "p.fb", "--model", "m.gguf", *LOGITS)
    here.pastes(failed, model="m.gguf")
    here.must("moert", "logits", "p.fb", *LOGITS)
    os.rename(here.file("m.gguf"), here.file("n.gguf"))
    missing = here.fails(4, "moert", "logits", "p.fb", *LOGITS)
    here.suggests_nothing(missing)
    assert "--model PATH" in missing.err, missing
    here.must("moert", "logits", "p.fb", "--model", "n.gguf", *LOGITS)


@case
def a_packed_plan_does_not_know_its_model(here):
    here.compile(LITE, "p.fb", "--target", "4090+n305", "--weights", "pack")
    here.pastes(here.fails(7, "moert", "logits", "p.fb", *LOGITS), model=LITE)
    assert "--weights pack" in here.options("p.fb")


@case
def another_schema_version(here):
    here.copy(LITE, "m.gguf")
    here.compile("m.gguf", "p.fb", "--target", "xeon", *OPTIONS)
    recorded = here.options("p.fb")
    for version in (1, 99):
        tools.schema_version(here.file("p.fb"), version)
        here.pastes(here.fails(7, "moec", "explain", "p.fb"))
        assert here.options("p.fb") == recorded


@case
def an_unknown_kernel(here):
    here.copy(LITE, "m.gguf")
    here.compile("m.gguf", "p.fb", "--target", "native")
    text = here.must("moec", "inspect", "p.fb").out
    with open(here.file("p.mlir"), "w") as file:
        file.write(re.sub(r'"embed_\w+"', '"embed_later"', text))
    here.must("moec", "assemble", "p.mlir", "-o", "p.fb")
    here.pastes(here.fails(7, "moert", "logits", "p.fb", *LOGITS))
    here.must("moert", "logits", "p.fb", *LOGITS)


@case
def a_kernel_of_another_machine(here):
    """Inside a plan that says it is for this one."""
    with open("/proc/cpuinfo") as file:
        if "amx_tile" in file.read():
            return
    here.copy(KJV, "m.gguf")
    with open(here.file("amx.json"), "w") as file:
        file.write('{"kind": "cpu", "isa": "amx", "cores": 2, "memory_gib": 8, '
                   '"read_gbps": 30, "int8_tops": 4, "float_tflops": 0.2}')
    here.compile("m.gguf", "p.fb", "--target-file", "amx.json", "--ctx", "100")
    failed = here.fails(7, "moert", "logits", "p.fb", *LOGITS)
    command = here.pastes(failed)
    assert "--target-file" not in command and "--ctx 100" in command, command
    here.must("moert", "logits", "p.fb", *LOGITS)


@case
def a_described_machine_is_found_again(here):
    """--target-file is kept, from the current folder too."""
    os.makedirs(here.file("a/b"))
    with open(here.file(f"a/{ODD}.json"), "w") as file:
        file.write(here.must("moec", "targets", "xeon", "--json").out)
    here.copy(LITE, "a/m.gguf")
    inner = Folder(os.path.join(os.path.basename(here.path), "a/b/c"))
    inner.compile("../../m.gguf", "p.fb", "--target-file", f"../../{ODD}.json")
    recorded = inner.options("p.fb")
    tools.schema_version(inner.file("p.fb"), 1)
    here.pastes(here.fails(7, "moec", "explain", "a/b/c/p.fb"))
    assert inner.options("p.fb") == recorded


@case
def packed_weights_that_are_gone_or_changed(here):
    here.copy(KJV, f"{ODD}.gguf")
    here.compile(f"{ODD}.gguf", "p.fb", "--target", "native", "--ctx", "100", "--weights", "pack")
    here.compile(f"{ODD}.gguf", "q.fb", "--target", "native", "--ctx", "100")
    for plan, model in (("p", f"{ODD}.gguf"), ("q", None)):
        weights = here.file(f"{plan}.weights")
        if not os.path.exists(weights):
            continue # The kernels of this CPU read the model file's layout.
        os.remove(weights)
        here.pastes(here.fails(4, "moert", "logits", f"{plan}.fb", *LOGITS), model=model)
        with open(weights, "ab") as file:
            file.write(b"x")
        here.pastes(here.fails(7, "moert", "logits", f"{plan}.fb", *LOGITS), model=model)
        here.must("moert", "logits", f"{plan}.fb", *LOGITS)


@case
def a_copy_of_a_plan_that_was_compiled_again(here):
    """The weights that the copy names are the original's, which still needs them."""
    here.copy(KJV, "m.gguf")
    here.compile("m.gguf", "p.fb", "--ctx", "64", "--weights", "pack", "--mla", "none")
    shutil.copy(here.file("p.fb"), here.file("copy.fb"))
    here.compile("m.gguf", "p.fb", "--ctx", "64", "--weights", "pack", "--mla", "folded")
    command = here.pastes(here.fails(7, "moert", "logits", "copy.fb", *LOGITS), model="m.gguf")
    assert "--weights-file" not in command, command
    here.must("moert", "logits", "copy.fb", *LOGITS)
    here.must("moert", "logits", "p.fb", *LOGITS)


@case
def a_model_that_was_replaced(here):
    here.copy(OTHER, "m.gguf")
    here.compile("m.gguf", "p.fb", "--target", "native", "-w", "reference")
    with open(here.file("m.gguf"), "rb") as file:
        content = file.read()
    here.copy(LITE, "m.gguf")
    here.pastes(here.fails(7, "moert", "logits", "p.fb", *LOGITS))
    here.must("moert", "logits", "p.fb", *LOGITS)
    # A truncated copy cannot be compiled.
    with open(here.file("m.gguf"), "wb") as file:
        file.write(content[:2000])
    here.suggests_nothing(here.fails(7, "moert", "logits", "p.fb", *LOGITS))
    # The file cannot be used either if it is no model.
    with open(here.file("m.gguf"), "wb") as file:
        file.write(b"x" * 10_000_000)
    here.suggests_nothing(here.fails(7, "moert", "logits", "p.fb", *LOGITS))


@case
def a_context_that_is_too_small(here):
    here.copy(KJV, "m.gguf")
    here.compile("m.gguf", "p.fb", "--target", "native", "--ctx", "64", "--kv-type", "f16")
    tokens = lambda count: ["--tokens", ",".join(["3"] * count), "--out", "x.npy"]
    here.pastes(here.fails(5, "moert", "logits", "p.fb", *tokens(65)))
    assert here.options("p.fb") == "--ctx 128 --kv-type f16", here.options("p.fb")
    here.must("moert", "logits", "p.fb", *tokens(65))
    with open(here.file("t.txt"), "w") as file:
        file.write("And God said, Let there be light. " * 100)
    here.pastes(here.fails(5, "moert", "perplexity", "p.fb", "--file", "t.txt", "--ctx", "500"))
    here.must("moert", "perplexity", "p.fb", "--file", "t.txt", "--ctx", "500")
    # The model was trained for 512 tokens: there is no larger context.
    here.compile("m.gguf", "p.fb", "--target", "native", "--ctx", "300")
    here.pastes(here.fails(5, "moert", "logits", "p.fb", *tokens(301)))
    assert here.options("p.fb") == "--ctx 512", here.options("p.fb")
    here.suggests_nothing(here.fails(5, "moert", "logits", "p.fb", *tokens(513)))
    here.suggests_nothing(here.fails(5, "moert", "bench", "p.fb", "-p", "600", "--no-limits"))


@case
def a_budget_that_the_larger_context_does_not_keep(here):
    """A page of this model's cache in f16 is 144 KiB."""
    here.copy(KJV, "m.gguf")
    here.compile("m.gguf", "p.fb", "--target", "native", "--ctx", "64", "--kv-type", "f16",
                 "--sequences", "2", "--kv-budget", "150KiB")
    tokens = ["--tokens", ",".join(["3"] * 65), "--out", "x.npy"]
    here.pastes(here.fails(5, "moert", "logits", "p.fb", *tokens))
    assert here.options("p.fb") == "--ctx 128 --kv-type f16 --sequences 2 --kv-budget 288KiB", here.options("p.fb")
    here.must("moert", "logits", "p.fb", *tokens)


@case
def a_text_that_fills_the_context(here):
    here.copy(KJV, "m.gguf")
    run = ["moert", "run", "p.fb", "-p", "In the beginning", "--ignore-eos", "--stats", "--temp", "0"]
    here.compile("m.gguf", "p.fb", "--target", "native", "--ctx", "8")
    here.pastes(here.must(*run))
    assert here.options("p.fb") == "--ctx 16", here.options("p.fb")
    # The suggested context is that of the requested tokens if twice as much would exceed the
    # model's.
    here.pastes(here.must(*run, "-n", "60"))
    context = int(re.fullmatch(r"--ctx (\d+)", here.options("p.fb")).group(1))
    assert 60 < context < 70, context
    here.suggests_nothing(here.must(*run, "-n", "60"))
    here.compile("m.gguf", "p.fb", "--target", "native", "--ctx", "512")
    full = here.must(*run)
    assert "context of 512 tokens is full" in full.err, full
    here.suggests_nothing(full)


V3 = ["moec", "compile", "../v3.gguf", "--weights", "reference"]


def machine(here, name, gib, isa="avx512"):
    with open(here.file(name), "w") as file:
        file.write('{"kind": "cpu", "isa": "%s", "cores": 8, "memory_gib": %d, '
                   '"read_gbps": 200, "int8_tops": 4, "float_tflops": 0.2}' % (isa, gib))
    return ["--target-file", name]


@case
def a_model_that_does_not_fit(here):
    """The nearest options that do."""
    output = ["-o", f"{ODD}.fb", "--verbose", "--dump-phases", "ir"]
    # 352 GiB of weights, of which 343 GiB are placed; the rest is for the cache.
    tight = machine(here, f"tight {ODD}.json", 366)
    failed = here.fails(5, *V3, *tight, "--ctx", "163840", "--kv-type", "f32", *output)
    assert "; it fits with a cache of 16 bits\n" in failed.err, failed
    command = here.pastes(failed)
    assert "--kv-type" not in command and "--ctx 163840" in command, command
    # 10.7 GiB of f16 do not fit, but 5.7 GiB of q8_0 do.
    failed = here.fails(5, *V3, *machine(here, "less.json", 360), "--ctx", "163840", *output)
    assert "; it fits with a cache of 8 bits" in failed.err, failed
    command = here.pastes(failed)
    assert "--kv-type q8_0" in command and "--ctx 163840" in command, command
    assert "--verbose" in command and "--dump-phases ir" in command, command
    command = here.pastes(here.fails(5, *V3, *tight, "--ctx", "163840", "--kv-type", "f32", "--emit", "placed",
                                     "-o", "placed.mlir"))
    assert "--emit placed" in command, command
    tighter = machine(here, "tighter.json", 356)
    command = here.pastes(here.fails(5, *V3, *tighter, "--ctx", "163840", *output))
    ctx = int(re.search(r"--ctx (\d+)", command).group(1))
    assert 512 <= ctx < 163840, command
    # A much longer context would not fit.
    here.fails(5, *V3, *tighter, "--ctx", str(ctx + ctx // 8), *output)
    command = here.pastes(here.fails(5, *V3, *tighter, "--ctx", "65536", "--ubatch", "65536", *output))
    ubatch = int(re.search(r"--ubatch (\d+)", command).group(1))
    assert 64 <= ubatch < 65536 and "--ctx 65536" in command, command
    here.suggests_nothing(here.fails(5, *V3, *machine(here, "small.json", 64), *output))


@case
def sequences_that_do_not_fit(here):
    """A context of 81920 takes 5.4 GiB of the cache."""
    tight = machine(here, "tight.json", 366)
    long = ["--ctx", "81920", "-o", "p.fb"]
    failed = here.fails(5, *V3, *tight, *long, "--sequences", "16")
    command = here.pastes(failed)
    count = int(re.search(r"--sequences (\d+)", command).group(1))
    assert 1 < count < 16 and "--ctx 81920" in command, command
    here.fails(5, *V3, *tight, *long, "--sequences", str(count + 1))
    # If not even one context of this length fits, all are shortened.
    command = here.pastes(here.fails(5, *V3, *machine(here, "tighter.json", 356), *long, "--sequences", "16"))
    assert "--sequences 16" in command and "--ctx 81920" not in command, command


@case
def a_cache_that_does_not_fit(here):
    tight = machine(here, "tight.json", 366)
    options = ["--ctx", "8192", "--sequences", "4", "-o", "p.fb"]
    budget = lambda command: int(re.search(r"--kv-budget (\d+)MiB", command).group(1))
    command = here.pastes(here.fails(5, *V3, *tight, *options, "--kv-budget", "64GiB"))
    assert "--ctx 8192 --sequences 4" in command, command
    mib = budget(command)
    assert 8 << 10 < mib < 23 << 10, command
    here.fails(5, *V3, *tight, *options, "--kv-budget", f"{mib + (4 << 10)}MiB")
    # A budget below one context is an error too, and an 8-bit cache is not suggested.
    command = here.pastes(here.fails(5, *V3, *tight, *options, "--kv-type", "f16", "--kv-budget", "548MiB"))
    assert "--ctx 8192 --kv-type f16 --sequences 4" in command, command
    # A context that exceeds the memory cannot be suggested.
    small = machine(here, "small.json", 356)
    command = here.pastes(here.fails(5, *V3, *small, "--ctx", "163840", "--kv-budget", "1GiB", "-o", "p.fb"))
    assert "--kv-budget" not in command and "--ctx 163840" not in command, command


@case
def a_form_of_attention_that_needs_weights(here):
    model = here.copy(LITE, f"{ODD}.gguf")
    failed = here.fails(2, "moec", "compile", model, "--target", "xeon", "--mla", "folded", "-w", "reference",
                        "--ctx", "100", "--checksums", "sampled", "-o", "p.fb")
    command = here.pastes(failed)
    assert "--ctx 100" in command and "--weights reference" in command and "--checksums sampled" in command, command


@case
def a_disk_that_is_full(here):
    free = shutil.disk_usage(here.path).free
    if free > 300 << 30:
        return # With so much space the file would be written.
    failed = here.fails(4, "moec", "compile", "../v3.gguf", "--target", "xeon", "-o", "p.fb", "--ctx", "100",
                        "--weights", "pack")
    assert "--ctx 100" in here.pastes(failed)


@case
def a_vocabulary_that_cannot_be_used(here):
    model = here.copy(KJV, "m.gguf")
    compile = ["moec", "compile", model, "--ctx", "64", "-o", "p.fb"]
    command = here.pastes(here.fails(6, *compile, "--pre", "foo"))
    assert "--no-tokenizer" in command and "--pre" not in command, command
    here.pastes(here.fails(6, *compile, "--pre", "deepseek-lm"))


@case
def weights_that_are_damaged(here):
    here.copy(KJV, "m.gguf")
    here.compile("m.gguf", "p.fb", "--ctx", "64", "--weights", "pack")
    with open(here.file("p.weights"), "r+b") as file:
        file.seek(-1000, os.SEEK_END)
        file.write(b"damaged")
    here.pastes(here.fails(3, "moert", "verify", "p.fb"), model="m.gguf")
    here.compile("m.gguf", "p.fb", "--ctx", "64", "--weights", "reference", "--checksums", "sampled")
    here.pastes(here.must("moert", "verify", "p.fb"))
    assert "sampled" not in here.options("p.fb"), here.options("p.fb")
    # The model had NaN values before moec packed it; with an intact model the command repairs the
    # plan.
    damaged = GgufFile.read(KJV)
    gate = damaged.tensors["blk.0.ffn_gate.weight"]
    gate.data = b"\x00\x7e" + bytes(gate.data[2:]) # Byte 1 is part of a block's scale: the scale becomes NaN.
    damaged.write(here.file("bad.gguf"))
    here.compile("bad.gguf", "p.fb", "--ctx", "64", "--weights", "pack")
    here.pastes(here.fails(3, "moert", "logits", "p.fb", *LOGITS), model="m.gguf")
    here.must("moert", "logits", "p.fb", *LOGITS)


@case
def a_cache_that_overflows(here):
    """Keys of some 1e6 are more than f16 holds."""
    large = GgufFile.read(LITE)
    for name, tensor in large.tensors.items():
        if re.fullmatch(r"blk\.0\.attn_kv_a_norm\.weight", name):
            values = struct.unpack(f"<{len(tensor.data) // 4}f", bytes(tensor.data))
            tensor.data = struct.pack(f"<{len(values)}f", *(1e6 * value for value in values))
    large.write(here.file("m.gguf"))
    here.compile("m.gguf", "p.fb", "--kv-type", "f16", "--ctx", "48")
    here.pastes(here.fails(3, "moert", "logits", "p.fb", *LOGITS))
    assert here.options("p.fb") == "--ctx 48 --kv-type f32", here.options("p.fb")


@case
def more_sequences_than_the_plan_has(here):
    here.copy(KJV, "m.gguf")
    here.compile("m.gguf", "p.fb", "--ctx", "64", "--sequences", "2")
    here.pastes(here.fails(5, "moert", "bench", "p.fb", "--parallel", "4", "-p", "4", "-n", "2", "--no-limits"))
    assert here.options("p.fb") == "--ctx 64 --sequences 4", here.options("p.fb")


@case
def a_plan_that_memory_does_not_hold(here):
    """350 GiB of weights can be paged, what is beside them cannot."""
    with open("/proc/meminfo") as file:
        gib = int(re.search(r"MemTotal: +(\d+)", file.read()).group(1)) >> 20
    run = ["moert", "logits", "p.fb", *LOGITS]
    for kind, options in (
            ("a smaller context", ["--ctx", "163840", "--kv-type", "f32", "--ubatch", "16384"]),
            ("fewer sequences", ["--ctx", "8192", "--sequences", "64"]),
            ("a smaller cache", ["--ctx", "8192", "--sequences", "4", "--kv-budget", "64GiB"])):
        if gib > 24:
            # RecompileTest covers machines with more memory.
            provoked.update(("SmallerContext", "FewerSequences", "SmallerCache"))
            return
        # A plan for any CPU, so that memory is what this machine lacks.
        here.compile("../v3.gguf", "p.fb", *machine(here, "any.json", 496, "avx2"), "--weights", "reference",
                     "--checksums", "sampled", *options)
        failed = here.fails(5, *run)
        assert f"recompile with {kind}" in failed.err, failed
        here.pastes(failed)


@case
def a_smaller_cache_and_shorter_steps(here):
    here.copy(KJV, "m.gguf")
    compile = ["moec", "compile", "m.gguf", "--target", "xeon", "-o", "p.fb"]
    command = here.pastes(here.fails(5, *compile, "--dram-limit", "22MiB"))
    assert "--kv-type q8_0" in command and "--ubatch" in command, command
    command = here.pastes(here.fails(5, *compile, "--dram-limit", "25MiB"))
    assert "--kv-type" not in command and "--ubatch 128" in command, command


@case
def another_form_of_attention_that_fits(here):
    """W_UK multiplied into W_Q is some 4 GiB more of weights."""
    failed = here.fails(5, "moec", "compile", "../v3.gguf", *machine(here, "m.json", 356), "--ctx", "4096",
                        "--mla", "folded", "--emit", "placed", "-o", "placed.mlir")
    command = here.pastes(failed)
    assert "--mla" not in command and "--ctx 4096" in command, command


@case
def a_rung_that_does_not_fit(here):
    here.copy(KJV, "m.gguf")
    command = here.pastes(here.fails(5, "moec", "compile", "m.gguf", "--target", "xeon", "-w", "reference",
                                     "--ubatch", "64", "--kv-type", "q8_0", "--dram-limit", "22MiB",
                                     "--ladder", "64,80,512", "-o", "p.fb"))
    assert "--ladder 64,80 " in command, command


@case
def words_that_are_no_command(here):
    for tool in ("moec", "moert"):
        here.pastes(here.fails(2, tool, "nothing"))
        command = here.pastes(here.fails(2, tool, "explain" if tool == "moec" else "run", "p.fb", "--nothing"))
        assert command.endswith("--help"), command


@case
def tools_that_are_not_in_the_path(here):
    """They are suggested as they were called."""
    folder = here.file(f"bin {ODD}")
    os.mkdir(folder)
    for tool in ("moec", "moert"):
        os.symlink(shutil.which(tool), os.path.join(folder, tool))
    here.copy(LITE, "m.gguf")
    for moert in (os.path.join(folder, "moert"), f"bin {ODD}/moert"):
        failed = here.fails(2, moert, "info", "m.gguf")
        environment = dict(os.environ)
        try:
            os.environ["PATH"] = "/usr/bin:/bin"
            here.pastes(failed)
        finally:
            os.environ.update(environment)
    # A moert without moec beside it can only name moec.
    alone = here.file("moert")
    shutil.copy(shutil.which("moert"), alone)
    here.pastes(here.fails(2, "./moert", "info", "m.gguf"))


@case
def a_plan_that_would_do_harm(here):
    """What a plan records comes from a file: it is words, and known options."""
    here.copy(LITE, "m.gguf")
    here.compile("m.gguf", "p.fb", "--target", "4090+n305")
    text = here.must("moec", "inspect", "p.fb").out
    options = "--target $(touch bad) --dump-phases dumps --ctx 64; touch bad"
    with open(here.file("p.mlir"), "w") as file:
        file.write(re.sub(r'options = "[^"]*"', f'options = "{options}"', text))
    here.must("moec", "assemble", "p.mlir", "-o", "p.fb")
    command = tools.hints(here.fails(7, "moert", "logits", "p.fb", *LOGITS).err)[0][0]
    tools.run(command, here.path)
    assert not {"bad", "dumps"} & set(os.listdir(here.path)), command


for function in CASES:
    name = function.__name__
    try:
        function(Folder(name))
    except AssertionError as error:
        failures.append(f"{name}: {error}")

for name in sorted(set(SUGGESTIONS) - provoked - set(ELSEWHERE)):
    failures.append(f"no case provokes {name}: {SUGGESTIONS[name]}")
for name, test in ELSEWHERE.items():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), test)) as file:
        # C++ string literals may be split.
        text = re.sub(r'"\s*"', "", file.read())
    if not re.search(SUGGESTIONS[name].split(".+")[0], text):
        failures.append(f"{test} does not provoke {name}")

print("\n\n".join(failures) or f"{len(CASES)} cases, {len(SUGGESTIONS)} suggestions")
sys.exit(bool(failures))
