#!/usr/bin/env python3
"""Cuts a trained model down to its first layers and experts, bytes unchanged.

  cut_model.py in.gguf out.gguf --layers 2 --experts 8 --used 4

How test/data/cut-*.gguf were made from the full-size tiny-kjv files, which are
too large to ship in every format: real trained weights in the format of the
name, as another engine's quantiser wrote them. Needs the PyPI packages gguf and
numpy; the tests need neither.
"""
import argparse
import gguf
import numpy as np


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("source")
    p.add_argument("out")
    p.add_argument("--layers", type=int, default=2)
    p.add_argument("--experts", type=int, default=8)
    p.add_argument("--used", type=int, default=4)
    a = p.parse_args()
    reader = gguf.GGUFReader(a.source)
    arch = reader.fields["general.architecture"].contents()
    replaced = {f"{arch}.block_count": a.layers, f"{arch}.expert_count": a.experts,
                f"{arch}.expert_used_count": a.used}
    writer = gguf.GGUFWriter(a.out, arch)
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        kind = field.types[0]
        value = replaced.get(field.name, field.contents())
        sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, value, kind, sub)
    for t in reader.tensors:
        if t.name.startswith("blk.") and int(t.name.split(".")[1]) >= a.layers:
            continue
        data = t.data
        if "_exps" in t.name or "ffn_gate_inp" in t.name or "exp_probs_b" in t.name:
            data = np.ascontiguousarray(data[:a.experts])
        writer.add_tensor(t.name, data, raw_dtype=t.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main()
