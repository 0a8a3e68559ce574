"""gpu-kit.sh run: the steps, each under a time limit, with a JSON line in report.jsonl as soon as it ends."""
import ctypes
import glob
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tarfile
import time

import report
import steps

MINUTES = {"correctness": 9, "speed": 10}


class Problem(Exception):
    pass


class Skipped(Exception):
    """A step that has nothing to do on this machine."""


class Failed(Exception):
    status = "failed"

    def __init__(self, why, figures=None):
        super().__init__(why)
        self.figures = figures


class TimedOut(Failed):
    """A step that its limit ended, with the figures that it had."""
    status = "timeout"


class Kit:
    """What steps use: where things are, which GPU, and run()."""

    def __init__(self, arguments):
        self.folder = os.path.abspath(arguments.folder)
        self.work = os.path.join(self.folder, "work")
        self.logs = os.path.join(self.folder, "logs")
        self.lines = os.path.join(self.folder, "report.jsonl")
        with open(os.path.join(self.folder, "kit.json")) as file:
            self.kit = json.load(file)
        self.unpack()
        os.makedirs(self.logs, exist_ok=True)
        self.driver = arguments.driver
        self.nvrtc = find_nvrtc()
        libraries = [os.path.join(self.work, "lib")] + ([os.path.dirname(self.nvrtc)] if "/" in (self.nvrtc or "") else [])
        before = os.environ.get("LD_LIBRARY_PATH")
        self.environment = dict(os.environ, LD_LIBRARY_PATH=":".join(libraries + ([before] if before else [])))
        self.cores = len(os.sched_getaffinity(0))
        self.why_software = "--software" if arguments.software else self.why_no_gpu()
        self.software = bool(self.why_software)
        if self.software:
            self.driver = os.path.join(self.work, "lib", "libmoe_softcuda.so")
        self.moert = self.program("moert-soft" if self.software else "moert")
        self.until = None  # Time at which the part must end.
        self.log = None
        self.step_until = 0

    def unpack(self):
        for archive in glob.glob(os.path.join(self.folder, "*.tar.xz")):
            part = os.path.basename(archive)[:-len(".tar.xz")]
            if not os.path.isdir(os.path.join(self.work, part)):
                print(f"unpacking {part}", flush=True)
                with tarfile.open(archive) as tar:
                    tar.extractall(self.work)

    def why_no_gpu(self):
        try:
            library = ctypes.CDLL(self.driver)
            count = ctypes.c_int()
            if library.cuInit(0) == 0 and library.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0:
                return ""
            return f"{self.driver} finds no GPU"
        except OSError as error:
            return f"no driver: {error}"

    def program(self, name):
        return os.path.join(self.work, "bin", name)

    def plan(self, name):
        return os.path.join(self.work, "plans", name)

    def left(self):
        """Seconds that the step still has."""
        return max(0.1, self.step_until - time.time())

    def start(self, words, stdout=subprocess.PIPE, **variables):
        """Starts a program, in a session of its own so that all of it can be ended; its errors go to the step's log."""
        self.log.write("$ " + " ".join(map(str, words)) + "\n")
        self.log.flush()
        # Only the kit's programs get its libraries, because the machine's own may need newer ones.
        environment = self.environment if str(words[0]).startswith(self.work) else os.environ
        return subprocess.Popen([str(word) for word in words], cwd=self.work, stdin=subprocess.DEVNULL, stdout=stdout,
                                stderr=self.log, text=True, env=dict(environment, **variables), start_new_session=True)

    def run(self, *words, may_fail=False):
        """Runs a program within the time of the step; returns its standard output."""
        process = self.start(words)
        try:
            output = process.communicate(timeout=self.left())[0]
        except subprocess.TimeoutExpired:
            self.end(process)
            self.log.write(process.communicate()[0])
            raise TimedOut(f"{os.path.basename(str(words[0]))} was ended at the step's limit") from None
        self.log.write(output)
        if process.returncode != 0 and not may_fail:
            raise Failed(f"{os.path.basename(str(words[0]))} ended with {process.returncode}")
        return output

    @staticmethod
    def end(process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def step(self, part, name, limit, body):
        """Does one step; whatever happens in it becomes a line of the report."""
        begin = time.time()
        limit = min(limit, self.until - begin)
        line = {"part": part, "step": name, "limit": round(limit, 1)}
        path = os.path.join(self.logs, re.sub(r"[^a-z0-9]+", "-", f"{part} {name}".lower()) + ".txt")
        with open(path, "w+", errors="replace") as self.log:
            try:
                if limit < 1:
                    raise Skipped("the time of this part is over")
                self.step_until = begin + limit
                line.update(status="ok", figures=body(self))
            except Skipped as skipped:
                line.update(status="skipped", why=str(skipped))
            except Failed as error:
                line.update(status=error.status, why=str(error), figures=error.figures)
            except Exception as error:  # A step may fail in unforeseen ways; the others go on.
                line.update(status="failed", why=f"{type(error).__name__}: {error}")
            if line["status"] in ("failed", "timeout"):
                self.log.flush()
                self.log.seek(0)
                line["tail"] = self.log.read()[-2000:]
        line["seconds"] = round(time.time() - begin, 2)
        self.append(line)
        print(f"{line['seconds']:7.1f} s  {line['status']:8} {part}: {name}{'  ' + line['why'] if 'why' in line else ''}",
              flush=True)

    def append(self, line):
        with open(self.lines, "a") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def head(self):
        notes, glibc = list(self.kit["notes"]), os.confstr("CS_GNU_LIBC_VERSION")
        if numbers(glibc) < numbers(self.kit["glibc"]):
            notes.append(f"The kit was made with {self.kit['glibc']}; this machine's {glibc} may be too old for its programs.")
        return {"part": "head", "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "kit": self.kit["commit"],
                "target": self.kit["target"], "notes": notes, "host": platform.platform(), "cores": self.cores,
                "gpu": "software" if self.software else "driver", "why_software": self.why_software,
                "nvrtc": self.nvrtc}


def numbers(version):
    return [int(number) for number in re.findall(r"\d+", version or "")]


def find_nvrtc():
    """The machine's NVRTC: the system's, a toolkit's, or that of a Python package."""
    names = ("libnvrtc.so.13", "libnvrtc.so.12")
    folders = ["", *sorted(glob.glob("/usr/local/cuda*/lib64/"), reverse=True)]
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    for packages in [os.path.join(cache, "moec", "nvrtc"), *sys.path]:
        folders += sorted(glob.glob(os.path.join(packages, "nvidia", "*", "lib", "")), reverse=True)
    for folder in folders:
        for name in names:
            try:
                ctypes.CDLL(folder + name)
                return folder + name
            except OSError:
                pass
    return None


def main(arguments):
    kit = Kit(arguments)
    parts = list(MINUTES) if arguments.what == "all" else [arguments.what]
    kit.append(kit.head())
    print(f"on the software GPU ({kit.why_software})" if kit.software else "on this machine's GPU", flush=True)
    for part in parts:
        kit.until = time.time() + 60 * (arguments.minutes or MINUTES[part])
        for name, limit, body in steps.of(part, kit):
            if not arguments.only or re.search(arguments.only, name):
                kit.step(part, name, limit, body)
        # Writes the report so far after each part.
        report.write(kit.lines, os.path.join(kit.folder, "report.md"))
    failed = [line for line in report.read(kit.lines)["steps"] if line["status"] in ("failed", "timeout")]
    print(f"{os.path.join(kit.folder, 'report.md')}: {len(failed)} steps failed or ran out of time")
    return 1 if failed else 0
