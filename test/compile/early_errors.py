#!/usr/bin/env python3
"""Types commands that cannot work where nothing has been measured: none measures the machine.

  early_errors.py --moec PATH --moert PATH --model MODEL.gguf --folder EMPTY

Standard library only.
"""
import argparse
import os
import pathlib
import socket
import subprocess

parser = argparse.ArgumentParser()
for name in ("moec", "moert", "model", "folder"):
    parser.add_argument(f"--{name}", required=True)
options = parser.parse_args()
folder = pathlib.Path(options.folder)
model = options.model
(folder / "bad.jinja").write_text("{% for %}")
(folder / "bad.yaml").write_text("- match: [\n")
(folder / "empty-keys").write_text("")
(folder / "text").write_text("In the beginning")
taken = socket.socket()
taken.bind(("127.0.0.1", 0))
taken.listen()
port = str(taken.getsockname()[1])

COMPILE = [options.moec, "compile", model]
RUN = [options.moert, "run", model]
SERVE = [options.moert, "serve", model, "--port", "0"]
CASES = [  # Each case is a command and words of its error.
    ([*COMPILE, "-c", "999999"], "was trained for 512 tokens"),
    ([*COMPILE, "--ladder", "64,999999"], "was trained for 512 tokens"),
    ([*COMPILE, "--rope-scaling", "linear:2"], "expected yarn:FACTOR"),
    ([*COMPILE, "--pre", "nonsense"], "nonsense"),
    ([*COMPILE, "-ot", "nonsense=CPU"], "nonsense"),
    ([*COMPILE, "-ot", "exps=CUDA3"], "CUDA3"),
    ([*COMPILE, "--rules", "bad.yaml"], "bad.yaml"),
    ([*COMPILE, "--rules", "missing.yaml"], "missing.yaml"),
    ([*COMPILE, "--router-profile", "missing.json"], "missing.json"),
    ([*COMPILE, "--experts", "99"], "99"),
    ([*COMPILE, "--kv-budget", "1KiB"], "1"),
    ([*COMPILE, "--dram-limit", "1MiB"], "fit"),
    ([*COMPILE, "--vram-limit", "1GiB"], "no GPU"),
    ([*COMPILE, "--target", "native+bogus"], "bogus"),
    ([options.moec, "plan", model, "--targets", "native,bogus"], "bogus"),
    ([options.moec, "compile", "missing.gguf"], "missing.gguf"),
    ([*RUN, "-p", "x", "-c", "999999"], "was trained for 512 tokens"),
    ([*RUN, "-p", "x", "-ot", "nonsense=CPU"], "nonsense"),
    ([*RUN, "-f", "missing.txt"], "missing.txt"),
    ([*RUN], "give the prompt"),
    ([*RUN, "-p", "x", "--chat", "--template", "bad.jinja"], "bad.jinja"),
    ([*RUN, "--messages", "missing.json"], "missing.json"),
    ([*RUN, "-p", "x", "--session", "text"], "text"),
    ([options.moert, "run", "missing.gguf"], "missing.gguf"),
    ([options.moert, "run", "org/model"], "hf download"),
    ([options.moert, "chat", model, "--system-file", "missing.txt"], "missing.txt"),
    ([options.moert, "perplexity", model, "-f", "missing.txt"], "missing.txt"),
    ([options.moert, "bench", model, "-p", "999999"], "was trained for 512 tokens"),
    ([options.moert, "profile", model, "--trace", "text"], "text"),
    ([options.moert, "logits", model, "--tokens", "1,2", "--out", "text"], "text"),
    ([*SERVE, "--api-key-file", "missing.txt"], "missing.txt"),
    ([*SERVE, "--api-key-file", "empty-keys"], "no key"),
    ([*SERVE, "--api-key", ""], "--api-key"),
    ([*SERVE, "--chat-template", "bad.jinja"], "bad.jinja"),
    ([*SERVE, "--tls-cert", "text", "--tls-key", "text"], "text"),
    ([*SERVE, "--host", "0.0.0.0"], "--api-key"),
    ([options.moert, "serve", model, "--port", port], port),
    ([*SERVE, "-c", "999999"], "was trained for 512 tokens"),
]
cache = folder / "cache"
environment = dict(os.environ, XDG_CACHE_HOME=str(cache))
wrong = 0
for command, words in CASES:
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300, cwd=folder,
                          env=environment)
    errors = "\n".join(line for line in done.stderr.split("\n") if not line.startswith("note"))
    measured = [str(path) for path in cache.rglob("native*.json")]
    if done.returncode == 0 or words not in errors or measured:
        wrong += 1
        print(command[1:], done.returncode, errors, measured)
    for path in measured:
        os.remove(path)
print(f"{len(CASES)} commands, {wrong} wrong")
