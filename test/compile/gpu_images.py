"""gpu_images.py MOEC MODEL CACHE [OPTION ...]: how much code for GPUs a plan has.

Compiles without a cache of kernels, then with one. Prints the number and the bytes of the images; fails
above 64 MB, and if the second compilation compiled a kernel again.

Weights, hundreds of GB, stay in the model file."""
import os
import shutil
import subprocess
import sys


def images(folder):
    """Size and time of change of each file: a kernel's cubin and PTX."""
    return {file.name: (file.stat().st_size, file.stat().st_mtime_ns) for file in os.scandir(folder)}


def main(moec, model, cache, *options):
    shutil.rmtree(cache, ignore_errors=True)
    found = []
    for _ in range(2):
        done = subprocess.run([moec, "compile", model, *options, "--weights", "reference", "--checksums", "sampled",
                               "-o", cache + ".fb"],
                              env={**os.environ, "XDG_CACHE_HOME": cache}, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr)
        found.append(images(os.path.join(cache, "moec", "kernels")))
    size = sum(size for size, _ in found[0].values()) / 1e6
    print(f"{len(found[0])} kernels, images of {size:.1f} MB")
    if found[0] != found[1]:
        sys.exit("kernels that are in the cache were compiled again")
    return 1 if size > 64 else 0


sys.exit(main(*sys.argv[1:]))
