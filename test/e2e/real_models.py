"""Tests a real model as a new user would use it, compiled with default options, and compares it with llama.cpp.

  real_models.py --bin FOLDER --fetched FOLDER --work DIR NAME
"""
import argparse
import array
import json
import math
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "tools")]
import llama_cpp
import pretokenizers

PROSE = ("The lighthouse stood on a narrow spit of rock, three miles from the nearest village. Every evening at dusk the "
         "keeper climbed its 199 steps, trimmed the wick and lit the lamp. In winter, when storms came in from the "
         "north, he sometimes did not sleep for two days; in summer he read, fished and repaired his boat.")
QUESTION = "What is 2 + 2?"

# Name -> file from tools/get-model.sh; text expected in an answer to QUESTION ("" if the model has no chat template);
# its pre-tokenizer ("" if its vocabulary has none).
MODELS = {
    "smollm2": ("SmolLM2-135M-Instruct.Q4_1.gguf", "4", "smollm"),
    "gemma3": ("gemma-3-270m-q4_k_m.gguf", "", ""),
}
# Both engines quantise activations in different ways: each is 0.004 from float64, and they are 0.008 apart.
MOST_KL = 0.02
# If llama.cpp's first choice leads by less than this many nats, rounding decides.
CLOSE = 0.5


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: exit code {done.returncode}\n{done.stderr}"
    return done.stdout


class Check:
    def __init__(self, arguments):
        self.moec, self.moert, self.token_ids = (os.path.join(arguments.bin, name)
                                                 for name in ("moec", "moert", "moe-token-ids"))
        file, self.answer, self.pre = MODELS[arguments.name]
        self.model, self.work = os.path.join(arguments.fetched, file), arguments.work
        self.plan = os.path.join(self.work, "plan.fb")
        self.judge = llama_cpp.Library()

    def compile(self):
        run(self.moec, "compile", self.model, "-o", self.plan)

    def check_ids(self):
        texts = pretokenizers.random_texts(100) + [PROSE, QUESTION, ""]
        done = subprocess.run([self.token_ids, self.model], input="".join(json.dumps(text) + "\n" for text in texts),
                              capture_output=True, text=True, check=True)
        ours = [json.loads(line) for line in done.stdout.split("\n")[:-1]]
        with self.judge.vocabulary(self.model) as vocabulary:
            wrong = [text for text, ids in zip(texts, ours, strict=True) if ids != vocabulary.ids(text)]
        assert not wrong, f"{len(wrong)} of {len(texts)} texts have other ids: {min(wrong, key=len)!r}"
        print(f"ids of {len(texts)} texts are equal")

    def check_unknown_rules(self):
        """If the pre-tokenizer's name were not known, the vocabulary would reveal its rules."""
        if not self.pre:
            return
        with open(self.model, "rb") as file:
            data = file.read()
        at = data.index(self.pre.encode(), data.index(b"tokenizer.ggml.pre"))
        renamed = os.path.join(self.work, "renamed.gguf")
        with open(renamed, "wb") as file:
            file.write(data[:at] + b"?" * len(self.pre) + data[at + len(self.pre):])
        failed = subprocess.run([self.moec, "compile", renamed, "-o", self.plan], capture_output=True, text=True)
        said = "the vocabulary was made with the rules of "
        assert failed.returncode == 6 and said + self.pre in failed.stderr, failed
        assert f" --pre {self.pre} " in failed.stderr, failed
        os.remove(renamed)

    def tokens(self, text):
        return json.loads(run(self.moert, "tokenize", self.plan, "--text", text))

    def our_logits(self, ids):
        path = os.path.join(self.work, "logits.npy")
        run(self.moert, "logits", self.plan, "--tokens", ",".join(map(str, ids)), "--out", path)
        with open(path, "rb") as file:
            data = file.read()
        header = 10 + int.from_bytes(data[8:10], "little")
        values = array.array("f", data[header:])
        size = len(values) // len(ids)
        return [values[at * size:(at + 1) * size] for at in range(len(ids))]

    def check_logits(self):
        ids = self.tokens(PROSE)
        divergences = [divergence(theirs, ours) for theirs, ours in
                       zip(self.judge.logits(self.model, ids), self.our_logits(ids), strict=True)]
        mean = sum(divergences) / len(divergences)
        print(f"mean KL of {len(ids)} tokens: {mean:.2e}, worst {max(divergences):.2e}")
        assert mean < MOST_KL, mean

    def check_greedy(self):
        """Checks that every token of our greedy text is llama.cpp's first choice, or nearly as likely."""
        result = json.loads(run(self.moert, "run", self.plan, "-p", PROSE, "-n", "24", "--temp", "0", "--json"))
        prompt, text = self.tokens(PROSE), self.tokens(PROSE + result["text"])
        assert text[:len(prompt)] == prompt, "the continuation changes the prompt's tokens"
        rows = self.judge.logits(self.model, text)
        agreed = 0
        for at in range(len(prompt), len(text)):
            row = rows[at - 1]
            best = max(row)
            agreed += row[text[at]] == best
            assert best - row[text[at]] < CLOSE, f"token {at} of {result['text']!r} is {best - row[text[at]]:.2f} behind"
        print(f"greedy: {agreed} of {len(text) - len(prompt)} are llama.cpp's:{result['text']}")

    def check_answer(self):
        if not self.answer:
            return
        text = json.loads(run(self.moert, "run", self.plan, "--chat", "-p", QUESTION, "-n", "60", "--temp", "0",
                              "--json"))["text"]
        print(f"answer: {text}")
        assert self.answer in text, text


def divergence(theirs, ours):
    """Returns the KL divergence of llama.cpp's prediction from ours, in nats."""
    def log_sum(row):
        most = max(row)
        return most + math.log(sum(math.exp(value - most) for value in row))
    p, q = log_sum(theirs), log_sum(ours)
    return sum(math.exp(a - p) * ((a - p) - (b - q)) for a, b in zip(theirs, ours))


def main():
    parser = argparse.ArgumentParser()
    for name in ("--bin", "--fetched", "--work"):
        parser.add_argument(name, required=True)
    parser.add_argument("name", choices=MODELS)
    arguments = parser.parse_args()
    os.makedirs(arguments.work, exist_ok=True)
    check = Check(arguments)
    check.compile()
    check.check_ids()
    check.check_unknown_rules()
    check.check_logits()
    check.check_greedy()
    check.check_answer()
    print("ok")


main()
