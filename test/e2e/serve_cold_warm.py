#!/usr/bin/env python3
"""Asks `moert serve` for the same texts with an empty cache, with parts of them in the cache, and beside others, and
prints the largest difference between the log-probabilities of a first token.

  serve_cold_warm.py --moert PATH --plan PLAN.fb --work DIR [--most 0]

A key finds what it sent itself alone, so that a new key finds nothing. Fails where a difference is above --most. Then it
goes on with a text that was generated, whose rows the decode phase evaluated, and prints that difference too: products
of few rows add in another order there. Standard library only.
"""
import argparse
import os
import random
import threading

from serve import Server

KEYS = 60


def ask(server, key, tokens, generate=1):
    """Returns the five likeliest first tokens, how much was in the cache, and the tokens."""
    answer = server.json_by(key, {"prompt": tokens, "n_predict": generate, "temperature": 0, "n_probs": 5,
                                  "return_tokens": True})
    first = answer["completion_probabilities"][0]["top_logprobs"]
    return {each["id"]: each["logprob"] for each in first}, answer["timings"]["cache_n"], answer["tokens"]


def difference(one, other):
    common = one.keys() & other.keys()
    assert len(common) >= 3, (one, other)
    return max(abs(one[token] - other[token]) for token in common)


class KeyedServer(Server):
    def json_by(self, key, body):
        import json
        status, _, text = self.request("/completion", body, {"Authorization": f"Bearer secret-{key}"}.items())
        assert status == 200, text
        return json.loads(text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--moert", required=True)
    parser.add_argument("--plan", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--most", type=float, default=0)
    arguments = parser.parse_args()
    os.makedirs(arguments.work, exist_ok=True)
    keys = os.path.join(arguments.work, "keys")
    with open(keys, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.writelines(f"k{i}:secret-{i}\n" for i in range(KEYS))
    server = KeyedServer(arguments.moert, [arguments.plan], "--api-key-file", keys)
    draw = random.Random(3)
    unused = iter(range(KEYS))
    worst = cached = generated = 0
    for _ in range(8):
        text = [draw.randrange(300, 1000) for _ in range(draw.randint(40, 300))]
        cold, count, _ = ask(server, next(unused), text)
        assert count == 0, count
        key = next(unused)
        # Prefixes of the text, with other continuations, in any order.
        for _ in range(3):
            cut = draw.randint(17, len(text))
            ask(server, key, text[:cut] + [draw.randrange(300, 1000) for _ in range(draw.randint(0, 20))])
        others = [threading.Thread(target=ask, args=(server, key, [draw.randrange(300, 1000) for _ in range(150)], 40))
                  for _ in range(draw.randint(0, 3))]
        for other in others:
            other.start()
        for _ in range(2):
            warm, count, _ = ask(server, key, text)
            cached += count
            worst = max(worst, difference(cold, warm))
        for other in others:
            other.join()
        # A second turn.
        key = next(unused)
        _, _, reply = ask(server, key, text, 40)
        longer = text + reply + [draw.randrange(300, 1000) for _ in range(20)]
        warm, count, _ = ask(server, key, longer)
        assert count >= len(text), count
        generated = max(generated, difference(ask(server, next(unused), longer)[0], warm))
    server.stop()
    assert cached > 500, cached
    assert worst <= arguments.most, f"cold and warm differ by {worst}"
    print(f"cold and warm differ by at most {worst:g}")
    print(f"after a generated text by at most {generated:.3g}")


if __name__ == "__main__":
    main()
