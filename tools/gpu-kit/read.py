"""gpu-kit.sh read: measured beside predicted times, kernel by kernel, and a target with what was measured."""
import json
import os
import re
import statistics
import subprocess

import report


class Problem(Exception):
    pass


def figures_of(steps, name):
    for line in steps:
        if line["step"] == name:
            return line.get("figures") or []
    return []


class Measured:
    def __init__(self, path):
        try:
            self.report = report.read(path)
        except OSError as error:
            raise Problem(str(error)) from None
        steps = self.report["steps"]
        if not steps:
            raise Problem(f"{path} has no steps of a run")
        if self.report["head"].get("gpu") == "software":
            raise Problem(f"{path} is of the software GPU, whose times mean nothing")
        machine = figures_of(steps, "machine")
        probes = (machine.get("probes", []) if isinstance(machine, dict) else []) + [
            *figures_of(steps, "memory, link and pinning"), *figures_of(steps, "flags and patterns")]
        self.probes = {line["probe"]: line for line in probes if "error" not in line}
        self.rows = (figures_of(steps, "cuda_bench") or {"rows": []})["rows"]
        self.speed = [line for line in steps if isinstance(line.get("figures"), dict) and line["figures"].get("bench")]

    def probe(self, name):
        return self.probes[name]["value"] if name in self.probes else None


def target_of(arguments, measured):
    """The description that is calibrated, and its GPU."""
    name = arguments.target or measured.report["head"].get("target", "")
    if os.path.exists(name):
        with open(name) as file:
            text = file.read()
    else:
        moec = os.path.join(arguments.build, "bin", "moec")
        try:
            done = subprocess.run([moec, "targets", name, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        except OSError as error:
            raise Problem(f"{moec}: {error.strerror}; give --build, or a file as --target") from None
        if done.returncode != 0:
            raise Problem(done.stderr.strip())
        text = done.stdout
    target = json.loads(text)
    gpus = [device for device in target["devices"] if device["kind"] == "cuda"]
    if not gpus:
        raise Problem(f"{name} has no GPU")
    device = measured.probes.get("device")
    if device and gpus[0]["arch"] != device["arch"]:
        raise Problem(f"the report is of {device['name']} (sm_{device['arch']}), and {name}'s GPU is sm_{gpus[0]['arch']}: "
                      "name its target with --target")
    return target, gpus[0]


def simulated_of(arguments, gpu):
    """Seconds by row as the clock of the software GPU predicts them; {} without it."""
    name = gpu["model"].split("-")[0].upper()  # The simulation knows a single kind of A100.
    if arguments.clock:
        with open(arguments.clock) as file:
            text = file.read()
    else:
        clock = os.path.join(arguments.build, "bin", "cuda_clock")
        if not os.path.exists(clock):
            return {}
        print("simulating, which takes minutes (--clock FILE takes what cuda_clock --json printed)", flush=True)
        text = subprocess.run([clock, "--gpu", name, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True).stdout
    rows = {}
    for line in text.splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            if row.get("gpu", name) == name:
                rows[row["row"]] = row["seconds"]
    return rows


def bound_of(row, gpu):
    """Seconds of a row at the published rates of memory and of what multiplies, whichever is longer."""
    seconds = row["us"] * 1e-6
    peak = gpu["float_tflops"] if re.search(r"\b(f16|bf16|f32|latent|attention)\b", row["row"]) else gpu["int8_tops"]
    return seconds * max(row.get("gbps", 0) / gpu["read_gbps"], row.get("tops", 0) / peak)


def print_rows(measured, gpu, simulated):
    """Returns the ratios of simulated to measured time."""
    ratios = []
    print(f"\n{'kernel':44} {'measured us':>12} {'simulated us':>13} {'ratio':>6} {'bound us':>9} {'of bound':>8}")
    for row in measured.rows:
        bound = bound_of(row, gpu) * 1e6
        cells = f"{row['row']:44} {row['us']:12.2f}"
        if row["row"] in simulated:
            ratios.append(simulated[row["row"]] * 1e6 / row["us"])
            cells += f" {simulated[row['row']] * 1e6:13.2f} {ratios[-1]:6.2f}"
        else:
            cells += f" {'-':>13} {'-':>6}"
        print(cells + (f" {bound:9.2f} {100 * bound / row['us']:6.0f} %" if bound else ""))
    if ratios:
        off = sorted(abs(ratio - 1) for ratio in ratios)
        print(f"simulated beside measured: {len(off)} rows, median {100 * statistics.median(off):.0f} % off, "
              f"most {100 * off[-1]:.0f} %")
    return ratios


def print_probes(measured):
    print()
    for name, line in measured.probes.items():
        if "value" in line:
            more = ", ".join(f"{key} {value}" for key, value in line.items() if key not in ("probe", "value", "unit"))
            print(f"{name:28} {line['value']:12.4g} {line['unit']:10} {more}".rstrip())


def print_speed(measured):
    for line in measured.speed:
        print(f"\n{line['step']}")
        for row in line["figures"]["bench"]:
            print(f"  {row['test']:7} depth {row['depth']:6} threads {row['threads']:3} "
                  f"{row['tokens_per_second']:10.2f} tokens/s")
        if "decode_without_prefetch" in line["figures"]:
            print(f"  decode without prefetch into L2: {line['figures']['decode_without_prefetch']:.2f} tokens/s")
        for row in line["figures"]["by_part"]:
            if (row["measured_ms"] or 0) + (row["predicted_ms"] or 0) >= 0.01:
                print(f"  {row['phase']:9} {row['part']:32} predicted {shown(row['predicted_ms'])} ms, "
                      f"measured {shown(row['measured_ms'])} ms")


def shown(value):
    return f"{value:9.3f}" if value is not None else f"{'-':>9}"


def share(value, peak):
    return round(min(1, max(0.01, value / peak)), 3)


def calibrate(measured, gpu):
    """Writes what was measured over what was published or guessed; returns the names of what changed."""
    device, changed = measured.probes.get("device", {"name": "the lent GPU", "driver": 0}), []
    origin = f"measured by gpu-kit on {device['name']}, driver {device['driver']}"

    def put(key, value, source=None, basis=False):
        if key in gpu and gpu[key] == value:
            return
        changed.append(f"{key}: {gpu.get(key)} -> {value}")
        gpu[key] = value
        if source:
            peak = key.split("_")[0]
            gpu[f"{peak}_source"] = source
            if basis:
                gpu[f"{peak}_basis"] = "measured"

    if read := measured.probe("read_by_kernel"):
        put("read_gbps", round(read, 1), f"{origin}: a kernel that reads")
    decode = [row["gbps"] for row in measured.rows if re.fullmatch(r"linear q\S+ 8192x7168 T=1", row["row"])]
    if decode:
        put("read_efficiency", share(statistics.median(decode), gpu["read_gbps"]),
            f"{origin}: a kernel that reads; efficiency: products of one row of 8192 x 7168, the median of formats", True)
    prefill = [row["tops"] for row in measured.rows if re.fullmatch(r"linear q\S+ 8192x7168 T=512", row["row"])]
    if prefill:
        put("int8_efficiency", share(statistics.median(prefill), gpu["int8_tops"]),
            f"vendor; efficiency {origin}: products of 512 rows of 8192 x 7168, the median of formats", True)
    if link := measured.probe("copy_to_device"):
        put("link_gbps", round(link, 2), f"{origin}: the copy engine")
        if zero_copy := measured.probe("zero_copy_by_kernel"):
            put("link_efficiency", share(zero_copy, link),
                f"{origin}: the copy engine; efficiency: a kernel that reads pinned memory", True)
    if wait := measured.probe("small_copy_and_wait"):
        put("link_latency_us", round(wait, 2))
    if node := measured.probe("graph_node"):
        put("instruction_us", round(node, 3))
    if changed:
        gpu["source"] = origin
    return changed


def main(arguments):
    measured = Measured(arguments.report)
    target, gpu = target_of(arguments, measured)
    print(f"{measured.probes.get('device', {}).get('name', 'a GPU')} beside target {target['name']}")
    simulated = simulated_of(arguments, gpu)
    if not simulated:
        print("no simulated times: build cuda_clock, or give --clock; the clock does not know every GPU")
    print_rows(measured, gpu, simulated)
    print_probes(measured)
    print_speed(measured)
    changed = calibrate(measured, gpu)
    print("\ncalibrated:" if changed else "\nnothing was measured that a target has")
    for line in changed:
        print(f"  {line}")
    if arguments.output and changed:
        target["name"] += ", measured"
        with open(arguments.output, "w") as file:
            json.dump(target, file, indent=2)
            file.write("\n")
        print(f"wrote {arguments.output}, for moec compile --target-file")
    return 0
