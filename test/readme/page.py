"""Runs the commands that a README shows, and compares what they print.

Usage: page.py PAGE FOLDER SOURCE [--nightly]. PAGE is a path below SOURCE, the
project. FOLDER holds the models that the page names and the project does not
ship; commands run there, in the order of the page.

A block of code is indented by four spaces or fenced. Its commands begin with
"$ "; what follows is what they print, where a line "..." stands for any number
of lines. A comment right before a block says what holds for it:

  <!-- checked: numbers vary -->    any number matches a number
  <!-- checked: output varies -->   the commands must succeed
  <!-- checked nightly: ... -->     the same two, by the nightly test alone
  <!-- not checked: REASON -->      nothing is run

The reason is for people. A block without commands, such as a drawing, needs a
"not checked" too, so that none is forgotten.
"""
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import tools


class Block:
    def __init__(self, line, marker):
        self.line, self.marker, self.lines = line, marker, []


def blocks_of(text):
    """Blocks of code with the marker right before each."""
    blocks, block, fence, marker, before = [], None, None, "", ""
    for number, line in enumerate(text.split("\n"), 1):
        if fence:
            if line.strip() == fence:
                fence = block = None
            else:
                block.lines.append(line)
        elif re.match(r"`{3,}", line):
            fence, block = re.match(r"`{3,}", line).group(), Block(number + 1, marker)
            blocks.append(block)
            marker = ""
        elif line.startswith("    ") and (block or before == ""):
            if not block:
                block = Block(number, marker)
                blocks.append(block)
                marker = ""
            block.lines.append(line[4:])
        elif line == "":
            if block:
                block.lines.append("")
        else:
            block = None
            comment = re.fullmatch(r" *<!-- (.*) -->", line)
            marker = comment.group(1) if comment else ""
        before = line
    for block in blocks:
        while block.lines and block.lines[-1] == "":
            block.lines.pop()
    return blocks


def steps_of(block):
    """Commands with the lines that they print."""
    steps = []
    for line in block.lines:
        if line.startswith("$ "):
            steps.append((line[2:], []))
        elif steps:
            steps[-1][1].append(line)
    return [(command, "\n".join(lines).rstrip("\n").splitlines()) for command, lines in steps]


def pattern_of(shown, numbers_vary):
    """A regular expression for shown lines; spaces at a line's end do not count."""
    parts = []
    for line in shown:
        if line.strip() == "...":
            parts.append(r"(?:.*\n)*?")
            continue
        text = re.escape(line.rstrip())
        if numbers_vary:
            # A number, its unit's prefix, and the spaces that align it.
            text = re.sub(r"(?:\\ )*\d+(?:\\\.\d+)?(?:e\\\+\d+)?", r" *\\d+(?:\\.\\d+)?(?:e\\+\\d+)?", text)
            text = re.sub(r"[KMGT]iB", "(?:[KMGT]i)?B", text)
        parts.append(text + r" *\n")
    return "".join(parts)


class Page:
    def __init__(self, page, folder, source, nightly):
        self.page, self.folder, self.nightly = page, folder, nightly
        self.failures, self.ran = [], 0
        with open(os.path.join(source, page)) as file:
            self.blocks = blocks_of(file.read())

    def fail(self, block, text):
        shown = text if len(text) < 4000 else text[:2000] + "\n...\n" + text[-2000:]
        self.failures.append(f"{self.page}:{block.line}: {shown}")

    def check(self, block):
        kind, _, how = (part.strip() for part in block.marker.partition(":"))
        if kind == "not checked":
            if not how:
                self.fail(block, "says no reason for <!-- not checked: REASON -->")
            return
        if kind not in ("", "checked", "checked nightly") or how not in ("", "numbers vary", "output varies"):
            return self.fail(block, f"unknown marker {block.marker!r}")
        steps = steps_of(block)
        if not steps:
            return self.fail(block, 'a block without commands ("$ ...") needs <!-- not checked: REASON --> before it')
        if (kind == "checked nightly") != self.nightly:
            return
        for command, shown in steps:
            self.ran += 1
            # Errors and notes are shown in the order in which they come.
            result = tools.run(f"({command}\n) 2>&1", self.folder)
            if result.code != 0:
                self.fail(block, str(result))
            elif how != "output varies" and not re.fullmatch(pattern_of(shown, how == "numbers vary"), result.out):
                self.fail(block, "shows\n" + "\n".join(shown) + f"\nbut:\n{result}")


def stage(folder, source):
    """Makes the folder one as after a build in a checkout."""
    os.makedirs(os.path.join(folder, "build"), exist_ok=True)
    links = {"build/bin": os.path.dirname(shutil.which("moec"))}
    links.update({name: os.path.join(os.path.abspath(source), name) for name in os.listdir(source)
                  if os.path.isdir(os.path.join(source, name)) and not name.startswith((".", "build"))})
    for name, target in links.items():
        if not os.path.lexists(os.path.join(folder, name)):
            os.symlink(target, os.path.join(folder, name))


def main():
    nightly = "--nightly" in sys.argv
    page, folder, source = [word for word in sys.argv[1:] if word != "--nightly"]
    checked = Page(page, folder, source, nightly)
    stage(folder, source)
    for block in checked.blocks:
        checked.check(block)
    print("\n\n".join(checked.failures) or f"{checked.ran} commands in {len(checked.blocks)} blocks")
    return bool(checked.failures)


if __name__ == "__main__":
    sys.exit(main())
