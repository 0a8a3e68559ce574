"""Compiles every shape of gpu-kit, without its weights: gpu_kit_shapes.py SHAPES.py FOLDER."""
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(sys.argv[1]))
import shapes

for model in shapes.MODELS:
    path = os.path.join(sys.argv[2], model + ".gguf")
    subprocess.run([sys.executable, "-B", sys.argv[1], model, path], check=True, stderr=subprocess.DEVNULL)
    done = subprocess.run(["moec", "plan", path, "--targets", "h100+xeon", "--json"], check=True, stdout=subprocess.PIPE)
    fits = json.loads(done.stdout)[0]["decode_tokens_per_second"]
    print(f"{model} {os.path.getsize(path) / 1e9:.1f} GB {'fits' if fits else 'does not fit'}")
