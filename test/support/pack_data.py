#!/usr/bin/env python3
"""Packs files of tests into an archive that the build unpacks beside the others (test/data/CMakeLists.txt).

  pack_data.py OUT.tar.xz FILE... [--width BYTES]

The same files give the same archive. --width is the size of the numbers in them, by which xz predicts a byte better.
Standard library only.
"""
import argparse
import io
import lzma
import os
import tarfile


def pack(path, files, width=1):
    """`files`: name -> bytes."""
    bits = width.bit_length() - 1
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": min(3, 4 - bits), "lp": bits, "pb": bits}]
    with lzma.open(path, "w", filters=filters) as compressed, tarfile.open(fileobj=compressed, mode="w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("files", nargs="+")
    p.add_argument("--width", type=int, default=1, choices=(1, 2, 4))
    a = p.parse_args()
    contents = {}
    for file in a.files:
        with open(file, "rb") as opened:
            contents[os.path.basename(file)] = opened.read()
    pack(a.out, contents, a.width)
