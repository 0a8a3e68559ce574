"""Installs into a fresh folder, moves it, and uses what is there.

Usage: prefix.py BUILD SOURCE WORK; the build is complete.
"""
import os
import re
import shutil
import subprocess
import sys

build, source, work = map(os.path.abspath, sys.argv[1:])
here = os.path.dirname(os.path.abspath(__file__))
MODEL = os.path.join(source, "models/tiny-kjv/tiny-kjv-q4_k_m.gguf")
has_compiler = os.path.exists(os.path.join(build, "bin/moec"))
TOOLS = ["moert"] + (["moec"] if has_compiler else [])


def run(*command, **options):
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    assert result.returncode == 0, f"{command}\n{result.stdout}{result.stderr}"
    return result.stdout


shutil.rmtree(work, ignore_errors=True)
run("cmake", "--install", build, "--prefix", os.path.join(work, "first"))
# Nothing may depend on the folder that it was installed to, nor on the build.
prefix = os.path.join(work, "a moved prefix")
os.rename(os.path.join(work, "first"), prefix)
files = sorted(os.path.relpath(os.path.join(folder, name), prefix)
               for folder, _, names in os.walk(prefix) for name in names)
lib = os.path.dirname(next(path for path in files if path.endswith("/libmoert.so")))


def check_files():
    expected = {"include/moert.h", f"{lib}/libmoert.so", f"{lib}/libmoert.so.0",
                f"{lib}/pkgconfig/moert.pc", f"{lib}/cmake/moert/moertConfig.cmake",
                f"{lib}/cmake/moert/moertConfigVersion.cmake"}
    for tool in TOOLS:
        expected |= {f"bin/{tool}", f"share/man/man1/{tool}.1", f"share/bash-completion/completions/{tool}",
                     f"share/zsh/site-functions/_{tool}", f"share/zsh/vendor-completions/_{tool}",
                     f"share/fish/vendor_completions.d/{tool}.fish"}
    assert expected <= set(files), sorted(expected - set(files))
    others = [path for path in files if path not in expected and not re.fullmatch(
        rf"{lib}/libmoert\.so\.[0-9.]+|{lib}/cmake/moert/.*\.cmake|share/doc/[^/]+/(\w+\.md|copyright)", path)]
    assert not others, f"installed too: {others}"
    assert any(re.fullmatch(r"share/doc/[^/]+/copyright", path) for path in files), files


def check_texts():
    text = lambda path: open(os.path.join(prefix, path)).read()
    for tool in TOOLS:
        assert text(f"share/man/man1/{tool}.1").startswith(f".TH {tool.upper()} 1")
        assert f"complete -o default -F _{tool} {tool}" in text(f"share/bash-completion/completions/{tool}")
        assert text(f"share/zsh/site-functions/_{tool}").startswith(f"#compdef {tool}\n")
        assert f"complete -c {tool}" in text(f"share/fish/vendor_completions.d/{tool}.fish")


def check_library():
    """Its name has a version, and it exports what moert.h declares and nothing else."""
    path = os.path.join(prefix, lib, "libmoert.so")
    dynamic = run("readelf", "-d", path)
    assert "Library soname: [libmoert.so.0]" in dynamic, dynamic
    assert "RUNPATH" not in dynamic and "RPATH" not in dynamic, dynamic
    exported = {line.split()[2].split("@")[0] for line in run("nm", "-D", "--defined-only", path).splitlines()
                if line.split()[1] != "A"} # A symbol of type A is the name of the version.
    with open(os.path.join(prefix, "include/moert.h")) as header:
        declared = set(re.findall(r"MOERT_API\s[^;(]*?\b(moert_\w+)\(", header.read()))
    assert len(declared) > 40 and exported == declared, exported ^ declared


def compile_plan():
    plan = os.path.join(work, "plan.fb")
    moec = os.path.join(prefix, "bin/moec") if has_compiler else shutil.which("moec")
    if not moec:
        return None
    run(moec, "compile", MODEL, "-o", plan, env={"PATH": "/usr/bin:/bin", "HOME": work}, cwd=work)
    return plan


def check_program(plan, program):
    """The installed library says what the installed moert does."""
    text = run(os.path.join(prefix, "bin/moert"), "run", plan, "-p", "In the beginning", "-n", "20", "--temp", "0")
    environment = dict(os.environ, LD_LIBRARY_PATH=os.path.join(prefix, lib))
    assert run(program, plan, "In the beginning", 20, env=environment) == text


def with_pkg_config():
    os.environ["PKG_CONFIG_PATH"] = os.path.join(prefix, lib, "pkgconfig")
    assert re.fullmatch(r"[0-9.]+\n", run("pkg-config", "--modversion", "moert"))
    program = os.path.join(work, "by-pkg-config")
    # A shell, as the folder's name has spaces.
    run("sh", "-c", f'eval cc -Wall -Wextra -Werror -std=c11 "{here}/program.c" -o "{program}" '
        '"$(pkg-config --cflags --libs moert)"')
    return program


def with_cmake():
    folder = os.path.join(work, "by-cmake")
    os.makedirs(folder)
    with open(os.path.join(folder, "CMakeLists.txt"), "w") as file:
        file.write(f'cmake_minimum_required(VERSION 3.22)\nproject(application C)\n'
                   f'find_package(moert 0.1 REQUIRED)\nadd_executable(application "{here}/program.c")\n'
                   f'target_link_libraries(application PRIVATE moert::moert)\n')
    run("cmake", "-S", folder, "-B", folder + "/build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", folder + "/build")
    return folder + "/build/application"


check_files()
check_texts()
check_library()
plan = compile_plan()
if plan:
    check_program(plan, with_pkg_config())
    check_program(plan, with_cmake())
print(f"{len(files)} files")
