"""gpu_images.py MOEC MODEL CACHE [OPTION ...]: what code for GPUs costs a plan.

Compiles without a cache of kernels, then with one. Prints the images' bytes and
the seconds beyond those of the passes; fails beyond 64 MB, 60 seconds and 5
seconds. Seconds are of processors, and without a cache by each of the machine's, as kernels are
compiled beside each other: what else runs there takes no part.

Weights, hundreds of GB, stay in the model file."""
import os
import resource
import shutil
import subprocess
import sys


def seconds(command, environment):
    def used():
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return children.ru_utime + children.ru_stime

    before = used()
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return used() - before


def main(moec, model, cache, *options):
    shutil.rmtree(cache, ignore_errors=True)
    command = [moec, "compile", model, *options, "--weights", "reference", "--checksums", "sampled",
               "-o", cache + ".fb"]
    environment = {**os.environ, "XDG_CACHE_HOME": cache}
    # The time of the passes alone, without compiling kernels.
    passes = seconds([moec, "compile", model, *options, "--weights", "reference", "--emit", "plan", "-o", os.devnull],
                     environment)
    cold = (seconds(command, environment) - passes) / len(os.sched_getaffinity(0))
    cached = seconds(command, environment) - passes
    # A file has a kernel's cubin and PTX.
    sizes = [file.stat().st_size for file in os.scandir(os.path.join(cache, "moec", "kernels"))]
    size = sum(sizes) / 1e6
    print(f"{len(sizes)} kernels, images of {size:.1f} MB; {cold:.1f} s, from a cache {cached:.1f} s")
    return 1 if size > 64 or cold > 60 or cached > 5 or not sizes else 0


sys.exit(main(*sys.argv[1:]))
