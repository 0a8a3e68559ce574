"""Checks of every page (*.md) of the project, without running anything but --help.

Usage: documents.py SOURCE [COMMANDS]. COMMANDS tells to ask moec and moert, from
PATH, which commands and options there are.

  * README.md has at most 150 lines, no page a line of more than 160 characters,
    and no picture more than 200 KB.
  * Links lead to files, folders and headings that exist.
  * What is written in backticks with a slash is a file or a folder, what is
    written as the name of a source is one, and so is each path of the project in
    a block of code.
  * A row of a table whose first cell is a source and whose second is the name of a function: the source has it.
  * The README of a folder names every folder in it.
  * Blocks of code are run: a test in test/readme names the page.
  * Commands and options in backticks exist, and tools/README.md has every command.
"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from page import blocks_of

README_LINES, LINE, PICTURE = 150, 160, 200 * 1000
# Folders and files that compilers and people make; they are not part of the project.
LEFT_OUT = re.compile(r"(\.|build).*|__pycache__")


def files_of(source):
    """By their names alone, all files and where they are."""
    found = {}
    for folder, folders, files in os.walk(source):
        folders[:] = sorted(name for name in folders if not LEFT_OUT.match(name))
        for name in sorted(files):
            found.setdefault(name, []).append(os.path.relpath(os.path.join(folder, name), source))
    return found


def anchors_of(text):
    """Of a page's headings, as the web shows them."""
    headings = re.findall(r"^#{1,6} (.*)$", text, re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "") for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in plain}


def prose_of(text):
    """A page without its blocks of code, line by line."""
    inside = set()
    for block in blocks_of(text):
        inside.update(range(block.line, block.line + len(block.lines) + 1))
    return [(number, line) for number, line in enumerate(text.split("\n"), 1) if number not in inside]


class Documents:
    def __init__(self, source):
        self.source, self.failures = source, []
        self.texts = {}
        self.names = files_of(source)
        for page in sorted(page for name, places in self.names.items() if name.endswith(".md") for page in places):
            with open(os.path.join(source, page)) as file:
                self.texts[page] = file.read()
        self.top = {name for name in os.listdir(source) if not LEFT_OUT.match(name)}

    def fail(self, page, number, text):
        self.failures.append(f"{page}:{number}: {text}")

    def exists(self, path):
        return os.path.lexists(os.path.join(self.source, path))

    def check_sizes(self, page, text):
        lines = text.rstrip("\n").split("\n")
        if page == "README.md" and len(lines) > README_LINES:
            self.fail(page, len(lines), f"has {len(lines)} lines; the limit is {README_LINES}: what is of one folder goes into its README")
        for number, line in enumerate(lines, 1):
            if len(line) > LINE:
                self.fail(page, number, f"has {len(line)} characters; the limit is {LINE}")

    def check_links(self, page, text):
        for number, line in prose_of(text):
            for picture, target in re.findall(r"(!?)\[[^]]*\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "``", line)):
                if re.match(r"[a-z]+:", target):
                    continue
                path, _, anchor = target.partition("#")
                path = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
                if not self.exists(path):
                    self.fail(page, number, f"links to {target}, which does not exist")
                elif picture and os.path.getsize(os.path.join(self.source, path)) > PICTURE:
                    self.fail(page, number, f"{target} has more than {PICTURE // 1000} KB")
                elif anchor:
                    inside = path + "/README.md" if os.path.isdir(os.path.join(self.source, path)) else path
                    if anchor not in anchors_of(self.texts.get(inside, "")):
                        self.fail(page, number, f"links to {target}: {inside} has no such heading")

    def check_paths(self, page, text):
        """In backticks; a path is meant from the project's root or from the page's folder."""
        here = os.path.dirname(page)
        for number, line in prose_of(text):
            if line.count("`") % 2 and not line.startswith("```"):
                self.fail(page, number, "has a backtick without its pair: what is in backticks stands on one line")
            for span in re.findall(r"`([^`]+)`", line):
                if re.fullmatch(r"[\w-]+\.(cpp|cu|cuh|def|fbs|h|py|td)", span) and span not in self.names and "NAME" not in span:
                    self.fail(page, number, f"names `{span}`, and no file is called so")
                if not re.fullmatch(r"[\w.+*-]+(/[\w.+*-]*)+", span) or "*" in span or span.startswith(("build/", "build-")):
                    continue
                # NAME stands for a word that the reader adds; its folder must exist.
                if "NAME" in span:
                    span = os.path.dirname(span)
                if not self.exists(span) and not self.exists(os.path.join(here, span)):
                    self.fail(page, number, f"names `{span}`, which does not exist")
        for block in blocks_of(text):
            for offset, line in enumerate(block.lines):
                for word in re.findall(r"(?<![\w./<-])([a-z]+(?:/[\w.+-]+)+)", line):
                    if word.split("/")[0] in self.top and not self.exists(word) and not self.exists(word.rstrip(".")):
                        self.fail(page, block.line + offset, f"names {word}, which does not exist")

    def check_functions(self, page, text):
        row = re.compile(r"\| \[[^]]*\]\(([^)]+\.(?:cpp|h))\) \| `([\w:]+)` \|")
        for number, line in prose_of(text):
            found = row.match(line)
            path = found and os.path.join(self.source, os.path.dirname(page), found.group(1))
            if path and os.path.exists(path):
                with open(path) as file:
                    if not re.search(rf"\b{re.escape(found.group(2))}\(", file.read()):
                        self.fail(page, number, f"names `{found.group(2)}`, and {found.group(1)} has no such function")

    def check_folders(self, page, text):
        """The README of a folder names the folders in it."""
        here = os.path.join(self.source, os.path.dirname(page))
        if os.path.basename(page) != "README.md":
            return
        for name in sorted(os.listdir(here)):
            if os.path.isdir(os.path.join(here, name)) and not LEFT_OUT.match(name) and not re.search(rf"\b{re.escape(name)}\b", text):
                self.fail(page, 1, f"does not name the folder {os.path.join(os.path.dirname(page), name)}")

    def check_run(self):
        """Every page with code has a test that runs it."""
        folder = os.path.join(self.source, "test", "readme")
        tests = ""
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            if name.endswith(".test"):
                with open(os.path.join(folder, name)) as file:
                    tests += file.read()
        for page, text in self.texts.items():
            if blocks_of(text) and page not in GENERATED and not re.search(rf"page\.py {re.escape(page)} ", tests):
                self.fail(page, blocks_of(text)[0].line, f"has commands that no test in test/readme runs: add one with page.py {page}")


# Pages that a test compares with the output of their generator.
GENERATED = {"tools/moec.md", "tools/moert.md"}


def help_of(*words):
    return subprocess.run([*words, "--help"], check=True, capture_output=True, text=True).stdout


def check_commands(documents):
    commands, options = {}, set()
    for tool in ("moec", "moert"):
        listed = help_of(tool).split("\nCommands:\n")[1].split("\n\n")[0]
        commands[tool] = {name: set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", help_of(tool, name)))
                          for name in re.findall(r"^  ([\w-]+)", listed, re.MULTILINE)}
        options.update(*commands[tool].values())
    told = set()
    for page, text in documents.texts.items():
        shown = [(block.line, re.sub(r"^\$ (build/bin/)?", "", line)) for block in blocks_of(text) for line in block.lines if line.startswith("$ ")]
        spans = [(number, span) for number, line in prose_of(text) for span in re.findall(r"`([^`]+)`", line.replace("\\|", "|"))]
        for number, span in shown + spans:
            words = span.split(" | ")[0].split()
            flags = [re.match(r"--?[\w-]+", word).group() for word in words if re.match(r"--?[a-z]", word)]
            if words and words[0] in commands and len(words) > 1 and re.fullmatch(r"[a-z][a-z-]*", words[1]):
                tool, command = words[:2]
                told.add((page, tool, command))
                if command not in commands[tool]:
                    documents.fail(page, number, f"names `{tool} {command}`, which does not exist")
                    continue
                known = commands[tool][command]
            # A page about tests names options of other programs too.
            elif words and words[0].startswith("--") and not page.startswith("test/"):
                known = options | OF_OTHERS
            else:
                continue
            for flag in flags:
                if flag not in known:
                    documents.fail(page, number, f"names {flag}, which `{' '.join(words[:2])}` does not have")
    for tool in commands:
        for command in sorted(commands[tool]):
            if ("tools/README.md", tool, command) not in told:
                documents.fail("tools/README.md", 1, f"does not tell of {tool} {command}")


# Options of other programs that pages name: llama.cpp's and those of scripts.
OF_OTHERS = {"--fit", "--ctx-size", "--temperature", "--write"}


def main():
    documents = Documents(os.path.normpath(sys.argv[1]))
    if len(sys.argv) > 2:
        check_commands(documents)
    else:
        for page, text in documents.texts.items():
            documents.check_sizes(page, text)
            documents.check_links(page, text)
            documents.check_paths(page, text)
            documents.check_functions(page, text)
            documents.check_folders(page, text)
        documents.check_run()
    print("\n".join(documents.failures) or f"{len(documents.texts)} pages")
    return bool(documents.failures)


if __name__ == "__main__":
    sys.exit(main())
