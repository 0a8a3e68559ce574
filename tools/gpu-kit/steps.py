"""The steps of gpu-kit.sh run, by part and in order of worth: (name, seconds, what it does with a Kit)."""
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time

import run
import speed

HERE = os.path.dirname(os.path.abspath(__file__))


def of(part, kit):
    return correctness(kit) if part == "correctness" else speed.of(kit)


def correctness(kit):
    yield "machine", 20, machine
    for unit in kit.kit["units"]:
        yield f"unit plan {unit['name']}", 30, lambda kit, unit=unit: unit_plan(kit, unit)
    yield "flags and patterns", 60, flags
    yield "greedy text three times", 60, greedy
    yield "the same text by flags, host and walk", 60, meetings
    yield "cancel inside a step", 40, cancel
    yield "fused launches", 90, lambda kit: tests(
        kit, "CudaFuseTest", "FuseTest.SmallOnesInOneBlock:FuseTest.HeadsAreRotated*", 1)
    yield "conformance", 240, lambda kit: tests(
        kit, "CudaConformanceTest", "Kernels/RmsNormTest.*:Kernels/CombineSplitsTest.*", 4)
    yield "device tests", 90, lambda kit: tests(
        kit, "moe_cuda_device_tests", "*/CudaDeviceTest.DecodeMatchesFloat64/Early", 2, "--driver", kit.driver)
    yield "instructions against the software GPU", 90, instructions


#
# Machine
#

def text_of(*words):
    try:
        return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=5).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return None


def machine(kit):
    """Versions and clocks."""
    query = "name,driver_version,pstate,clocks.sm,clocks.max.sm,clocks.mem,clocks.max.mem,power.limit,temperature.gpu"
    figures = {"nvidia_smi": text_of("nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"),
               "cpu": (re.search(r"model name\s*: (.*)", open("/proc/cpuinfo").read()) or [0, "unknown"])[1],
               "memory": (re.search(r"MemTotal:\s*(.*)", open("/proc/meminfo").read()) or [0, "unknown"])[1],
               "glibc": os.confstr("CS_GNU_LIBC_VERSION"), "python": sys.version.split()[0]}
    figures["devices"] = json.loads(kit.run(kit.moert, "devices", "--json"))
    figures["probes"] = probe(kit, "device") if kit.nvrtc else []
    return figures


def probe(kit, *names):
    """Lines of gpu_probe, which measures each in a process of its own: one that hangs leaves the others their figures."""
    if not kit.nvrtc:
        raise run.Skipped("this machine has no NVRTC")
    found, wrong = [], []
    for name in names:
        try:
            output = kit.run(kit.program("gpu_probe"), "--driver", kit.driver, *(["--small"] if kit.software else []), name,
                             may_fail=True)
        except run.TimedOut as error:
            raise run.TimedOut(f"{name}: {error}", found) from None
        lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        found += lines
        wrong += [f"{line['probe']}: {line['error']}" for line in lines if "error" in line] or ([] if lines else [name])
    if wrong:
        raise run.Failed("; ".join(wrong), found)
    return found


def flags(kit):
    """Latency of flags both ways, by kernels and by nodes of graphs; a million patterns that must arrive whole."""
    return probe(kit, "flags", "nodes", "patterns")


#
# Plans
#

def unit_plan(kit, unit):
    """Logits of a small model against those of a float64 reference, and what it would say next."""
    figures, plan, ids, greedy = {}, kit.plan(unit["plan"]), unit["ids"], unit["greedy"]
    modes = unit["modes"]
    if kit.software:  # The software GPU needs half a second for a token with waits between CPU and GPU.
        modes, greedy = modes[:1], []
    for mode in modes:
        out = os.path.join(kit.logs, f"{unit['name']}-{mode}.npy")
        fed = {"step": ["--step"], "beside": ["--beside", "3"]}.get(mode, [])
        kit.run(kit.moert, "logits", plan, "--tokens", commas(ids + greedy[:-1]), "--out", out, "--force", *fed)
        bounds = ["--rel", "1e-4", *(["--greedy", commas(greedy)] if greedy else [])]
        output = kit.run(sys.executable, "-B", os.path.join(HERE, "compare_logits.py"), out, kit.plan(unit["reference"]),
                         "--ids", commas(ids), *bounds, may_fail=True)
        os.remove(out)
        error = re.search(r"relative error: (\S+) \((\w+)", output)
        figures[mode] = {"relative_error": float(error[1]) if error else None}
        if greedy:
            figures[mode]["greedy"] = "greedy: equal" in output
        if not error or error[2] != "within" or not figures[mode].get("greedy", True):
            raise run.Failed(f"{mode}: other logits than the reference's", figures)
    return figures


def commas(numbers):
    return ",".join(map(str, numbers))


def text_words(kit, tokens):
    long = kit.kit["greedy"]
    prompt = long["prompt"][:1] if kit.software else long["prompt"]
    return [kit.moert, "run", kit.plan(long["plan"]), "-p", prompt, "-n", tokens, "--temp", "0", "--ignore-eos"]


def greedy(kit):
    """The same text each time: nothing may depend on timing, in a plan whose layers wait for each other by flags."""
    tokens, sums, seconds = 2 if kit.software else 2000, [], []
    for _ in range(3):
        begin = time.time()
        sums.append(hashlib.sha256(kit.run(*text_words(kit, tokens)).encode()).hexdigest()[:16])
        seconds.append(round(time.time() - begin, 2))
    figures = {"tokens": tokens, "sha256": sums, "seconds": seconds}
    if len(set(sums)) > 1:
        raise run.Failed("three runs gave different texts", figures)
    return figures


def meetings(kit):
    """The ways in which a GPU and CPUs can wait for each other within a step."""
    if "--gpu-meeting" not in kit.run(kit.moert, "run", "--help"):
        raise run.Skipped("moert has no --gpu-meeting")
    tokens, figures = 2 if kit.software else 500, {}
    for meeting in ("flags", "host", "walk"):
        begin = time.time()
        text = kit.run(*text_words(kit, tokens), "--gpu-meeting", meeting)
        figures[meeting] = {"sha256": hashlib.sha256(text.encode()).hexdigest()[:16], "seconds": round(time.time() - begin, 2)}
    if len({each["sha256"] for each in figures.values()}) > 1:
        raise run.Failed("they gave different texts", figures)
    return figures


def cancel(kit):
    """An interrupt in the middle of steps ends the program at once, and the GPU then works as before."""
    waits, late = [], 0
    for i in range(1 if kit.software else 10):
        process = kit.start(text_words(kit, 2200))
        # Waits for the first text, so that the interruption is in a step.
        process.stdout.read(1)
        time.sleep(0.007 * i)
        begin = time.time()
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=min(20, kit.left()))
        except subprocess.TimeoutExpired:
            kit.end(process)
            process.communicate()
            raise run.Failed("an interrupted run did not end", {"seconds": waits}) from None
        if process.returncode == 130:
            waits.append(round(time.time() - begin, 3))
        elif process.returncode == 0:
            late += 1  # The text ended before the interruption.
        else:
            raise run.Failed(f"an interrupted run ended with {process.returncode}, not 130", {"seconds": waits})
    if not waits:
        raise run.Failed("no run was interrupted before its end")
    if not kit.software:
        kit.run(*text_words(kit, 2))
    return {"seconds": waits, "too_late": late}


#
# Tests
#

def tests(kit, program, small, shards, *on_gpu):
    """GoogleTest programs, in parts that run beside each other; on the software GPU only those named `small`."""
    if not kit.nvrtc:
        raise run.Skipped("this machine has no NVRTC")
    words = [kit.program(program), "--gtest_color=no", "--gtest_brief=0"]
    if kit.software:
        words, shards = words + [f"--gtest_filter={small}"], 1
    else:
        words += on_gpu
    text, was_cut = together(kit, words, shards)
    figures = {"on": sorted(set(re.findall(r"^on (.*)$", text, re.M))),
               "ok": len(re.findall(r"^\[       OK \] .*\)$", text, re.M)),
               "failed": sorted(set(re.findall(r"^\[  FAILED  \] (\S+?),? .*\(\d+ ms\)$", text, re.M))),
               "skipped": len(re.findall(r"^\[  SKIPPED \] .*\)$", text, re.M)),
               "finished": len(re.findall(r"^\[==========\] .* ran\.", text, re.M)) == shards}
    if figures["failed"]:
        raise run.Failed(f"{len(figures['failed'])} tests failed", figures)
    if was_cut:
        raise run.TimedOut("the limit ended it", figures)
    if not figures["finished"]:
        raise run.Failed("it ended before its tests had", figures)
    if not figures["ok"]:
        raise run.Failed("no test ran", figures)
    return figures


def together(kit, words, shards):
    """Runs the parts of a GoogleTest program beside each other; returns what they printed, and whether the limit cut it."""
    # Output goes to files, because a pipe that nobody reads would hold a part up.
    paths = [f"{kit.log.name}.{number}" for number in range(shards)]
    processes, was_cut = [], False
    for number, path in enumerate(paths):
        with open(path, "w") as file:
            processes.append(kit.start(words, stdout=file, GTEST_TOTAL_SHARDS=str(shards), GTEST_SHARD_INDEX=str(number)))
    for process in processes:
        try:
            process.wait(timeout=kit.left())
        except subprocess.TimeoutExpired:
            kit.end(process)
            process.wait()
            was_cut = True
    text = "".join(open(path, errors="replace").read() for path in paths)
    kit.log.write(text)
    for path in paths:
        os.remove(path)
    return text, was_cut


def instructions(kit):
    """Every instruction of the software GPU's suite through the driver. KernelTest reads its sources from a checkout."""
    words = [kit.program("moe_softgpu_tests"), "--gtest_color=no", "--driver", kit.driver]
    small, whole = "MatrixTest.*:MemoryTest.NarrowLoadsExtend", "-KernelTest.*:*/KernelTest.*"
    words.append("--gtest_filter=" + (small if kit.software else whole))
    output, was_cut = together(kit, words, 1)
    figures = {"ok": len(re.findall(r"^\[       OK \] .*\)$", output, re.M)),
               "failed": sorted(set(re.findall(r"^\[  FAILED  \] (\S+?),? .*\(\d+ ms\)$", output, re.M)))}
    if figures["failed"] or not figures["ok"]:
        raise run.Failed("not all instructions gave the same", figures)
    if was_cut:
        raise run.TimedOut("the limit ended it", figures)
    if " ran." not in output:
        raise run.Failed("it ended before its tests had", figures)
    return figures
