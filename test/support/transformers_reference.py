#!/usr/bin/env python3
"""Logits of a GGUF file by its model's own definition in the PyPI package transformers, in float64 on the CPU.

  transformers_reference.py MODEL.gguf ID ID ... --out LOGITS.npy [--greedy N | --draft]

Makes the configuration and the weights of the model's class in transformers from the file (judges/ has a short mapping for
each architecture; for one that transformers lacks, judges/own.py has a model), runs it without a cache and saves float64
logits [tokens, vocab]. Prints which class and versions computed them, the most likely tokens, how close a router's closest
choice was, and the continuation. With --draft, the logits [tokens - 1, vocab] are those of the layer for multi-token
prediction for every token but the first (arXiv 2412.19437, section 2.2): transformers has the layer, as a model of one; its
input, a matrix times the normed embedding of the token and the normed hidden state before it, is computed here.
Needs torch, transformers and numpy.
"""
import argparse
import os
import re
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from judges import float64
import torch
import transformers
from judges import FAMILIES, own
from judges.gguf_model import GgufModel


class Reference:
    def __init__(self, file):
        self.file = file
        self.own = own.MODELS[file.arch](file) if file.arch in own.MODELS else None
        if self.own:
            self.name = f"{type(self.own).__name__} of judges/own.py"
            return
        if file.arch not in FAMILIES:
            sys.exit(f"no mapping of '{file.arch}'; there are: {', '.join(sorted(FAMILIES))}")
        kind, config, state, *change = FAMILIES[file.arch](file)
        config = transformers.CONFIG_MAPPING[kind](**config) if isinstance(kind, str) else kind(**config)
        config._attn_implementation, config._experts_implementation = "eager", "eager"
        classes = transformers.MODEL_FOR_CAUSAL_LM_MAPPING
        if type(config) not in classes:
            classes = transformers.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING
        self.name = f"{classes[type(config)].__name__} of transformers {transformers.__version__}"
        self.model = classes[type(config)]._from_config(config, attn_implementation="eager").double().eval()
        missing, unknown = self.model.load_state_dict(state, strict=False, assign=True)
        # Text needs no weights of these parts.
        missing = [name for name in missing if not re.search(r"\.(vis|multi_modal_projector)", name)]
        if missing or unknown:
            sys.exit(f"{file.arch}: not in the file: {missing}; not in the model: {unknown}")
        for each in change:
            each(self.model)

    def logits(self, ids):
        with torch.no_grad():
            if self.own:
                return self.own.logits(ids).numpy()
            return self.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].numpy()


def draft_logits(file, ids):
    """Logits of the layer for multi-token prediction; the judge."""
    def normed(x, name):
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + file.key("attention.layer_norm_rms_epsilon"))
        return x * scale * layer.tensors[f"blk.0.nextn.{name}.weight"]

    layer = file.draft()
    with torch.no_grad():
        before = Reference(file).model.model(input_ids=torch.tensor([ids]), use_cache=False).last_hidden_state[0, :-1]
        token = layer.tensors["token_embd.weight"][ids[1:]]
        x = torch.cat((normed(token, "enorm"), normed(before, "hnorm")), -1) @ layer.tensors["blk.0.nextn.eh_proj.weight"].T
        reference = Reference(layer)
        return reference.model(inputs_embeds=x[None], use_cache=False).logits[0].numpy(), reference


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("ids", type=int, nargs="+")
    p.add_argument("--out", required=True)
    p.add_argument("--greedy", type=int, default=0)
    p.add_argument("--draft", action="store_true")
    a = p.parse_args()
    float64.closest.clear()
    file = GgufModel(a.model)
    if a.draft:
        logits, reference = draft_logits(file, a.ids)
    else:
        reference = Reference(file)
        logits = reference.logits(a.ids)
    assert logits.dtype == np.float64
    np.save(a.out, logits)
    print(f"judge: {reference.name}, torch {torch.__version__.partition('+')[0]}, float64")
    print("top:", [(int(token), round(float(logits[-1][token]), 5)) for token in np.argsort(-logits[-1])[:5]])
    for name, margin in float64.closest.items():
        print(f"smallest {name} margin: {margin:.3g}")
    greedy = []
    for _ in range(a.greedy):
        greedy.append(int(logits[-1].argmax()))
        logits = reference.logits(a.ids + greedy)
    if greedy:
        print("greedy:", greedy)


if __name__ == "__main__":
    main()
