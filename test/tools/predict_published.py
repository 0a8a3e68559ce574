"""predict_published.py MODEL OUT.gguf ...: writes a small model of holes, as predict-published.py asks for models.
predict_published.py rows OUT.json: writes two rows.
predict_published.py larger FOLDER: checks that changed formats made the model's file larger."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "gpu-kit"))
import shapes

what, path = sys.argv[1:3]
if what == "rows":
    row = {"model": "tiny", "quant": "Q4_K_M", "options": ["--cpu-moe"], "ubatch": 256, "types": [["_exps", "Q8_0"]], "prompt": 100}
    with open(path, "w") as file:
        json.dump([{**row, "name": "here", "machine": "4090+xeon", "engine": "ik", "decode": 50, "source": "ours"},
                   {**row, "name": "there", "machine": "4090+2xepyc-9115", "engine": "llama.cpp", "source": "theirs"}], file)
elif what == "larger":
    sizes = sorted(os.path.getsize(os.path.join(path, name)) for name in os.listdir(path) if name.endswith(".gguf"))
    assert len(sizes) == 2 and sizes[1] > 1.2 * sizes[0], sizes
else:
    shapes.write(what, path)
