#!/usr/bin/env python3
"""Makes README's picture of `moec explain --html`: its top, down to the timeline of decode.

  build/bin/moe-shape-model deepseek-v3.gguf
  build/bin/moec compile deepseek-v3.gguf --target 4090+xeon --ctx 8192 --weights reference -o v3.fb
  build/bin/moec explain v3.fb --html v3.html
  compiler/Explain/page/picture.py v3.html compiler/Explain/page/explain.png

It needs the packages chromium and fonts-roboto-unhinted.
"""
import argparse
import os
import struct
import sys
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "test", "support"))
import browser

WIDTH = 1000  # in CSS pixels
SCALE = 1.5  # pixels of the picture for each
FONT = "document.body.style.fontFamily = 'Roboto'"
# The bottom of the axis of the first timeline.
BOTTOM = "document.querySelector('.timeline .axis').getBoundingClientRect().bottom + scrollY"


def chunks(png):
    at = 8
    while at < len(png):
        size, kind = struct.unpack_from(">I4s", png, at)
        yield kind, png[at + 8:at + 8 + size]
        at += 12 + size


def rows_of(png):
    """Width, and the pixels of each row as bytes of RGB, of a PNG without alpha or interlace."""
    parts = list(chunks(png))
    width, height, depth, colour = struct.unpack_from(">IIBB", parts[0][1])
    assert depth == 8 and colour in (2, 6)
    step = 3 if colour == 2 else 4
    raw = zlib.decompress(b"".join(data for kind, data in parts if kind == b"IDAT"))
    before, rows, stride = bytes(width * step), [], width * step
    for y in range(height):
        filtered, row = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for i in range(stride):
            left = row[i - step] if i >= step else 0
            up, corner = before[i], before[i - step] if i >= step else 0
            if filtered == 1:
                row[i] = row[i] + left & 255
            elif filtered == 2:
                row[i] = row[i] + up & 255
            elif filtered == 3:
                row[i] = row[i] + (left + up) // 2 & 255
            elif filtered == 4:
                nearest = min((abs(up - corner), 0, left), (abs(left - corner), 1, up), (abs(left + up - 2 * corner), 2, corner))
                row[i] = row[i] + nearest[2] & 255
        before = bytes(row)
        rows.append([before[i:i + 3] for i in range(0, stride, step)])
    return width, rows


def write_small(path, width, rows):
    """With a palette: the 256 colours that most pixels have, the others by the nearest of them."""
    counts = {}
    for row in rows:
        for pixel in row:
            counts[pixel] = counts.get(pixel, 0) + 1
    palette = sorted(counts, key=counts.get, reverse=True)[:256]
    index = {colour: number for number, colour in enumerate(palette)}
    for colour in counts:
        if colour not in index:
            index[colour] = min(range(len(palette)), key=lambda number: sum((a - b) ** 2 for a, b in zip(palette[number], colour)))
    pixels = b"".join(b"\0" + bytes(index[pixel] for pixel in row) for row in rows)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        for kind, data in ((b"IHDR", struct.pack(">IIBBBBB", width, len(rows), 8, 3, 0, 0, 0)), (b"PLTE", b"".join(palette)),
                           (b"IDAT", zlib.compress(pixels, 9)), (b"IEND", b"")):
            file.write(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", help="what moec explain --html wrote")
    parser.add_argument("picture", help="the PNG to write")
    arguments = parser.parse_args()
    program = browser.find() or sys.exit("error: no Chromium; install the package chromium")
    with browser.Browser(program) as page:
        page.show(arguments.page, WIDTH, WIDTH)
        page.run(FONT)
        height = page.run(BOTTOM) + 6
        page.screenshot(arguments.picture, clip={"x": 0, "y": 0, "width": WIDTH, "height": height, "scale": SCALE})
    with open(arguments.picture, "rb") as file:
        write_small(arguments.picture, *rows_of(file.read()))


if __name__ == "__main__":
    main()
