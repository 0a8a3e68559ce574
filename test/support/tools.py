"""For lit tests in Python: runs moec and moert and checks their output."""
import json
import os
import re
import shlex
import shutil
import struct
import subprocess

# The text before a suggested command: tools/common/Remedies.cpp.
RUN = "  run: "
RUN_WITH_MODEL = "  run, with the GGUF file for MODEL: "


class Result:
    def __init__(self, command, done):
        self.command, self.code = command, done.returncode
        self.out, self.err = done.stdout, done.stderr

    def __str__(self):
        shown = self.command if isinstance(self.command, str) else shlex.join(self.command)
        return f"$ {shown}\n{self.out}{self.err}(exit code {self.code})"


def run(command, folder):
    """Runs a list of words, or a string for /bin/sh, in `folder`."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace",
                          stdin=subprocess.DEVNULL, timeout=300,
                          shell=isinstance(command, str))
    return Result(command, done)


def hints(text):
    """Returns the commands that `text` suggests, as (command, whether MODEL stands for a file)."""
    found = []
    for line in text.split("\n"):
        for lead in (RUN, RUN_WITH_MODEL):
            if line.startswith(lead):
                found.append((line[len(lead):], lead == RUN_WITH_MODEL))
    return found


def options_of(plan, folder, moert):
    """Returns the options that the plan records."""
    result = run([moert, "info", plan, "--json"], folder)
    assert result.code == 0, result
    return json.loads(result.out)["options"]


def schema_version(path, version):
    """Changes the version of a plan, which is the first field of the root table."""
    with open(path, "r+b") as file:
        content = file.read()
        root_table = struct.unpack_from("<I", content)[0]
        vtable = root_table - struct.unpack_from("<i", content, root_table)[0]
        field = struct.unpack_from("<H", content, vtable + 4)[0]
        file.seek(root_table + field)
        file.write(struct.pack("<I", version))
