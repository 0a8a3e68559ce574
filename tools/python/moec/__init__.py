"""Compiles models into plans, by the program moec, whose JSON reports these functions return.

    import moec

    report = moec.compile("model.gguf", target="native", output="plan.fb", sequences=4)
    print(report["decode_tokens_per_second"])

Options have the names of moec's, with _ for -: ctx=8192 is --ctx 8192, force=True is --force, and a list gives the
option once for each item.
"""
from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import Any, Optional, Union

Path = Union[str, "os.PathLike[str]"]
Option = Union[None, bool, int, float, str, "os.PathLike[str]", "list[str]"]

__all__ = ["Error", "architectures", "compile", "diff", "doctor", "explain", "find", "formats", "model", "plan",
           "run", "targets"]


class Error(Exception):
    """moec's message, the command that corrects it ("" if there is none), and its exit code."""

    def __init__(self, message: str, remedy: str = "", code: int = 1) -> None:
        super().__init__(f"{message}\nnext: {remedy}" if remedy else message)
        self.message, self.remedy, self.code = message, remedy, code


def find() -> tuple[str, dict[str, str]]:
    """The program, and what its environment needs: the one of this package, or that of PATH."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin")
    packaged = os.path.join(folder, "moec")
    if os.path.exists(packaged):
        if not os.access(packaged, os.X_OK):  # Some unpackers, such as Python's zipfile, drop file modes.
            os.chmod(packaged, 0o755)
        libraries = os.path.join(os.path.dirname(folder), "lib")
        before = os.environ.get("LD_LIBRARY_PATH")
        return packaged, {"LD_LIBRARY_PATH": f"{libraries}:{before}" if before else libraries}
    found = shutil.which("moec")
    if found is None:
        raise Error("this wheel has no compiler, and no program moec is in PATH: install the package moec, or a wheel "
                    "that build-wheel.py --compiler built")
    return found, {}


def run(command: str, *arguments: Path, **options: Option) -> Any:
    """Runs a command of moec with --json and returns its report."""
    program, environment = find()
    words = [program, command, *(os.fspath(each) for each in arguments)]
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        for each in value if isinstance(value, list) else [value]:
            if each is True:
                words.append(flag)
            elif each is not None and each is not False:
                words += [flag, os.fspath(each) if isinstance(each, os.PathLike) else str(each)]
    done = subprocess.run([*words, "--json"], capture_output=True, text=True, env={**os.environ, **environment})
    if done.returncode != 0:
        raise _failure(done)
    return json.loads(done.stdout)


def _failure(done: subprocess.CompletedProcess[str]) -> Error:
    lines, remedy = [], ""
    for line in done.stderr.splitlines():
        if line.startswith("next: "):
            remedy = line[len("next: "):]
        else:
            lines.append(line[len("error: "):] if line.startswith("error: ") else line)
    return Error("\n".join(lines).strip() or f"moec ended with {done.returncode}", remedy, done.returncode)


def compile(model: Path, *, target: Optional[str] = None, output: Optional[Path] = None, **options: Option) -> Any:
    """Compiles a GGUF model into a plan; without options for this machine and into plan.fb."""
    return run("compile", model, target=target, output=output, **options)


def plan(model: Path, **options: Option) -> Any:
    """Compares machines: does a model fit, how fast, what is slowest."""
    return run("plan", model, **options)


def model(path: Path, **options: Option) -> Any:
    """Describes a GGUF model."""
    return run("model", path, **options)


def explain(plan: Path, **options: Option) -> Any:
    """Where a plan runs each op and why, what every device holds, and the predicted speed."""
    return run("explain", plan, **options)


def diff(first: Path, second: Path, **options: Option) -> Any:
    """How two plans differ."""
    return run("diff", first, second, **options)


def doctor(**options: Option) -> Any:
    """What may keep plans from running here, or from running well."""
    return run("doctor", **options)


def targets(name: Optional[str] = None) -> Any:
    """The names of machine descriptions, or one of them."""
    return run("targets", *([name] if name else []))


def architectures() -> Any:
    """The architectures that compile."""
    return run("architectures")


def formats() -> Any:
    """The tensor formats, with the kernels that there are for them."""
    return run("formats")
