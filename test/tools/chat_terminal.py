#!/usr/bin/env python3
"""moert chat as a person types it, in a terminal.

  chat_terminal.py --bin FOLDER --model MODEL.gguf --work DIR [--fetched MODEL.gguf]

With --fetched only README's conversation with that model is had.
"""
import argparse
import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time

import chat_model

PROMPT = "> "
CTRL_C, CTRL_D, UP, LEFT, BACKSPACE = "\x03", "\x04", "\x1b[A", "\x1b[D", "\x7f"


def paste(text):
    """As a terminal sends it that was asked to mark pastes."""
    return f"\x1b[200~{text}\x1b[201~"


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, command, folder, environment):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(command[0], command, environment)
        # The output, and the output without the marks for pasted text.
        self.raw, self.shown, self.told = "", "", 0

    def type(self, keys):
        self.told = len(self.shown)
        os.write(self.fd, keys.encode())

    def read(self, seconds):
        """Takes what comes within that time; False where there will be no more."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        self.raw += data.decode(errors="replace")
        self.shown = re.sub(r"\x1b\[\?2004[hl]", "", self.raw)
        return bool(data)

    def wait(self, pattern, seconds=60):
        """What was shown since the last type(), once it has `pattern`."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.shown[self.told:]):
            if time.monotonic() > end or not self.read(0.5):
                raise AssertionError(f"no {pattern!r} after {self.shown[self.told:]!r}")
        return self.shown[self.told:]

    def wait_for_prompt(self):
        """A prompt at a line's start and nothing behind it for a while."""
        self.wait(r"(^|[\r\n])[^\r\n]*> $")
        before = None
        while before != len(self.shown):
            before = len(self.shown)
            self.read(0.2)
        return self.shown[self.told:]

    def say(self, text):
        """A line and what comes of it."""
        self.type(text + "\r")
        return self.wait_for_prompt()

    def end(self, keys=CTRL_D):
        """The exit code, negative for a signal."""
        self.type(keys)
        while self.read(60):
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class Checks:
    def __init__(self, arguments):
        self.bin, self.work = os.path.abspath(arguments.bin), os.path.abspath(arguments.work)
        self.moert = os.path.join(self.bin, "moert")
        self.environment = {**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", "HOME": self.work}
        self.environment.pop("NO_COLOR", None)
        self.model = os.path.abspath(arguments.model)

    def compile(self, name, *options, model=None):
        subprocess.run([os.path.join(self.bin, "moec"), "compile", model or self.model, "--weights", "reference",
                        "-o", name] + list(options), check=True, cwd=self.work, stderr=subprocess.DEVNULL)
        return name

    def make_chat_model(self, name):
        subprocess.run([sys.executable, chat_model.__file__, name], check=True, cwd=self.work)
        return name

    def chat(self, plan, *options, **environment):
        temperature = [] if "--temp" in options else ["--temp", "0"]
        chat = Terminal([self.moert, "chat", plan] + temperature + list(options), self.work,
                        {**self.environment, **environment})
        chat.wait_for_prompt()
        return chat

    def messages(self, chat):
        """The conversation as the chat has it."""
        chat.say("/save saved.json")
        with open(os.path.join(self.work, "saved.json")) as file:
            return json.load(file)["messages"]

    def tokens(self, plan, text):
        done = subprocess.run([self.moert, "tokenize", plan, "--no-bos", "--text", text], cwd=self.work, check=True,
                              capture_output=True, text=True)
        return json.loads(done.stdout)

    def last_said(self, chat):
        return [message["content"] for message in self.messages(chat) if message["role"] == "user"][-1]


def check_editing(checks, plan):
    chat = checks.chat(plan, "-n", "8")
    assert "no chat template" in chat.shown, chat.shown
    chat.say("In the beginning God created")
    first = checks.messages(chat)
    assert [m["role"] for m in first] == ["user", "assistant"] and first[1]["content"], first
    # Mistakes can be corrected before Enter.
    chat.say("the earht" + BACKSPACE * 2 + "th" + LEFT * 5 + "good ")
    assert checks.last_said(chat) == "the good earth", checks.last_said(chat)
    chat.say("été" + LEFT * 2 + BACKSPACE + "É")
    assert checks.last_said(chat) == "Été", checks.last_said(chat)
    # The history has the messages and commands from before.
    chat.say("and God said")
    chat.say(UP + " unto him")
    assert checks.last_said(chat) == "and God said unto him", checks.last_said(chat)
    # Lines that are pasted are one message, with what is typed before and after.
    assert "\x1b[?2004h" in chat.raw, "pastes are not marked"
    chat.say(paste("one\rtwo\rthree"))
    assert checks.last_said(chat) == "one\ntwo\nthree", checks.last_said(chat)
    chat.type("and " + paste("four\r\rfive"))
    time.sleep(0.5)
    chat.say(" six")
    assert checks.last_said(chat) == "and four\n\nfive six", checks.last_said(chat)
    chat.say(paste("if a:\n\tpass") + LEFT * 4 + BACKSPACE)
    assert checks.last_said(chat) == "if a:\npass", checks.last_said(chat)
    long = "\r".join(f"line {i} of it" for i in range(40))
    chat.say("/reset")
    chat.say(paste(long))
    assert checks.last_said(chat) == long.replace("\r", "\n"), checks.last_said(chat)
    # Lines that are typed are messages and commands, however fast.
    chat.say("/reset")
    chat.type("/stats\rone\r/stats\rtwo\r")
    chat.wait(r"(?s)(context:.*){2}two")
    chat.wait_for_prompt()
    said = [message["content"] for message in checks.messages(chat) if message["role"] == "user"]
    assert said == ["one", "two"], said
    # Lines typed slowly, joined by a person.
    chat.say("/reset")
    chat.type("first\\\r")
    chat.wait(r"\| $")
    chat.say("second")
    assert checks.last_said(chat) == "first\nsecond", checks.last_said(chat)
    chat.type('"""\r')
    chat.wait(r"\| $")
    chat.type("in a\r")
    chat.wait(r"\| $")
    chat.type("block\r")
    chat.wait(r"\| $")
    chat.say('"""')
    assert checks.last_said(chat) == "in a\nblock", checks.last_said(chat)
    # Ctrl-C drops the line, not the program.
    chat.type("never said" + CTRL_C)
    chat.wait("Ctrl-D or /exit ends")
    chat.wait_for_prompt()
    chat.say("but this")
    assert checks.last_said(chat) == "but this", checks.last_said(chat)
    chat.say("/system Thou art a king")
    chat.say("speak")
    assert [m["role"] for m in checks.messages(chat)] == ["system", "user", "assistant"]
    chat.say("/load saved.json")
    assert "no command" in chat.say("/nosuch")
    assert "were cached" in chat.say("/stats")
    assert chat.end() == 0
    # Tests other ways to end, and other terminals.
    assert checks.chat(plan, "-n", "4").end("/exit\r") == 0
    for term in ("dumb", "nosuchterminal"):
        chat = checks.chat(plan, "-n", "4", TERM=term)
        chat.say("and he")
        chat.type("one\rtwo\r")
        chat.wait("two")
        chat.wait_for_prompt()
        assert checks.last_said(chat) == "two", checks.last_said(chat)
        assert chat.end() == 0
        assert term != "dumb" or "\x1b" not in chat.raw, chat.raw


def check_turns(checks, plan):
    """What was evaluated before is not again, though the model's own words are cut otherwise than text."""
    chat = checks.chat(plan, "-n", "16", "--temp", "3", "--seed", "5")
    chat.say("In the beginning")
    chat.say("and then")
    # The last token of the answer, a line's end and two words.
    new = 1 + len(checks.tokens(plan, "\nand then"))
    stats = chat.say("/stats")
    assert re.search(rf" {new} new tokens .* (\d\d+) were cached", stats), (new, stats)
    # A new conversation has all of the context.
    chat.say("/reset")
    stats = chat.say("/stats")
    assert re.search(r"context: +0 of \d+ tokens", stats), stats
    assert chat.end() == 0


def check_interrupts(checks, plan):
    """With kernels so slow that a person can stop an answer."""
    chat = checks.chat(plan)
    for _ in range(3):
        chat.type("In the beginning God created the heaven\r")
        chat.wait(r"created the heaven\r\n.*\w")
        chat.type(CTRL_C)
        shown = chat.wait_for_prompt()
        assert "(stopped)" in shown, shown
    messages = checks.messages(chat)
    assert len(messages) == 6 and all(m["content"] for m in messages), messages
    assert chat.end() == 0
    # Ctrl-C while a prompt is evaluated takes the message back.
    long = "And it came to pass " * 80
    chat = checks.chat(plan)
    chat.type(long + "\r")
    chat.wait(r"pas[^\r\n]*\r\n")
    time.sleep(0.3)  # Without a pause, folded lines look like the end of the message.
    chat.type(CTRL_C)
    shown = chat.wait_for_prompt()
    assert "taken back" in shown, shown
    assert checks.messages(chat) == []
    assert chat.end() == 0
    # The result is the same if the message was there before the chat.
    with open(os.path.join(checks.work, "waiting.json"), "w") as file:
        json.dump([{"role": "user", "content": long}], file)
    chat = Terminal([checks.moert, "chat", plan, "--messages", "waiting.json"], checks.work, checks.environment)
    chat.wait("lists commands")
    time.sleep(0.3)
    chat.type(CTRL_C)
    shown = chat.wait_for_prompt()
    assert "taken back" in shown, shown
    assert chat.end() == 0
    # Lines typed during an answer wait for its end, one by one.
    chat = checks.chat(plan, "-n", "30")
    chat.type("In the beginning God created the heaven\r")
    chat.wait(r"created the heaven\r\n.*\w")
    chat.type("/stats\rand the earth\r")
    chat.wait(r"(?s)were cached.*> .*the earth")
    chat.wait_for_prompt()
    said = [message["content"] for message in checks.messages(chat) if message["role"] == "user"]
    assert said == ["In the beginning God created the heaven", "and the earth"], said
    assert chat.end() == 0


def check_reasoning(checks, plan):
    with open(os.path.join(checks.work, "chat.jinja"), "w") as file:
        file.write("{% for m in messages %}{{ m.content }}\n{% endfor %}{% if enable_thinking %}<think>\n{% endif %}")
    chat = checks.chat(plan, "-n", "4", "--template", "chat.jinja", "--think", "force")
    assert "\x1b[2m" in chat.say("And God said") and "\x1b[22m" in chat.shown
    assert checks.messages(chat)[-1]["reasoning_content"]
    chat.say("/think off")
    shown = chat.say("And God said")
    assert "\x1b[2m" not in shown, shown
    assert chat.end() == 0
    chat = checks.chat(plan, "-n", "4", "--template", "chat.jinja", "--think", "force", NO_COLOR="1")
    assert "\x1b[2m" not in chat.say("And God said")
    assert chat.end() == 0


def check_template(checks):
    """A model with a template of its own, with turns that end and with reasoning."""
    plan = checks.compile("template.fb", model=checks.make_chat_model("template.gguf"))
    thought, answer = "".join(chat_model.THOUGHT), "".join(chat_model.ANSWER)
    dim = re.escape(f"\x1b[2m{thought}") + r"\s*" + re.escape("\x1b[22m")
    chat = checks.chat(plan)
    assert "no chat template" not in chat.shown, chat.shown
    shown = chat.say("What do you know?")
    # The output has no marks of reasoning and of the turn's end.
    assert re.search(dim + r"\s*" + re.escape(answer) + r"\s*\n> $", shown) and "<" not in shown, shown
    said = {"role": "assistant", "content": answer, "reasoning_content": thought, "thinking": thought}
    assert checks.messages(chat) == [{"role": "user", "content": "What do you know?"}, said], checks.messages(chat)
    chat.say("/think off")
    shown = chat.say("And what else?")
    assert re.search(r"else\?\s*" + re.escape(answer) + r"\s*\n> $", shown) and thought not in shown, shown
    assert checks.messages(chat)[-1] == {"role": "assistant", "content": answer}
    # What the model said stays as it said it; what is new begins with the end of its turn.
    new = "<|im_end|>\n<|im_start|>user\nIs that all?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    chat.say("Is that all?")
    stats = chat.say("/stats")
    assert f" {len(checks.tokens(plan, new))} new tokens " in stats, stats
    chat.say("/think hide")
    shown = chat.say("Think again.")
    assert answer in shown and thought not in shown and "\x1b[2m" not in shown, shown
    assert checks.messages(chat)[-1] == said
    assert chat.end() == 0
    run = subprocess.run([checks.moert, "run", plan, "--chat", "-p", "And for programs?", "--think", "hide"],
                         cwd=checks.work, capture_output=True, text=True)
    assert run.returncode == 0 and run.stdout == answer + "\n", run
    shown = subprocess.run([os.path.join(checks.bin, "moec"), "model", "template.gguf", "--template"], cwd=checks.work,
                           capture_output=True, text=True).stdout
    assert shown.rstrip("\n") == chat_model.TEMPLATE, shown


def check_pages(checks, page, how):
    """A page's conversations can be had; models answer otherwise on other machines, but for the one that cannot."""
    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(os.path.join(source, page)) as file:
        blocks = re.findall(r"<!-- not checked: typed by test/tools/chat_terminal.py(, [\w ]+)? -->\n\n"
                            r"((?:    .*\n|\n)+)", file.read())
    assert {kind for kind, _ in blocks} == how, (page, blocks)
    os.makedirs(os.path.join(checks.work, "build"))
    os.symlink(checks.bin, os.path.join(checks.work, "build/bin"))
    for folder in ("models", "test"):
        os.symlink(os.path.join(source, folder), os.path.join(checks.work, folder))
    for kind, block in blocks:
        lines = [line[4:] for line in block.splitlines()]
        *before, command = [line[2:] for line in lines if line.startswith("$ ")]
        for each in before:
            subprocess.run(each, shell=True, check=True, cwd=checks.work, env=checks.environment,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        chat = Terminal(["bash", "-c", command], checks.work, checks.environment)
        chat.wait_for_prompt()
        turns = re.findall(r"^> (.*)\n((?:(?!> ).*\n)*)", "\n".join(lines) + "\n", re.MULTILINE)
        for line, answer in turns:
            shown = chat.say(line)
            assert "error:" not in shown and (line.startswith("/") or len(shown) > len(line) + 10), shown
            if kind == ", word for word":
                shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", shown)
                assert shown.endswith(line + "\n" + answer.rstrip("\n") + ("\n> " if answer.strip() else "> ")), (answer, shown)
        assert len(turns) >= 2 and chat.end() == 0, block


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--bin", "--model", "--work"):
        p.add_argument(name, required=True)
    p.add_argument("--fetched")
    arguments = p.parse_args()
    checks = Checks(arguments)
    shutil.rmtree(checks.work, ignore_errors=True)
    os.makedirs(checks.work)
    if arguments.fetched:
        checks.compile("smollm2.fb", model=os.path.abspath(arguments.fetched))
        check_pages(checks, "README.md", {", nightly"})
        print("ok")
        return
    fast = checks.compile("plan.fb")
    target = json.loads(subprocess.run([os.path.join(checks.bin, "moec"), "targets", "native", "--json"],
                                       check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)
    target["devices"] = [{**device, "isa": "ref"} for device in target["devices"] if "cpu" in device["name"]]
    with open(os.path.join(checks.work, "slow.json"), "w") as file:
        json.dump(target, file)
    slow = checks.compile("slow.fb", "--target-file", "slow.json")
    check_editing(checks, fast)
    check_turns(checks, fast)
    check_reasoning(checks, fast)
    check_template(checks)
    check_interrupts(checks, slow)
    check_pages(checks, "tools/README.md", {"", ", word for word"})
    print("ok")


if __name__ == "__main__":
    sys.exit(main())
