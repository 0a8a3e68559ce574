"""gpu_images.py MOEC MODEL CACHE [OPTION ...]: what code for GPUs costs a plan.

Compiles without a cache of kernels, then with one. Prints the images' bytes and
the seconds; fails beyond 64 MB, 60 seconds and 5 seconds. Seconds are of
processors, and without a cache by each of the machine's, as kernels are
compiled beside each other: what else runs there takes no part."""
import os
import re
import resource
import shutil
import subprocess
import sys


def seconds(command, environment):
    def used():
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return children.ru_utime + children.ru_stime

    before = used()
    subprocess.run(command, env=environment, check=True, capture_output=True)
    return used() - before


def main(moec, model, cache, *options):
    shutil.rmtree(cache, ignore_errors=True)
    plan = os.path.join(os.path.dirname(cache), "images.fb")
    command = [moec, "compile", model, *options, "-o", plan]
    environment = {**os.environ, "XDG_CACHE_HOME": cache}
    cold = seconds(command, environment) / len(os.sched_getaffinity(0))
    cached = seconds(command, environment)
    # What a plan is beside its images is small.
    size = os.path.getsize(plan) / 1e6
    text = subprocess.run([moec, "inspect", plan], check=True, capture_output=True).stdout.decode("latin1")
    modules = len(re.findall(r"= plan\.module ", text))
    images = len(re.findall(r"plan\.image of ", text))
    print(f"{modules} kernels, {images} images in a plan of {size:.1f} MB; {cold:.1f} s, from a cache {cached:.1f} s")
    return 1 if size > 64 or cold > 60 or cached > 5 or images < modules or not modules else 0


sys.exit(main(*sys.argv[1:]))
