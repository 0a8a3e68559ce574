"""Checks README.md against the tools.

Usage: check_readme.py FOLDER SOURCE. FOLDER holds the models that README names
and the project does not ship; SOURCE is the project.

A block of code with commands ("$ ...") is run, in order, in one folder, and what
it prints is compared. In a block, a line "..." stands for any number of lines.
A comment right before a block says what holds for it:

  <!-- checked: numbers vary -->   any number matches a number
  <!-- checked: output varies -->  the commands must succeed
  <!-- not checked: REASON -->     nothing is run

The reason is for people. A block without commands, such as a drawing, needs a
"not checked" too, so that none is forgotten.
"""
import os
import re
import shlex
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import tools

folder, source = sys.argv[1:]
failures = []


def fail(text):
    failures.append(text)


class Block:
    def __init__(self, line):
        self.line, self.marker, self.lines = line, "", []


def blocks_of(text):
    """Indented code: after an empty line, four spaces deep."""
    blocks, marker, before = [], "", ""
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("    ") and (before == "" or blocks and blocks[-1].open):
            if before == "" and not (blocks and blocks[-1].open):
                blocks.append(Block(number))
                blocks[-1].open, blocks[-1].marker, marker = True, marker, ""
            blocks[-1].lines.append(line[4:])
        elif line == "" and blocks and blocks[-1].open:
            blocks[-1].lines.append("")
        else:
            if blocks:
                blocks[-1].open = False
            comment = re.fullmatch(r"<!-- (.*) -->", line)
            marker = comment.group(1) if comment else marker if line == "" else ""
        before = line
    for block in blocks:
        while block.lines[-1] == "":
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
    return [(command, "\n".join(lines).rstrip("\n").split("\n")) for command, lines in steps]


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


def check_block(block):
    kind = block.marker.split(":")[0]
    steps = steps_of(block)
    if kind == "not checked":
        return
    if not steps:
        return fail(f"README.md:{block.line}: a block without commands is marked "
                    "<!-- not checked: REASON -->")
    for command, shown in steps:
        # What errors and notes say is shown where it comes.
        result = tools.run(f"({command}) 2>&1", folder)
        if result.code != 0:
            fail(f"README.md:{block.line}: {result}")
            continue
        if block.marker == "checked: output varies":
            continue
        numbers_vary = block.marker == "checked: numbers vary"
        if block.marker and not numbers_vary:
            fail(f"README.md:{block.line}: unknown marker {block.marker!r}")
        if not re.fullmatch(pattern_of(shown, numbers_vary), result.out):
            fail(f"README.md:{block.line}: shows\n" + "\n".join(shown) + f"\nbut:\n{result}")


def help_of(tool, command=None):
    result = tools.run([tool] + ([command] if command else []) + ["--help"], folder)
    if result.code != 0:
        fail(str(result))
    return result.out


def commands_of(tool):
    listed = help_of(tool).split("\nCommands:\n")[1].split("\n\n")[0]
    return set(re.findall(r"^  ([\w-]+)", listed, re.MULTILINE))


def check_commands(text):
    """The table has every command and no other; flags are in its --help."""
    table = text.split("## Commands")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(moe\w+) ([\w-]+)[^`]*`.*$", table, re.MULTILINE)
    for tool in ("moec", "moert"):
        have = commands_of(tool)
        told = {command for owner, command in rows if owner == tool}
        also = set(re.findall(rf"`{tool} ([a-z][\w-]*)", text))
        for command in sorted(have - told - also):
            fail(f"README.md does not tell of {tool} {command}")
        for command in sorted((told | also) - have):
            fail(f"README.md tells of {tool} {command}, which does not exist")
    for row in re.findall(r"^\| `moe.*$", table, re.MULTILINE):
        # Flags belong to the commands of their row.
        known = "".join(help_of(tool, command) for tool, command in re.findall(r"`(moe\w+) ([\w-]+)", row)
                        if command in commands_of(tool))
        options = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", known))
        for flag in re.findall(r"(?<=[`\[\s])--?[a-z][a-z-]*", " ".join(re.findall(r"`[^`]*`", row))):
            if flag not in options:
                fail(f"README.md: {row.split('`')[1]} has no {flag}")


with open(os.path.join(source, "README.md")) as file:
    readme = file.read()
# As after a build in a checkout.
os.makedirs(os.path.join(folder, "build"))
os.symlink(os.path.dirname(shutil.which("moec")), os.path.join(folder, "build/bin"))
os.symlink(os.path.abspath(os.path.join(source, "models")), os.path.join(folder, "models"))
found = blocks_of(readme)
for block in found:
    check_block(block)
check_commands(readme)
print("\n\n".join(failures) or f"{len(found)} blocks")
sys.exit(bool(failures))
