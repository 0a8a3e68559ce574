"""Compiles with each option of compiler/Options/Options.def, provokes a suggestion, pastes it and compares.

Usage: option_table.py FOLDER MODELS SOURCE MTP
MTP is a model with a layer for multi-token prediction.
"""
import os
import re
import shlex
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import tools

root, models, source, with_mtp = sys.argv[1:]
MODEL = os.path.join(models, "tiny-kjv/tiny-kjv-q4_k_m.gguf")
TABLE = os.path.join(source, "compiler/Options/Options.def")
RULES = """- match:
    name: "^model\\\\.layers\\\\..*\\\\.mlp\\\\.experts$"
  replace:
    class: ktransformers.operators.experts.KTransformersExperts
    kwargs:
      prefill_device: "cpu"
      generate_device: "cpu"
- match:
    name: "^model"
  replace:
    class: "default"
    kwargs:
      generate_device: "cuda:0"
      prefill_device: "cuda:0"
"""
GPU = ["--target", "4090+xeon"]

# Values for options that usual_value() does not cover (other than the default), and further options
# that they need.
VALUES = {
    "--target": ("xeon", []),
    "--target-file": ("my machine.json", []),
    "--vram-limit": ("4GiB", GPU),
    "--dram-limit": ("8GiB", []),
    "--numa": ("interleaved", ["--target", "xeon-2s"]),
    "--gpu-arch": ("86,90", GPU),
    "--nvrtc": (None, []),
    "--ctx": ("100", []),
    "--ladder": ("64,100", []),
    "--kv-type": ("blk.0=f32,bf16", []),
    "--kv-budget": ("8MiB", []),
    "--experts": ("4", []),
    "--defer-experts": ("2", []),
    "--router-profile": ("profile.json", ["--target", "4090:12MiB+xeon"]),
    "--max-dropped-mass": ("0.25", ["--router-profile", "profile.json"]),
    "--pre": ("gpt-2", []),
    "--rope-scaling": ("yarn:2.5", []),
    "--ubatch": ("16", []),
    "--mla": ("none", []),
    "--place": ("blk.1.ffn_experts=cpu0", GPU),
    "--override-tensor": ("ffn_(up|down)_exps=CPU", GPU),
    "--rules": ("rules.yaml", GPU),
    "--n-cpu-moe": ("all", GPU),
    "--n-gpu-layers": ("2", GPU),
    "--stream-experts": ("64", GPU + ["--n-cpu-moe", "all", "--n-gpu-layers", "99"]),
    "--allow-unmatched-rules": (None, GPU + ["--override-tensor", "nothing=CPU"]),
    "--optimize-for": ("prefill", GPU),
    "--weights": ("pack", []),
    "--output": ("other name.fb", []),
    "--weights-file": ("elsewhere.weights", ["--weights", "pack"]),
    "--emit": ("placed", []),
    "--dump-phases": ("ir", []),
}


def usual_value(row):
    """A value of an option that needs no other: (value,) or, of a flag, (None,); None for other kinds."""
    field = lambda name: (re.search(rf'\.{name} = "?([^",]*)', row) or [None, ""])[1]
    kind = field("kind")
    if not kind:
        return (None,)
    if kind.endswith("Word"):
        return (field("words").split("|")[-1],)
    if kind.endswith("Number"):
        return (str(int(field("least") or 0) + 1),)
    return ("1MiB",) if kind.endswith("Size") else None


def rows():
    """(long name, whether plans record it, (value, what it needs)) of every row of the table."""
    with open(TABLE) as file:
        text = file.read()
    found = []
    for row in re.split(r"\nMOE_(?:PASS_)?OPTION\(", text)[1:]:
        name = re.search(r'\.names = "([^"]*)"', row).group(1).split(",")[-1]
        uses = re.search(r"\.use = ([^,]*),", row)
        usual = usual_value(row)
        value = VALUES.get(name) or (usual and (*usual, []))
        assert value, f"{name}: give it a value in {__file__}"
        found.append((name, bool(uses and re.search("kRecorded|MOE_", uses.group(1))), value))
    return found


def model_for(name):
    return with_mtp if name == "--mtp" else MODEL


def compile_again(name, words):
    """The plan of a command, and that of the command that another version of moert suggests."""
    model = model_for(name)
    result = tools.run(["moec", "compile", model, *words, "-o", "p.fb"], root)
    assert result.code == 0, result
    with open(os.path.join(root, "p.fb"), "rb") as file:
        first = file.read()
    tools.schema_version(os.path.join(root, "p.fb"), 1)
    failed = tools.run(["moec", "explain", "p.fb"], root)
    suggested = tools.hints(failed.err)
    assert len(suggested) == 1, failed
    command, has_model = suggested[0]
    if has_model: # The plan has only packed weights, so that it names no model.
        command = command.replace(" MODEL ", f" {shlex.quote(model)} ")
    for default in ("--target native", "--ctx 0", "auto"):
        assert f" {default}" not in command or default in " ".join(words), command
    pasted = tools.run(command, root)
    assert pasted.code == 0, f"{command}\n{pasted}"
    with open(os.path.join(root, "p.fb"), "rb") as file:
        assert file.read() == first, f"{name}: another plan\n{command}"


def kept_by_remedies(name, value, words):
    """moec's own suggestions keep the option, whatever it is for."""
    if name in ("--mla", "--weights", "--weights-file", "--nvrtc", "--output"):
        return # A remedy changes the first two options, and drops options that exclude its own.
    given = [name] if value is None else [name, value]
    if name == "--ladder": # The remedy for a rung is a ladder with the rung's context.
        return
    failed = tools.run(["moec", "compile", model_for(name), *words, *given, "--mla", "folded", "--weights", "reference",
                        "-o", f"remedy{name}"], root)
    suggested = tools.hints(failed.err)
    assert len(suggested) == 1, f"{name}: {failed}"
    command = suggested[0][0]
    assert f" {shlex.join(given)} " in command + " ", f"{name}: {command}"
    assert tools.run(command, root).code == 0, command


def prepare():
    with open(os.path.join(root, "my machine.json"), "w") as file:
        file.write(tools.run(["moec", "targets", "xeon", "--json"], root).out)
    with open(os.path.join(root, "rules.yaml"), "w") as file:
        file.write(RULES)
    profile = os.path.join(os.path.dirname(os.path.abspath(__file__)), "router_profile.py")
    with open(os.path.join(root, "profile.json"), "w") as file:
        subprocess.run([sys.executable, profile], stdout=file, check=True)


prepare()
failures = []
table = rows()
assert len(table) > 30, table
for name, is_recorded, (value, words) in table:
    try:
        if is_recorded:
            compile_again(name, words + ([name] if value is None else [name, value]))
        kept_by_remedies(name, value, words)
    except AssertionError as error:
        failures.append(f"{name}: {error}")
print("\n\n".join(failures) or f"{len(table)} options")
sys.exit(bool(failures))
