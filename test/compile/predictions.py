"""What moec predicts of placements: `predictions.py MODEL TARGET...` compiles
the model for each machine and prints, a line each, the seconds of a request with
mixed prompts and 256 generated tokens, of the same with all on the host, and with
experts alone there; with --falls it fails where a machine is slower than the
one before it."""
import re
import subprocess
import sys

UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}
PART = re.compile(r"([\d.]+) (ns|us|ms|s) a decoded token, "
                  r"([\d.]+) (ns|us|ms|s) (?:a prompt|prompts) of")


def requests(model, target):
    run = subprocess.run(["moec", "compile", model, "--target", target,
                          "--weights", "reference", "--emit", "placed",
                          "--verbose", "-o", "/dev/null"],
                         capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{target}: {run.stderr}")
    line = next(l for l in run.stderr.splitlines()
                if l.startswith("remark: predicted"))
    found = []
    for part in line.split(";"):
        d, du, p, pu = PART.search(part).groups()
        found.append(float("inf") if "does not fit" in part else
                     256 * float(d) * UNITS[du] + float(p) * UNITS[pu])
    return found, line


def main():
    arguments = sys.argv[1:]
    falls = arguments[0] == "--falls"
    model, *targets = arguments[falls:]
    before = float("inf")
    for target in targets:
        (own, host, classic), line = requests(model, target)
        print(f"{target}: {own:.4g} {host:.4g} {classic:.4g}")
        # The texts have at least two digits.
        if own > 1.01 * min(host, classic):
            sys.exit(f"{target}: worse than where others start: {line}")
        if falls and own > 1.01 * before:
            sys.exit(f"{target}: slower than with less memory: {line}")
        before = own


main()
