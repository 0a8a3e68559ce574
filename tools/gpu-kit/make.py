"""gpu-kit.sh make: a folder with binaries, their libraries, plans and golden logits."""
import ast
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import shapes

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
MOST_BYTES = 60 << 20

PROGRAMS = ["moert", "moert-soft", "moe-random-weights", "gpu_probe", "cuda_bench", "CudaConformanceTest", "CudaFuseTest",
            "moe_softgpu_tests", "moe_cuda_device_tests"]
SOFTWARE_DRIVER = "test/softgpu/libmoe_softcuda.so"
# Libraries that every Linux has in the version that the programs need, or newer.
OF_THE_SYSTEM = re.compile(r"(linux-vdso|ld-linux|libc\.so|libm\.so|libdl\.so|libpthread\.so|librt\.so)")

LITE_IDS = [3, 10, 17, 24, 200, 45, 99, 120, 7, 7, 301, 64]
ALL_ON_GPU = ["--place", "*=gpu0"]
EXPERTS_ON_CPU = [*ALL_ON_GPU, "--place", "blk.*.ffn_experts=cpu0"]
# Name, model of test/data/unit, options of moec, modes of moert logits, context.
UNITS = [
    ("gpu-alone", "deepseek2-lite", ALL_ON_GPU, ["prefill", "step"], 64),
    ("hybrid", "deepseek2-lite", EXPERTS_ON_CPU, ["prefill", "step"], 64),
    ("hot-experts", "deepseek2-lite",
     [*EXPERTS_ON_CPU, "--place", "blk.*.ffn_experts=gpu0:3", "--router-profile", "PROFILE"], ["prefill", "step"], 64),
    ("streamed-experts", "deepseek2-lite", [*EXPERTS_ON_CPU, "--stream-experts", "2"], ["prefill"], 64),
    ("four-sequences", "deepseek2-lite", [*EXPERTS_ON_CPU, "--sequences", "4"], ["beside"], 64),
    ("grouped-heads", "gpt-oss", ALL_ON_GPU, ["prefill", "step"], 64),
    ("delta-nets", "qwen35moe", ALL_ON_GPU, ["prefill", "step"], 128),
    ("sparse-attention", "deepseek32", ALL_ON_GPU, ["prefill", "step"], 128),
]
SMALL_UNITS = 5
# Name, shape, layers (0: all), options, depths, whether threads N - 1 are measured too.
DEPTHS = [0, 4096, 16384]
SPEED = [
    ("tiny", "tiny", 0, ALL_ON_GPU, [0, 8], True),
    ("v2-lite-gpu", "deepseek-v2-lite", 0, ALL_ON_GPU, DEPTHS, False),
    ("v2-lite-hybrid", "deepseek-v2-lite", 0, EXPERTS_ON_CPU, DEPTHS, True),
    ("qwen3-30b-gpu", "qwen3-30b-a3b", 0, ALL_ON_GPU, DEPTHS, False),
    ("v2-lite-streamed", "deepseek-v2-lite", 0, [*EXPERTS_ON_CPU, "--stream-experts", "auto"], [0], False),
    ("v3-6-layers-hybrid", "deepseek-v3", 6, EXPERTS_ON_CPU, DEPTHS, True),
    ("gpt-oss-20b-gpu", "gpt-oss-20b", 0, ALL_ON_GPU, DEPTHS, False),
]


class Problem(Exception):
    pass


def call(*words, **options):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    if done.returncode != 0:
        raise Problem(f"{' '.join(map(str, words))} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Maker:
    def __init__(self, arguments):
        self.build, self.small = os.path.abspath(arguments.build), arguments.small
        self.folder, self.target = os.path.abspath(arguments.folder), arguments.target
        self.moec = os.path.join(self.build, "bin", "moec")
        self.unit_data = os.path.join(self.build, "test", "data", "unit")
        self.work = os.path.join(self.folder, "work")  # Folder that is unpacked when the kit runs.

    def make(self):
        self.check()
        self.stage()
        self.code()
        kit = {"version": 1, "small": self.small, "target": self.target, "commit": self.commit(),
               "glibc": os.confstr("CS_GNU_LIBC_VERSION"), "units": self.units(),
               "greedy": self.greedy(), "speed": self.speed(),
               "notes": ["moec is not in the kit: with LLVM's and MLIR's libraries it would exceed 60 MiB. Plans were "
                         "compiled where the kit was made.",
                         "NVRTC is not in the kit: conformance, fused launches and cuda_bench need the machine's."]}
        with open(os.path.join(self.folder, "kit.json"), "w") as file:
            json.dump(kit, file, indent=1)
        if not self.small:
            self.pack()
        print(f"{self.folder}: {self.size() / 2**20:.1f} MiB"
              f"{', links into the build' if self.small else ''}; bring it there and call ./gpu-kit.sh run")

    def check(self):
        missing = [name for name in ["moec", *PROGRAMS] if not os.path.exists(os.path.join(self.build, "bin", name))]
        if missing:
            raise Problem(f"{self.build} lacks {', '.join(missing)}; "
                          f"run: cmake --build {self.build} --target {' '.join(missing)}")
        if not os.path.exists(os.path.join(self.unit_data, "deepseek2-lite.logits.npy")):
            raise Problem(f"{self.unit_data} is empty; run: cmake --build {self.build} --target test_data")
        is_kit = os.path.exists(os.path.join(self.folder, "gpu-kit.sh"))  # Also true for a kit whose making was interrupted.
        if os.path.exists(self.folder) and not is_kit and os.listdir(self.folder):
            raise Problem(f"{self.folder} is there and is no kit")

    def commit(self):
        done = subprocess.run(["git", "-C", SOURCE, "describe", "--always", "--dirty"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
        return done.stdout.strip()

    def stage(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        for part in ("bin", "lib", "plans"):
            os.makedirs(os.path.join(self.work, part))
        shutil.copy(os.path.join(os.path.dirname(HERE), "gpu-kit.sh"), self.folder)
        shutil.copytree(HERE, os.path.join(self.folder, "gpu-kit"), ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(os.path.join(SOURCE, "test", "e2e", "compare_logits.py"), os.path.join(self.folder, "gpu-kit"))

    def code(self):
        """Programs, and the libraries that a bare system lacks."""
        libraries = {}
        programs = [os.path.join(self.build, "bin", name) for name in PROGRAMS]
        driver = os.path.join(self.build, SOFTWARE_DRIVER)
        for path in [*programs, driver]:
            for line in call("ldd", path).splitlines():
                name, _, place = line.strip().partition(" => ")
                if place and not OF_THE_SYSTEM.match(name):
                    libraries[name] = place.split(" (")[0]
        libraries[os.path.basename(driver)] = driver
        for path in programs:
            self.take(path, os.path.join(self.work, "bin", os.path.basename(path)))
        for name, path in libraries.items():
            self.take(path, os.path.join(self.work, "lib", name))

    def take(self, path, to):
        if self.small:
            os.symlink(os.path.realpath(path), to)
            return
        shutil.copy(os.path.realpath(path), to)
        subprocess.run(["strip", to], stderr=subprocess.DEVNULL)

    #
    # Plans
    #

    def compile(self, model, plan, context, *options):
        """Compiles a model into a plan that needs no model file; returns what moec explains of it."""
        path = os.path.join(self.work, "plans", plan + ".fb")
        call(self.moec, "compile", model, *options, "--ctx", context, "--weights", "pack", "-o", path)
        return json.loads(call(self.moec, "explain", path, "--json"))

    def unit_target(self):
        """A GPU with the least shared memory, for which launches are chosen, with code for all others, beside any CPU."""
        path = os.path.join(self.work, "target.json")
        target = json.loads(call(self.moec, "targets", "4090+xeon", "--json"))
        for device in target["devices"]:
            if device["kind"] == "cpu":
                device["isa"] = "avx2"
            elif not self.small:
                device["arch"] = 86
        with open(path, "w") as file:
            json.dump(target, file)
        return ["--target-file", path, *([] if self.small else ["--gpu-arch", "80,89,90,120"])]

    def profile(self):
        path = os.path.join(self.work, "profile.json")
        script = os.path.join(SOURCE, "test", "compile", "router_profile.py")
        with open(path, "w") as file:
            file.write(call(sys.executable, script, "--hot", "--layers", "1,2", "--experts", "8", "--used", "3", "--mass",
                            "0.5,0.3,0.2"))
        return path

    def units(self):
        target, profile, made = self.unit_target(), self.profile(), []
        for name, model, options, modes, context in UNITS[:SMALL_UNITS] if self.small else UNITS:
            words = [profile if word == "PROFILE" else word for word in options]
            print(f"unit plan {name}")
            self.compile(os.path.join(self.unit_data, model + ".gguf"), name, context, *target, "--kv-type", "f32", *words)
            reference = os.path.join(self.work, "plans", model + ".logits.npy")
            shutil.copy(os.path.join(self.unit_data, model + ".logits.npy"), reference)
            ids, greedy = self.tokens(model)
            made.append({"name": name, "plan": name + ".fb", "reference": os.path.basename(reference), "modes": modes,
                         "ids": ids, "greedy": greedy})
        return made

    def tokens(self, model):
        """The ids that were fed, and how the reference goes on."""
        text = open(os.path.join(SOURCE, "test", "data", "unit", model + ".txt")).read()
        ids = re.search(r"^ids: (.*)$", text, re.M)
        greedy = ast.literal_eval(re.search(r"^greedy: (.*)$", text, re.M).group(1))
        return [int(word) for word in ids.group(1).split()] if ids else LITE_IDS, greedy

    def greedy(self):
        print("unit plan for long texts")
        self.compile(os.path.join(self.unit_data, "deepseek2-lite.gguf"), "long", 2304,
                     *self.unit_target(), *EXPERTS_ON_CPU)
        return {"plan": "long.fb", "prompt": "the quick brown fox"}

    def speed(self):
        """Plans of full size, whose weights are made where they run."""
        made = []
        for name, model, layers, options, depths, fewer in SPEED[:1] if self.small else SPEED:
            print(f"plan of full size {name}")
            with tempfile.TemporaryDirectory() as scratch:
                shape = os.path.join(scratch, model + ".gguf")
                shapes.write(model, shape, layers)
                target = self.target if not self.small else "4090+xeon"
                explained = self.compile(shape, name, max(depths) + 1024, "--target", target,
                                         "--blank-weights", *options)
            made.append({"name": name, "plan": name + ".fb", "depths": depths, "fewer_threads": fewer,
                         "weights": self.behead(name), "explained": shorten(explained)})
        return made

    def behead(self, name):
        """Keeps the header of a blank weights file in place of the file; returns its size and that of the file."""
        path = os.path.join(self.work, "plans", name + ".weights")
        with open(path, "rb") as file:
            header = b""
            while b"\0" not in header:  # The header is text, padded with zeros to whole pages.
                header += file.read(4096)
        size = os.path.getsize(path)
        os.remove(path)
        with open(os.path.join(self.work, "plans", name + ".header"), "wb") as file:
            file.write(header)
        return {"bytes": size}

    #
    # The folder
    #

    def pack(self):
        for part in ("bin", "lib", "plans"):
            print(f"packing {part}")
            with tarfile.open(os.path.join(self.folder, part + ".tar.xz"), "w:xz", preset=3) as archive:
                archive.add(os.path.join(self.work, part), part)
        shutil.rmtree(self.work)
        if self.size() > MOST_BYTES:
            raise Problem(f"{self.folder} has {self.size() / 2**20:.1f} MiB, more than 60")

    def size(self):
        return sum(os.lstat(path).st_size for path in glob.glob(self.folder + "/**", recursive=True)
                   if os.path.isfile(path) and not os.path.islink(path))


def shorten(explained):
    """Predicted seconds by part of the model, and speeds."""
    short = {key: explained[key] for key in ("prefill_tokens_per_second", "decode_tokens_per_second")}
    short["phases"] = []
    for phase in explained["phases"]:
        parts = {}
        for op in phase["ops"]:
            parts[op["part"]] = parts.get(op["part"], 0) + op["seconds"]
        short["phases"].append({"name": phase["name"], "tokens": phase["typical_tokens"], "cached": phase["typical_cached"],
                                "seconds": phase["seconds"], "parts": parts})
    return short


def main(arguments):
    Maker(arguments).make()
    return 0
