#!/usr/bin/env python3
"""Builds a wheel of the packages `moert` and `moec`: python3 build-wheel.py BUILD OUT [--compiler]

BUILD is a build folder with lib/libmoert.so; --compiler also packs bin/moec with what it needs (LLVM and MLIR, 90 MB).
Needs nothing but Python and readelf. The wheel works with every CPython from 3.9: it has no compiled modules.

Libraries that are no part of every Linux go with the wheel. Its name says which glibc it needs, by the versions of
symbols that its files ask for.
"""
import argparse
import base64
import hashlib
import os
import re
import subprocess
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
LICENSE = os.path.join(os.path.dirname(os.path.dirname(HERE)), "LICENSE")
#: What the manylinux policies expect of every system.
SYSTEM = {"libc.so.6", "libm.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0", "libstdc++.so.6", "libgcc_s.so.1",
          "ld-linux-x86-64.so.2"}
#: Which libstdc++ the policies expect beside a glibc: (GLIBCXX_3.4.n, glibc 2.n).
LIBSTDCXX = [(19, 17), (24, 24), (25, 28), (26, 31), (28, 31), (29, 34), (30, 35), (31, 38), (32, 38), (33, 39)]


def fail(message):
    sys.exit(f"error: {message}")


def readelf(*arguments):
    done = subprocess.run(["readelf", "-W", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        fail(f"readelf {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def needed(path):
    return re.findall(r"\(NEEDED\).*\[(.+)\]", readelf("-d", path))


def glibc_of(path):
    """The second number of the oldest glibc that the file runs with."""
    versions = readelf("-V", path)
    least = max([int(each) for each in re.findall(r"Name: GLIBC_2\.(\d+)", versions)], default=17)
    cxx = max([int(each) for each in re.findall(r"Name: GLIBCXX_3\.4\.(\d+)", versions)], default=0)
    for most, glibc in LIBSTDCXX:
        if cxx <= most:
            return max(least, glibc)
    fail(f"{path} needs GLIBCXX_3.4.{cxx}, which this script does not know: add it to LIBSTDCXX")


def dependencies(path):
    """The libraries that a file needs and that go with the wheel: name -> path."""
    found = {}
    done = subprocess.run(["ldd", path], capture_output=True, text=True)
    for name, where in re.findall(r"^\s*(\S+) => (\S+)", done.stdout, re.M):
        if where == "not":
            fail(f"{path} needs {name}, which is not here")
        if name not in SYSTEM:
            found[name] = where
    return found


def version_of(library):
    """moert_version() of the library's name: libmoert.so.0.1.0."""
    match = re.fullmatch(r"libmoert\.so\.(\d+\.\d+\.\d+)", os.path.basename(os.path.realpath(library)))
    if not match:
        fail(f"{library} is no link to libmoert.so.VERSION")
    return match.group(1)


def python_files(package):
    for name in sorted(os.listdir(os.path.join(HERE, package))):
        if name.endswith(".py") or name == "py.typed":
            yield f"{package}/{name}", os.path.join(HERE, package, name), False


def members(build, has_compiler):
    """(name in the wheel, file, whether it is machine code) of all that is packed."""
    library = os.path.join(build, "lib/libmoert.so")
    if not os.path.exists(library):
        fail(f"{library} does not exist: build the target moert_shared")
    yield from python_files("moert")
    yield from python_files("moec")
    yield "moert/lib/libmoert.so.0", library, True
    for name, path in sorted(dependencies(library).items()):
        yield f"moert/lib/{name}", path, True
    if not has_compiler:
        return
    compiler = os.path.join(build, "bin/moec")
    if not os.path.exists(compiler):
        fail(f"{compiler} does not exist: build the target moec")
    yield "moec/bin/moec", compiler, True
    for name, path in sorted(dependencies(compiler).items()):
        yield f"moec/lib/{name}", path, True


def metadata(version, has_compiler):
    note = "With" if has_compiler else "Without"
    with open(os.path.join(HERE, "README.md")) as readme:
        text = readme.read()
    return (f"Metadata-Version: 2.4\nName: moert\nVersion: {version}\n"
            f"Summary: Runs language models that moec compiled for one machine. {note} the compiler.\n"
            f"License-Expression: Apache-2.0 WITH LLVM-exception\nLicense-File: LICENSE\n"
            f"Requires-Python: >=3.9\nProvides-Extra: numpy\nRequires-Dist: numpy; extra == 'numpy'\n"
            f"Description-Content-Type: text/markdown\n\n{text}")


def write_wheel(out, version, files, has_compiler):
    glibc = max(glibc_of(path) for _, path, is_code in files if is_code)
    tag = f"py3-none-manylinux_2_{glibc}_x86_64"
    os.makedirs(out, exist_ok=True)
    wheel = os.path.join(out, f"moert-{version}-{tag}.whl")
    info = f"moert-{version}.dist-info"
    records = []
    with zipfile.ZipFile(wheel + ".part", "w", zipfile.ZIP_DEFLATED) as archive:
        def add(name, data, mode=0o644):
            entry = zipfile.ZipInfo(name)  # The time is in 1980, so that the same files give the same wheel.
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            records.append(f"{name},sha256={digest},{len(data)}\n")

        for name, path, is_code in files:
            with open(path, "rb") as file:
                add(name, file.read(), 0o755 if is_code else 0o644)
        with open(LICENSE, "rb") as file:
            add(f"{info}/licenses/LICENSE", file.read())
        add(f"{info}/METADATA", metadata(version, has_compiler).encode())
        add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: build-wheel.py\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())
        records.append(f"{info}/RECORD,,\n")
        archive.writestr(zipfile.ZipInfo(f"{info}/RECORD"), "".join(records))
    os.replace(wheel + ".part", wheel)
    return wheel


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="the build folder")
    parser.add_argument("out", help="the folder for the wheel")
    parser.add_argument("--compiler", action="store_true", help="pack moec, LLVM and MLIR too")
    options = parser.parse_args()
    files = list(members(options.build, options.compiler))
    version = version_of(os.path.join(options.build, "lib/libmoert.so"))
    print(write_wheel(options.out, version, files, options.compiler))


main()
