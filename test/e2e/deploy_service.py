#!/usr/bin/env python3
"""Does with `moert serve` what systemd does by the unit of tools/deploy: start, watch, reload, stop.

  deploy_service.py --unit FILE --moert PATH --plan PLAN.fb --work DIR

The commands are those of the unit, in other folders. Standard library only.
"""
import argparse
import ctypes
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import threading

from replicas import SECONDS, Replica, Request, free_ports, wait_for

# prctl(PR_SET_MDWE): memory is never written and executed; since Linux 6.3.
PR_SET_MDWE, REFUSE_EXEC_GAIN = 65, 1
OLD, NEW = "alice:old-key-old-key-old-key", "alice:new-key-new-key-new-key"


class Unit:
    def __init__(self, path):
        self.values = {}
        with open(path) as file:
            for key, value in re.findall(r"^(\w+)=(.*)$", file.read(), re.MULTILINE):
                self.values.setdefault(key, []).append(value)

    def commands(self, key, changes):
        """Words of the commands of a key, after `changes` of their text."""
        for text in self.values[key]:
            for old, new in changes.items():
                text = text.replace(old, new)
            text = text.lstrip("+").replace("%%", "%")
            assert "/etc" not in text and "/usr" not in text, text
            yield shlex.split(text)


class Manager:
    """The service manager's end: a socket that the service sends its state to."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.path, self.states = path, []
        threading.Thread(target=self.receive, daemon=True).start()

    def receive(self):
        while True:
            self.states += self.socket.recv(4096).decode().split("\n")

    def wait_for(self, state, times=1):
        wait_for(f"{state} of {self.states}", lambda: self.states.count(state) >= times)


def run(commands):
    for words in commands:
        subprocess.run(words, check=True, timeout=SECONDS)


def refuse_written_code():
    ctypes.CDLL(None).prctl(PR_SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--unit", "--moert", "--plan", "--work"):
        p.add_argument(name, required=True)
    a = p.parse_args()
    shutil.rmtree(a.work, ignore_errors=True)
    folders = {name: os.path.join(os.path.abspath(a.work), name) for name in ("etc", "run", "cache")}
    for folder in folders.values():
        os.makedirs(folder)
    keys = folders["etc"].replace("etc", "keys")
    port = free_ports(1)[0]
    changes = {"/etc/moert/keys": keys, "${RUNTIME_DIRECTORY}": folders["run"], "${CACHE_DIRECTORY}": folders["cache"],
               "${MOERT_PLAN}": a.plan, " $MOERT_OPTIONS": "", "/usr/bin/moert": a.moert, "--port 8080": f"--port {port}"}
    unit = Unit(a.unit)
    assert unit.values["Type"] == ["notify"] and unit.values["MemoryDenyWriteExecute"] == ["yes"]

    def write_keys(text):
        with open(keys, "w") as file:
            file.write(text + "\n")

    # A short path, as those of sockets are limited.
    manager = Manager(f"/tmp/moert-notify-{os.getpid()}")
    log = os.path.join(a.work, "log")
    service = Replica(a.moert, a.plan, port, log)
    try:
        write_keys(OLD)
        run(unit.commands("ExecStartPre", changes))
        with open(log, "w") as file:
            service.process = subprocess.Popen(
                *unit.commands("ExecStart", changes), stderr=file, preexec_fn=refuse_written_code,
                env={**os.environ, "NOTIFY_SOCKET": manager.path, "WATCHDOG_USEC": "100000"})
        manager.wait_for("READY=1")
        assert manager.states[0] == "STATUS=loading", manager.states
        assert service.get("/health")[0] == 200
        manager.wait_for("WATCHDOG=1", times=2)
        print("start: ready when loaded")

        def status(key):
            return Request(port, None, False, key=key.split(":")[1]).finish()
        assert status(OLD) == "whole" and "status 401" in status(NEW)
        write_keys(NEW)
        run(unit.commands("ExecReload", {**changes, "$MAINPID": str(service.process.pid)}))
        wait_for("the new key is known", lambda: status(NEW) == "whole")
        assert "status 401" in status(OLD)
        print("reload: new keys")

        stream = Request(port, None, True, key=NEW.split(":")[1], tokens=400, choices=4)
        stream.read_some()
        service.begin_drain()
        manager.wait_for("STOPPING=1")
        outcome = stream.finish()
        assert outcome == "whole", outcome
        service.wait_drained()
        assert "warning" not in open(log).read()
        print("stop: running requests end")
    finally:
        service.kill()
        os.unlink(manager.path)
    print("service: ok")


if __name__ == "__main__":
    main()
