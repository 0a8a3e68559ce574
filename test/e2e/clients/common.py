"""What checks of clients share: what they drive, how they are registered, and the requests that several make."""
import contextlib
import json
import time
import urllib.request
from dataclasses import dataclass

import pydantic

MODEL = "model"
MESSAGES = [{"role": "user", "content": "Say hello."}]
# Enough for the calls and objects below, whose texts are bounded: an unlucky model pads them with spaces.
ENOUGH = 300


class City(pydantic.BaseModel):
    """A schema whose texts end by themselves, whatever the model."""
    model_config = pydantic.ConfigDict(extra="forbid")
    name: str = pydantic.Field(max_length=8)
    size: int = pydantic.Field(ge=0, le=99)


TOOL = "look_up"
TOOL_TEXT = "Looks a word up."
TOOL_SCHEMA = {"type": "object", "properties": {"word": {"type": "string", "maxLength": 8}}, "required": ["word"],
               "additionalProperties": False}
# The form of OpenAI and Ollama.
FUNCTION_TOOL = {"type": "function", "function": {"name": TOOL, "description": TOOL_TEXT, "parameters": TOOL_SCHEMA}}


@dataclass(frozen=True)
class Target:
    """A server and what its model can do.

    Traits: "text" (completes), "chat" (has a template), "reasons", "tools" (has a form for calls), "calls" (answers with
    a call wherever it may), "slow" (so slow that a client can leave meanwhile); and of servers: "keys" (wants KEY) and
    "full" (serves one text at a time while one waits).
    """
    base: str
    traits: frozenset

    def get(self, path):
        with urllib.request.urlopen(self.base + path) as answer:
            return json.load(answer)


KEY = "a-key-of-the-test"
# (name, traits needed, function), in the order of their files.
CHECKS = []


def check(*traits):
    """Registers a check that takes a target with all of these traits."""
    def register(function):
        name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
        CHECKS.append((name, frozenset(traits), function))
        return function
    return register


@contextlib.contextmanager
def refused(kind):
    """The body raises this error of a client, which the value of `with` has afterwards."""
    caught = []
    try:
        yield caught
    except kind as error:
        caught.append(error)
        return
    raise AssertionError(f"expected {kind.__name__}")


def wait_idle(target):
    """Clients that left free their places."""
    deadline = time.monotonic() + 20
    while target.get("/slots"):
        assert time.monotonic() < deadline, "a client that left keeps its place"
        time.sleep(0.05)


def check_word(arguments):
    """Arguments of a call follow TOOL_SCHEMA."""
    value = json.loads(arguments) if isinstance(arguments, str) else arguments
    assert set(value) == {"word"} and len(value["word"]) <= 8, value
    return value
