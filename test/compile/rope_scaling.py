"""Compares --rope-scaling with the keys of YaRN in a file, for the models of all architectures.

Usage: rope_scaling.py WORK FOLDER, which has the models. The graphs are equal; what the option refuses has a scaling of
its own, or is not changed by the keys.
"""
import collections
import glob
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from gguf_file import FLOAT32, STRING, UINT32, GgufFile

FACTOR = 4
work, folder = sys.argv[1:]


def functions(path, *options):
    """Returns the graph's functions as text, and what is said."""
    out = os.path.join(work, "graph.mlir")
    done = subprocess.run(["moec", "compile", path, "--emit", "moe", "--force", "-o", out, *options], capture_output=True,
                          text=True)
    if done.returncode:
        return None, done.stderr
    with open(out) as file:
        text = file.read()
    return text[text.index("func.func"):], text


counts = collections.Counter()
for path in sorted(glob.glob(os.path.join(folder, "*.gguf"))):
    plain, _ = functions(path)
    if plain is None:  # The import has refused this file on purpose.
        continue
    model = GgufFile.read(path)
    prefix = model.keys["general.architecture"][1]
    context = model.keys[f"{prefix}.context_length"][1]
    by_option, said = functions(path, "--rope-scaling", f"yarn:{FACTOR}")
    if "already scales" in said:
        scaled = f"{prefix}.rope.scaling.type" in model.keys or any(name.startswith("rope_f") for name in model.tensors)
        assert by_option is None and scaled, path
        counts["scaled"] += 1
        continue
    keys = {"type": (STRING, "yarn"), "factor": (FLOAT32, float(FACTOR)), "original_context_length": (UINT32, context)}
    model.keys.update({f"{prefix}.rope.scaling.{name}": value for name, value in keys.items()})
    copy = os.path.join(work, "keys.gguf")
    model.write(copy)
    by_keys, error = functions(copy)
    assert by_keys is not None, f"{path}: {error}"
    if by_option is None:
        assert "no rotary position embeddings" in said, f"{path}: {said}"
        assert by_keys == plain, f"{path}: the keys change what the option refuses"
        counts["none"] += 1
        continue
    assert by_option == by_keys, f"{path}: the graphs differ"
    assert by_option != plain, f"{path}: the option changes nothing"
    assert f"context_length = {FACTOR * context} : i64" in said, path
    counts["equal"] += 1
print(" ".join(f"{kind} {counts[kind]}" for kind in ("equal", "scaled", "none")))
