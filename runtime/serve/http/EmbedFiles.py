"""Writes a C++ file that has the files of a folder for a web server (StaticFiles.h).

    EmbedFiles.py OUTPUT.cpp NAME FOLDER [FOLDER...]

The C++ file defines `const std::span<const moert::StaticFile> moert::NAME`. The path of a
file in its folder is its path on the server. A file libraries.txt in a folder names files
from elsewhere: on each line the path on the server and the file; those that are missing are
left out with a warning. The output is a function of names and bytes alone, so that equal
sources give equal programs.
"""

import gzip
import hashlib
import os
import sys

# What a page is made of. Other files of a folder, such as a README.md, are for those that
# work on the page.
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".jpg": "image/jpeg",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".ttf": "font/ttf",
    ".txt": "text/plain; charset=utf-8",
    ".wasm": "application/wasm",
    ".webmanifest": "application/manifest+json",
    ".woff": "font/woff",
    ".woff2": "font/woff2",
}
LIBRARIES = "libraries.txt"
# Compression of smaller files saves no packet.
LEAST_COMPRESSED = 512
# Bytes a line of the output.
LINE = 64


def libraries(folder):
    """Yields (path on the server, file) of the lines of libraries.txt."""
    table = os.path.join(folder, LIBRARIES)
    if not os.path.exists(table):
        return
    with open(table, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.startswith("#"):
                continue
            words = line.split()
            if len(words) != 2 or os.path.splitext(words[0])[1] not in TYPES:
                sys.exit(f"error: {table}:{number}: not a path on the server and a file")
            if os.path.exists(words[1]):
                yield "/" + words[0], words[1]
            else:
                print(f"warning: the web page lacks {words[1]}", file=sys.stderr)


def own(folder):
    """Yields (path on the server, file) of the files in the folder."""
    for place, _, names in os.walk(folder):
        for name in names:
            file = os.path.join(place, name)
            path = "/" + os.path.relpath(file, folder).replace(os.sep, "/")
            if os.path.splitext(name)[1] in TYPES and "/." not in path and path != "/" + LIBRARIES:
                yield path, file


def find(folders):
    """Returns [(path on the server, file)] in the order of the paths."""
    files = {}
    for folder in folders:
        for path, file in [*own(folder), *libraries(folder)]:
            if path in files:
                sys.exit(f"error: {file} and {files[path]} are both {path}")
            files[path] = file
    return sorted(files.items())


def literal(data):
    """Octal escapes of three digits, because a digit after a shorter one would be part of it."""
    lines = []
    for start in range(0, len(data), LINE):
        text = ""
        for byte in data[start : start + LINE]:
            plain = 0x20 <= byte < 0x7F and byte not in b'"\\?'
            text += chr(byte) if plain else f"\\{byte:03o}"
        lines.append(f'    "{text}"')
    return "\n".join(lines) or '    ""'


def view(data):
    return f"std::string_view(\n{literal(data)},\n    {len(data)})"


def main():
    output, name, folders = sys.argv[1], sys.argv[2], sys.argv[3:]
    entries = []
    for path, file in find(folders):
        with open(file, "rb") as source:
            data = source.read()
        kind = TYPES[os.path.splitext(path)[1]]
        packed = gzip.compress(data, 9, mtime=0)
        if len(data) < LEAST_COMPRESSED or len(packed) > len(data) * 9 // 10:
            packed = b""
        tag = hashlib.sha256(data).hexdigest()[:16]
        # The bytes have names, so that a file with two paths is there once.
        number = len(entries)
        bodies = f"constexpr auto kBytes{number} = {view(data)};\nconstexpr auto kGzip{number} = {view(packed)};\n"
        paths = [path] if not path.endswith("/index.html") else [path, path[: -len("index.html")]]
        rows = "".join(
            f'    {{"{p}", "{kind}", kBytes{number}, kGzip{number}, "\\"{tag}\\""}},\n' for p in paths
        )
        entries.append((bodies, rows))
    text = "// Made by EmbedFiles.py.\n"
    text += '#include "runtime/serve/http/StaticFiles.h"\n\nnamespace moert {\n\nnamespace {\n'
    text += "".join(bodies for bodies, _ in entries)
    rows = "".join(rows for _, rows in entries)
    if rows:
        text += f"constexpr StaticFile kFiles[] = {{\n{rows}}};\n"
    text += "} // namespace\n\n"
    text += f"extern const std::span<const StaticFile> {name};\n"
    text += f"const std::span<const StaticFile> {name}{'(kFiles)' if rows else ''};\n\n}} // namespace moert\n"
    with open(output, "w", encoding="ascii", newline="\n") as target:
        target.write(text)


main()
