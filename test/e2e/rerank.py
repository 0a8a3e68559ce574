#!/usr/bin/env python3
"""Makes rerankers of unit models and compares what they say with the models' own references.

  rerank.py --moec PATH --moert PATH --unit DIR --work DIR

A reranker is made as Qwen3's are: its classifier has the rows of the head for two tokens. Its outputs are then the
reference's logits of these tokens, and the relevance of a document is the softmax of the two. Needs numpy.
"""
import argparse
import math
import os
import sys

from compare_logits import load
from serve import Server

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from gguf_file import ARRAY, STRING, UINT32, GgufFile, Tensor
from tools import run

# Tied and untied heads, with and without experts, latent attention.
MODELS = ["qwen3", "qwen3moe", "deepseek2-lite"]
YES, NO = 60, 51
TEMPLATE = "<Query>: {query}\n<Document>: {document}\n"
QUERY, DOCUMENTS = "what is it?", ["a cat", "{query} and a longer text about nothing", ""]


def reranker(model, path):
    """Writes the model with a classifier in place of its head."""
    file = GgufFile.read(model)
    head = file.tensors.pop("output.weight", None) or file.tensors["token_embd.weight"]
    size = len(head.data) // head.shape[1]
    rows = b"".join(head.data[row * size:(row + 1) * size] for row in (YES, NO))
    file.tensors["cls.output.weight"] = Tensor(head.format, [head.shape[0], 2], rows)
    name = file.keys["general.architecture"][1]
    file.keys[f"{name}.pooling_type"] = UINT32, 4
    file.keys[f"{name}.classifier.output_labels"] = ARRAY, (STRING, ["yes", "no"])
    file.keys["tokenizer.chat_template.rerank"] = STRING, TEMPLATE
    file.write(path)


def command(words, folder):
    result = run(words, folder)
    assert result.code == 0, result
    return result.out


def logits(arguments, plan, ids):
    """The logits after each of the tokens, [tokens, outputs]."""
    out = os.path.join(arguments.work, "logits.npy")
    command([arguments.moert, "logits", plan, "--tokens", ",".join(map(str, ids)), "--out", out, "--force"],
            arguments.work)
    return load(out)


def check_served(arguments, plain, ranks):
    server = Server(arguments.moert, [ranks])
    answer = server.json("/v1/rerank", {"query": QUERY, "documents": DOCUMENTS})
    scores = {each["index"]: each["relevance_score"] for each in answer["results"]}
    tokens = 0
    for index, document in enumerate(DOCUMENTS):
        text = TEMPLATE.split("{document}")[0].replace("{query}", QUERY) + document + TEMPLATE.split("{document}")[1]
        ids = server.json("/tokenize", {"content": text, "add_special": True})["tokens"]
        tokens += len(ids)
        last = logits(arguments, plain, ids)[-1]
        expected = 1 / (1 + math.exp(last[NO] - last[YES]))
        assert abs(scores[index] - expected) < 1e-4, (scores, index, expected)
    assert answer["usage"]["total_tokens"] == tokens, answer
    assert [each["relevance_score"] for each in answer["results"]] == sorted(scores.values(), reverse=True), answer
    status, _, text = server.request("/v1/completions", {"prompt": "a"})
    assert status == 400 and "classifier" in text, (status, text)
    server.stop()


def main():
    parser = argparse.ArgumentParser()
    for name in ("moec", "moert", "unit", "work"):
        parser.add_argument(f"--{name}", required=True)
    arguments = parser.parse_args()
    os.makedirs(arguments.work, exist_ok=True)
    for name in MODELS:
        model, made = (os.path.join(folder, f"{name}.gguf") for folder in (arguments.unit, arguments.work))
        reranker(model, made)
        plain, ranks = (os.path.join(arguments.work, f"{name}-{kind}.fb") for kind in ("plain", "ranks"))
        for source, plan in ((model, plain), (made, ranks)):
            command([arguments.moec, "compile", source, "--target", "native", "--kv-type", "f32", "-o", plan],
                    arguments.work)
        with open(os.path.join(arguments.unit, f"{name}.txt")) as file:
            ids = file.readline().split()[1:]
        found, golden = logits(arguments, ranks, ids), load(os.path.join(arguments.unit, f"{name}.logits.npy"))
        assert len(found) == len(golden) == len(ids), (len(found), len(golden))
        most = max(abs(value) for row in golden for value in row)
        for ours, theirs in zip(found, golden):
            assert len(ours) == 2 and abs(ours[0] - theirs[YES]) < 1e-4 * most, (name, ours, theirs[YES])
            assert abs(ours[1] - theirs[NO]) < 1e-4 * most, (name, ours, theirs[NO])
        refused = run([arguments.moert, "run", ranks, "-p", "a", "-n", "1"], arguments.work)
        assert refused.code != 0 and "classifier" in refused.err, refused
        print(f"{name}: ok")
    check_served(arguments, os.path.join(arguments.work, f"{MODELS[0]}-plain.fb"),
                 os.path.join(arguments.work, f"{MODELS[0]}-ranks.fb"))
    print("served: ok")


if __name__ == "__main__":
    main()
