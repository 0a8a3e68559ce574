#!/usr/bin/env python3
"""Compares what moec predicts with --weights load and with --weights pack: load_predictions.py MOEC TARGET,... MODEL...

Prints one line for each model and target. Standard library only.
"""
import json
import subprocess
import sys


def prediction(moec, model, target, weights):
    words = [moec, "explain", model, "--target", target, "--weights", weights, "--json"]
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stderr}"
    return json.loads(done.stdout)


def numbers(value, path=""):
    """Yields the predicted speeds and seconds in a document, with their places."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from numbers(part, f"{path}.{key}")
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from numbers(part, f"{path}[{index}]")
    elif isinstance(value, float) or (isinstance(value, int) and "tokens_per_second" in path):
        yield path, value


def main():
    moec, targets, *models = sys.argv[1:]
    for model in models:
        for target in targets.split(","):
            load, pack = (dict(numbers(prediction(moec, model, target, weights))) for weights in ("load", "pack"))
            assert load and load == pack, f"{model} on {target}: {[key for key in load if load[key] != pack.get(key)][:5]}"
            print(f"{target}: {len(load)} equal predictions")


if __name__ == "__main__":
    main()
