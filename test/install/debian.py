"""Installs the .deb on a bare Debian 12 and uses what is there.

Usage: debian.py BUILD SOURCE [--keep FOLDER]; the build is complete. Needs root,
debootstrap, and the mirror that apt uses here; exits with 77 where one is missing.
"""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
parser = argparse.ArgumentParser()
parser.add_argument("build")
parser.add_argument("source")
parser.add_argument("--keep", help="make the system in this folder, or take it from there")
arguments = parser.parse_args()
arguments.build, arguments.source = map(os.path.abspath, (arguments.build, arguments.source))
MODEL = os.path.join(arguments.source, "models/tiny-kjv/tiny-kjv-q4_k_m.gguf")


def skip(why):
    print(why)
    sys.exit(SKIPPED)


def run(*command, **options):
    print("+", *command, flush=True)
    return subprocess.run(command, check=True, text=True, **options)


def mirrors():
    """The places of packages, as apt here has them: (URI, suites)."""
    found = []
    for path in ["/etc/apt/sources.list", *glob.glob("/etc/apt/sources.list.d/*")]:
        if not os.path.isfile(path) or not path.endswith((".list", ".sources")):
            continue
        with open(path) as file:
            text = file.read()
        found += re.findall(r"^deb\s+(?:\[.*?\]\s+)?(\S+)\s+(bookworm\S*)", text, re.M)
        for uri, suites in re.findall(r"^URIs:\s*(\S+)\n(?:.*\n)*?Suites:\s*(.*)", text, re.M):
            found += [(uri, suite) for suite in suites.split() if suite.startswith("bookworm")]
    return found


def make_system(folder):
    sources = mirrors()
    main = next((uri for uri, suite in sources if suite == "bookworm"), None)
    if not main:
        skip("apt has no mirror of Debian 12")
    if run_fails("debootstrap", "--variant=minbase", "bookworm", folder, main):
        skip("debootstrap failed: is there a network?")
    with open(os.path.join(folder, "etc/apt/sources.list"), "w") as file:
        file.writelines(f"deb {uri} {suite} main\n" for uri, suite in sources)
    for path in glob.glob("/etc/apt/apt.conf.d/*proxy*"):
        shutil.copy(path, os.path.join(folder, "etc/apt/apt.conf.d"))
    shutil.copy("/etc/resolv.conf", os.path.join(folder, "etc/resolv.conf"))


def run_fails(*command):
    print("+", *command, flush=True)
    return subprocess.run(command).returncode != 0


def inside(folder, script):
    """Runs a shell's script in the system, with nothing of this one's environment."""
    return run("chroot", folder, "/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
               "DEBIAN_FRONTEND=noninteractive", "sh", "-ec", script, stdout=subprocess.PIPE).stdout


def package():
    folder = os.path.join(arguments.build, "packages")
    shutil.rmtree(folder, ignore_errors=True)
    run("cpack", "-G", "DEB", "-B", folder, cwd=arguments.build, stdout=subprocess.DEVNULL)
    (path,) = glob.glob(folder + "/*.deb")
    return path


def use(folder, deb):
    shutil.copy(deb, folder + "/root/moec.deb")
    shutil.copy(MODEL, folder + "/root/m.gguf")
    inside(folder, "apt-get update -q && apt-get install -y -q --no-install-recommends /root/moec.deb")
    files = inside(folder, "dpkg -L moec")
    for path in ("/usr/bin/moec", "/usr/bin/moert", "/usr/include/moert.h", "/usr/lib/libmoert.so.0",
                 "/usr/share/man/man1/moec.1", "/usr/share/doc/moec/copyright", "/usr/share/bash-completion/completions/moert"):
        assert path in files.split(), f"{path} is missing\n{files}"
    text = inside(folder, "cd /root && moec compile m.gguf -o p.fb && moert run p.fb -p 'In the beginning' -n 12 --temp 0")
    assert " of the LORD" in text, text
    # The library is found by its name, and needs nothing more than the package brings.
    assert "libmoert.so.0" in inside(folder, "ldconfig -p"), "ldconfig does not know libmoert"
    assert "not found" not in inside(folder, "ldd /usr/lib/libmoert.so.0")
    inside(folder, "apt-get purge -y -q moec && test ! -e /usr/bin/moec && test ! -e /usr/lib/libmoert.so.0")
    print(text)


if os.geteuid() != 0:
    skip("making a system needs root")
if not shutil.which("debootstrap"):
    skip("there is no debootstrap: apt-get install debootstrap")
deb = package()
print(subprocess.run(["dpkg-deb", "-I", deb], capture_output=True, text=True).stdout)
if arguments.keep:
    if not os.path.exists(os.path.join(arguments.keep, "etc/debian_version")):
        make_system(arguments.keep)
    use(arguments.keep, deb)
else:
    with tempfile.TemporaryDirectory(prefix="moec-debian-") as temporary:
        make_system(temporary)
        use(temporary, deb)
