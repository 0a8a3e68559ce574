"""Writes the report of a run on an H100, with figures of test/bench/results, and the simulated times of some rows."""
import json
import sys

folder = sys.argv[1]
device = {"probe": "device", "name": "NVIDIA H100 80GB HBM3", "arch": 90, "driver": 13000}
probes = [{"probe": "graph_node", "value": 1.0, "unit": "us"}, {"probe": "read_by_kernel", "value": 3010.0, "unit": "GB/s"},
          {"probe": "copy_to_device", "value": 55.0, "unit": "GB/s"}, {"probe": "zero_copy_by_kernel", "value": 52.0, "unit": "GB/s"},
          {"probe": "small_copy_and_wait", "value": 9.5, "unit": "us"}, {"probe": "pinning", "error": "no memory"}]
rows = [{"row": "node", "us": 1.0}, {"row": "linear q4_k 8192x7168 T=1", "us": 14.1, "gbps": 2342.0, "tops": 8.3},
        {"row": "linear q8_0 8192x7168 T=1", "us": 25.2, "gbps": 2480.0, "tops": 4.7},
        {"row": "linear q4_k 8192x7168 T=512", "us": 452.0, "gbps": 73.0, "tops": 133.0},
        {"row": "latent BF16 heads=16 context=32768 splits=128", "us": 30.4, "gbps": 1242.0, "tops": 38.0}]
bench = {"weights": "random", "bench": [{"test": "decode", "depth": 4096, "threads": 16, "tokens_per_second": 210.5}],
         "decode_without_prefetch": 180.25,
         "by_part": [{"phase": "decode", "part": "ffn_experts", "predicted_ms": 1.25, "measured_ms": 1.5}]}


def line(part, step, figures, **more):
    return {"part": part, "step": step, "limit": 60, "status": "ok", "figures": figures, "seconds": 1, **more}


head = {"part": "head", "gpu": "driver", "target": "h100+xeon", "kit": "x", "notes": []}
lines = [head, line("correctness", "machine", {"probes": [device]}), line("speed", "cuda_bench", None, status="timeout"),
         line("speed", "memory, link and pinning", probes), line("speed", "cuda_bench", {"rows": rows, "clocks": {}}),
         line("speed", "moert bench v2-lite-hybrid", bench)]
with open(f"{folder}/report.jsonl", "w") as file:
    file.write("".join(json.dumps(each) + "\n" for each in lines) + '{"part": "speed", "st')
with open(f"{folder}/software.jsonl", "w") as file:
    file.write("".join(json.dumps(each) + "\n" for each in [{**head, "gpu": "software"}, *lines[1:]]))
with open(f"{folder}/clock.jsonl", "w") as file:
    for gpu, seconds in (("4090", 30e-6), ("H100", 15.51e-6)):
        file.write(json.dumps({"gpu": gpu, "row": "linear q4_k 8192x7168 T=1", "seconds": seconds, "launches": []}) + "\n")
