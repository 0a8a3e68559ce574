#!/usr/bin/env python3
"""Checks the Dockerfile of tools/deploy without Docker: what its image lacks, and what it runs.

  deploy_container.py --dockerfile FILE --moert PATH --plan PLAN.fb --work DIR

Standard library only.
"""
import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess

from replicas import SECONDS, Replica, free_ports, wait_for

# Packages that every Debian has.
ALWAYS = {"libc6", "libgcc-s1", "zlib1g", "libtinfo6"}


def check_packages(dockerfile, moert):
    """The image has the packages of all libraries that moert links itself."""
    if not shutil.which("dpkg") or not shutil.which("objdump"):
        print("packages: not checked, as there is no dpkg or no objdump")
        return
    needed = re.findall(r"NEEDED\s+(\S+)", subprocess.run(["objdump", "-p", moert], capture_output=True, text=True, check=True).stdout)
    paths = dict(re.findall(r"(\S+) => (\S+)", subprocess.run(["ldd", moert], capture_output=True, text=True, check=True).stdout))
    packages = set()
    for name in needed:
        # The dynamic linker may name a library by a link to its folder, as /lib is one.
        for path in {paths.get(name, name), os.path.realpath(paths.get(name, name))}:
            found = subprocess.run(["dpkg", "-S", path], capture_output=True, text=True)
            packages.update(re.findall(r"^([^:\s]+):", found.stdout, re.MULTILINE))
    missing = packages - ALWAYS - set(dockerfile.split())
    assert packages and not missing, f"the image lacks {missing} of {packages}"
    print("packages: there")


def command_of(dockerfile, name):
    """The words of the last HEALTHCHECK or CMD."""
    text = dockerfile.replace("\\\n", " ")
    return json.loads(re.findall(rf"^{name} .*?(\[.*\])$", text, re.MULTILINE)[-1])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--dockerfile", "--moert", "--plan", "--work"):
        p.add_argument(name, required=True)
    a = p.parse_args()
    shutil.rmtree(a.work, ignore_errors=True)
    os.makedirs(a.work)
    with open(a.dockerfile) as file:
        dockerfile = file.read()
    assert re.findall(r"^USER (.*)$", dockerfile, re.MULTILINE)[-1] == "10001:10001"
    check_packages(dockerfile, a.moert)

    port = free_ports(1)[0]
    keys = os.path.join(a.work, "keys")
    with open(keys, "w") as file:
        file.write("alice:a-key-a-key-a-key-a-key\n")
    changes = {"/models/plan.fb": a.plan, "/run/secrets/keys": keys, "/cache": os.path.join(a.work, "cache"), "8080": str(port)}
    command = [changes.get(word, word) for word in [a.moert, *command_of(dockerfile, "CMD")]]
    # In a container moert is process 1, which signals do not end by themselves.
    first = ["unshare", "-rpf", "--kill-child"]
    is_first = subprocess.run([*first, "true"], capture_output=True).returncode == 0
    health = [word.replace("8080", str(port)) for word in command_of(dockerfile, "HEALTHCHECK")]

    def is_healthy():
        return subprocess.run(health, capture_output=True, timeout=SECONDS).returncode == 0
    assert not is_healthy()
    log = os.path.join(a.work, "log")
    server = Replica(a.moert, a.plan, port, log)
    try:
        with open(log, "w") as file:
            server.process = subprocess.Popen([*(first if is_first else []), *command], stderr=file)
        wait_for("the server is ready", server.is_healthy)
        assert is_healthy(), shlex.join(health)
        assert server.get("/v1/models")[0] == 401
        # unshare goes on to wait, and its child gets the signal.
        child = server.process.pid
        if is_first:
            with open(f"/proc/{child}/task/{child}/children") as file:
                child = int(file.read().split()[0])
        os.kill(child, signal.SIGTERM)
        server.wait_drained()
    finally:
        server.kill()
    print("health, and the end: as told")
    if is_first:
        check_first(first, a.moert, a.plan)
    print("container: ok")


def check_first(first, moert, plan):
    """Process 1 ends by a signal outside of the server's orderly end too, such as while a model loads."""
    program = f"{shlex.quote(moert)} tokenize {shlex.quote(plan)} --file -"
    waiting = subprocess.Popen([*first, "sh", "-c", f"exec {program}"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        def child():
            with open(f"/proc/{waiting.pid}/task/{waiting.pid}/children") as file:
                return int((file.read().split() or [0])[0])

        def has_handlers():
            # The process catches SIGTERM once it has become moert.
            with open(f"/proc/{child()}/status") as file:
                caught = int(re.search(r"^SigCgt:\s*(\w+)$", file.read(), re.MULTILINE).group(1), 16)
            return caught >> (signal.SIGTERM - 1) & 1
        wait_for("the child", child)
        wait_for("moert as process 1", has_handlers)
        os.kill(child(), signal.SIGTERM)
        code = waiting.wait(timeout=SECONDS)
        assert code == 128 + signal.SIGTERM, code
    finally:
        waiting.kill()
    print("process 1: ends")


if __name__ == "__main__":
    main()
