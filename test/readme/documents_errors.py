"""Makes a project whose pages have mistakes: documents_errors.py FOLDER."""
import os
import sys

project = os.path.join(sys.argv[1], "project")
os.makedirs(os.path.join(project, "tools/new"))
os.makedirs(os.path.join(project, "test/readme"))


def write(name, lines):
    with open(os.path.join(project, name), "w") as file:
        file.write("\n".join(lines) + "\n")


write("README.md", ["# A project, tools and test"] + ["text"] * 150)
write("tools/picture.png", ["x" * 200 * 1000])
write("tools/README.md", [
    "# Tools", "", "x" * 161, "[good](../README.md#a-project-tools-and-test) `tools/README.md` `README.md` `a/b c` [self](#tools)",
    "[bad](nowhere.md)", "[bad](../README.md#no-such-heading)", "![bad](picture.png)", "`tools/gone.py`", "`gone/NAME.py`", "`Gone.h` `NAME.h`", "",
    "    tools/gone.sh tools/README.md", "", "`moec plan --no-such-option --ctx 1` `moert walk` `--no-such-option`", "`half",
    "| [Some.cpp](Some.cpp) | `Some::function` | there |", "| [Some.cpp](Some.cpp) | `Some::gone` | not there |"])
write("tools/Some.cpp", ["void Some::function() {}"])
write("blocks.md", [
    "<!-- checked -->", "", "    $ echo 2 files", "    1 file", "", "```", "$ exit 3", "```", "```", "a drawing", "```",
    "<!-- checked: maybe -->", "```", "$ exit 4", "```", "<!-- not checked: -->", "```", "$ exit 5", "```",
    "<!-- checked: numbers vary -->", "", "    $ echo 2 files", "    1 files"])
