"""Writes a copy of a model file in which the name of the pre-tokenizer or the vocabulary is another.

Usage: default_pretokenizer.py SOURCE OUT [--name NAME] [--vocabulary FILE.gguf | --of-default]; without --name the key is
left out. With another vocabulary, all rows of the token_embd are 0.
"""
import argparse
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from gguf_file import ARRAY, INT32, STRING, UINT32, GgufFile, Tensor

TOKENS, TYPES = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"


def of_default():
    """Returns tokens that the rules of "default" do not cut: words, runs of punctuation, numbers of at most three
    digits, and a symbol that others take for punctuation beside one that is none."""
    rng = random.Random(1)
    words = {"".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 7))) for _ in range(4000)}
    marks = {a + b for a in ".,(!?$+<=>" for b in ".,(!?$+<=>"}
    # The pound and the copyright sign are two letters each in the alphabet of bytes.
    symbols = {"`\u00c2" + symbol for symbol in "\u00a3\u00a9"}
    return sorted(words | {"\u0120" + word for word in words} | marks | symbols | {str(n) for n in range(10, 1000)})


p = argparse.ArgumentParser()
p.add_argument("source")
p.add_argument("out")
p.add_argument("--name")
p.add_argument("--vocabulary")
p.add_argument("--of-default", action="store_true")
a = p.parse_args()
model = GgufFile.read(a.source)
if a.vocabulary:
    other = GgufFile.read(a.vocabulary)
    model.keys.update({name: value for name, value in other.keys.items() if name.startswith("tokenizer.")})
if a.of_default:
    tokens = model.keys[TOKENS][1][1] + of_default()
    model.keys[TOKENS] = ARRAY, (STRING, tokens)
    types = model.keys[TYPES][1][1]
    model.keys[TYPES] = ARRAY, (INT32, types + [1] * (len(tokens) - len(types)))
if a.vocabulary or a.of_default:
    count, columns = len(model.keys[TOKENS][1][1]), model.tensors["token_embd.weight"].shape[0]
    model.keys[model.keys["general.architecture"][1] + ".vocab_size"] = UINT32, count
    model.tensors["token_embd.weight"] = Tensor("F16", [columns, count], bytes(2 * columns * count))
    model.tensors.pop("output.weight", None)
model.keys.pop("tokenizer.ggml.pre", None)
if a.name:
    model.keys["tokenizer.ggml.pre"] = STRING, a.name
model.write(a.out)
