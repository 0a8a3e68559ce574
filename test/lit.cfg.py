"""Tests of what the tools print: dialects, passes, models, compile, e2e."""
import ctypes
import glob
import importlib.util
import mmap
import json
import os
import shutil
import subprocess
import sys

import lit.formats

config.name = "moe"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
# Tests of GoogleTest, and what tests share. data/unit has a format of its own, in its lit.local.cfg.
config.excludes = ["kernels", "support", "bench"]
config.test_source_root = config.source_dir + "/test"
config.test_exec_root = config.build_dir + "/test"

# The instruction sets of this machine, for tests of plans for it or for another one.
try:
    flags = set(open("/proc/cpuinfo").read().split())
except OSError:
    flags = set()

# --param isa=NAME: moec and moert as on a CPU that has this instruction set and those that it runs, and no other
# (`tools/test.sh --isa`). Where this CPU lacks it, a software CPU executes what moert runs.
isa = lit_config.params.get("isa")
if isa:
    config.available_features.add("isa-option")  # Messages and the programs' paths contain the option.
FLAG_OF = {"avx2": "avx2", "avxvnni": "avx_vnni", "avx512": "avx512_vnni", "amx": "amx_tile"}
config.tools_dir = config.bin_dir
if isa:
    config.tools_dir = f"{config.build_dir}/isa-{isa}"
    os.makedirs(config.tools_dir, exist_ok=True)
    is_soft = isa != "ref" and FLAG_OF[isa] not in flags
    for name, program in (("moec", "moec"), ("moert", "moert-soft" if is_soft else "moert")):
        path = f"{config.tools_dir}/{name}"
        with open(f"{path}.{os.getpid()}", "w") as script:
            script.write(f'#!/bin/sh\nexec {config.bin_dir}/{program} --isa {isa} "$@"\n')
        os.chmod(script.name, 0o755)
        os.replace(script.name, path)

# Our tools first, then FileCheck and not, then the system's, of which some are for administrators.
config.environment["PATH"] = os.pathsep.join(
    [config.tools_dir, config.bin_dir, config.llvm_tools_dir, config.environment.get("PATH", ""), "/usr/sbin"])

# Folder where moec keeps its measurements of this machine: they are made once per build.
config.environment["XDG_CACHE_HOME"] = config.build_dir + "/cache"
native = f"native-{isa}.json" if isa else "native.json"


# Here rather than by the first test, as moec does not keep what it measures
# while tests keep the machine busy, and by tests' standards any figures do.
# Without rates of kernels: instruction sets choose, whoever is faster today.
def measure_once(folder):
    path = folder + "/moec/" + native
    if os.path.exists(path) and '"kernels": []' in open(path).read():
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    measured = subprocess.run([config.tools_dir + "/moec", "targets", "native", "--json"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    target = json.loads(measured.stdout)
    for device in target["devices"]:
        device["kernels"] = []
    own = f"{path}.{os.getpid()}"
    with open(own, "w") as file:
        json.dump(target, file)
    os.replace(own, path)


measure_once(config.environment["XDG_CACHE_HOME"])

if "amx_tile" in flags and isa in (None, "amx"):
    config.available_features.add("amx")
if "avx512_vnni" in flags and isa in (None, "avx512", "amx"):
    config.available_features.add("avx512")
# moert-soft executes AVX-512 itself or in software, where code may be written.
def writes_code():
    try:
        mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()
        return True
    except OSError:
        return False


is_soft_cpu = config.has_soft_cpu and "avx2" in flags and writes_code()
if "avx512_vnni" in flags or is_soft_cpu:
    config.available_features.add("soft-avx512")
if "avx_vnni" in flags or is_soft_cpu:
    config.available_features.add("soft-avxvnni")

# moert for aarch64 (tools/cross-aarch64.sh), by an emulator that has CPUs with and without I8MM: %aarch64/moert-CPU.
arm_cpus = ("max", "neoverse-n1")
arm_build = config.source_dir + "/build-aarch64"
if os.path.exists(arm_build + "/bin/moert") and shutil.which("qemu-aarch64"):
    root = next(line.split("=", 1)[1].strip() for line in open(arm_build + "/CMakeCache.txt") if line.startswith("MOE_SYSROOT:"))
    os.makedirs(config.build_dir + "/aarch64", exist_ok=True)
    for cpu in arm_cpus:
        path = f"{config.build_dir}/aarch64/moert-{cpu}"
        with open(f"{path}.{os.getpid()}", "w") as script:
            script.write(f'#!/bin/sh\nexec qemu-aarch64 -cpu {cpu} -L {root} {arm_build}/bin/moert "$@"\n')
        os.chmod(script.name, 0o755)
        os.replace(script.name, path)
    config.available_features.add("aarch64")

# The PyPI package gguf, which decodes and writes formats, with those of late.
def has_gguf():
    try:
        import gguf.quants
        return hasattr(gguf.quants, "NVFP4")
    except ImportError:
        return False


# Whether a model of tools/get-model.sh is in the build folder, or could be fetched
# into it just now.
def fetches(name):
    return subprocess.run([config.source_dir + "/tools/get-model.sh", name, config.build_dir + "/fetched"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


# Programs for which tools/deploy has files, and that builds use.
config.available_features.update(
    name for name in ("ccache", "haproxy", "nginx", "systemd-analyze") if shutil.which(name, path=config.environment["PATH"]))

if importlib.util.find_spec("yaml"):
    config.available_features.add("python-yaml")

# The PyPI package that judges JSON schemas.
if importlib.util.find_spec("jsonschema"):
    config.available_features.add("python-jsonschema")

# Tests that take minutes: `ctest -L nightly`.
if lit_config.params.get("nightly"):
    config.available_features.add("nightly")
    if has_gguf():
        config.available_features.add("gguf-python")
    # The PyPI packages of clients that servers are driven with.
    if all(map(importlib.util.find_spec, ("openai", "anthropic", "ollama", "langchain_openai", "langchain_anthropic",
                                           "langchain_ollama"))):
        config.available_features.add("api-clients")
    # The PyPI package ray[serve], for the example that serves with it.
    if all(map(importlib.util.find_spec, ("ray", "starlette"))):
        config.available_features.add("ray")
    # The PyPI packages that have the models' own classes.
    if all(map(importlib.util.find_spec, ("numpy", "torch", "transformers"))):
        config.available_features.add("transformers")
    # The PyPI package xllamacpp, which brings llama.cpp to compare with.
    if importlib.util.find_spec("xllamacpp"):
        config.available_features.add("xllamacpp")
    if {"xllamacpp", "api-clients"} & config.available_features:
        config.available_features.update(filter(fetches, ("smollm2", "gemma3")))

# If there may be a GPU, the measurements depend on it.
if os.path.exists("/dev/nvidiactl"):
    config.available_features.add("gpu")

# Kernels of GPUs are compiled by NVRTC. tools/install-deps.sh puts one into the
# user's cache folder, where tests look in theirs.
def find_nvrtc(folder):
    user = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    installed, link = user + "/moec/nvrtc", folder + "/moec/nvrtc"
    if os.path.isdir(installed) and not os.path.lexists(link):
        try:
            os.symlink(installed, link)
        except FileExistsError:
            pass # Another lit process has created it.
    names = [place + "libnvrtc.so." + version for version in ("13", "12")
             for place in ("", "/usr/local/cuda/lib64/", *glob.glob(link + "/nvidia/*/lib/"))]
    for name in names:
        try:
            ctypes.CDLL(name)
            return name
        except OSError:
            pass
    return None


nvrtc = find_nvrtc(config.environment["XDG_CACHE_HOME"])
if nvrtc:
    config.available_features.add("nvrtc")

# The page of explain --html is used in a browser, where there is one.
sys.path.insert(0, config.source_dir + "/test/support")
import browser

if browser.find():
    config.available_features.add("browser")

# Programs, and Python from a wheel, load the shared library, unless it is
# sanitized.
if os.path.exists(config.build_dir + "/lib/libmoert.so") and not config.sanitized:
    config.available_features.add("shared-library")

# Preloaded libraries do not work together with a sanitizer's runtime.
if os.path.exists(config.bin_dir + "/libmoe_faults.so"):
    config.available_features.add("faults")

# Sanitizers take address space that no limit can leave out.
if config.sanitized:
    config.available_features.add("sanitized")

config.substitutions += [
    # The tools, for a test's own script.
    ("%bin", config.bin_dir),
    ("%build", config.build_dir),
    # lit itself, for the test of a format of tests.
    ("%lit", os.path.dirname(lit.__path__[0]) + "/lit.py"),
    ("%fetched", config.build_dir + "/fetched"),
    # Models drawn from recipes, archives unpacked, and links to tracked files: see test/data/CMakeLists.txt.
    ("%data", config.build_dir + "/test/data"),
    ("%models", config.source_dir + "/models"),
    ("%nvrtc", nvrtc or "no-nvrtc"),
    # A CUDA driver with one GPU, in software.
    ("%softcuda", config.build_dir + "/test/softgpu/libmoe_softcuda.so"),
    ("%python", config.python),
    ("%fidelity", f"{config.python} {config.source_dir}/test/e2e/fidelity.py"
                  f" --moec {config.tools_dir}/moec --moert {config.tools_dir}/moert"),
    # Runs moert as on a CPU with AVX-512 and AMX, if need be in software.
    ("%soft_fidelity", f"{config.python} {config.source_dir}/test/e2e/fidelity.py"
                      f" --moec {config.bin_dir}/moec --moert {config.bin_dir}/moert-soft"),
    *((f"%aarch64_fidelity-{cpu}", f"{config.python} {config.source_dir}/test/e2e/fidelity.py"
       f" --moec {config.bin_dir}/moec --moert {config.build_dir}/aarch64/moert-{cpu}") for cpu in arm_cpus),
    ("%aarch64", config.build_dir + "/aarch64"),
]
