"""What is generated: events as they come, and results."""
from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

EventKind = Literal["text", "reasoning", "call", "arguments", "call_end"]
#: Why a text ended: its length was limited, the model ended it, a stop string came, the context is full, or it calls
#: tools.
Finish = Literal["length", "end", "stop", "context", "calls"]


@dataclass(frozen=True)
class Logprob:
    """A token with the natural logarithm of its probability, and the most likely ones in its place."""
    token: int
    logprob: float
    top: list[tuple[int, float]]


@dataclass(frozen=True)
class Event:
    """A piece of a text. `str(event)` is its text, "" for anything but the answer."""
    kind: EventKind
    #: Of the answer or the reasoning; of "call": the tool's name; of "arguments": the next piece of their JSON.
    text: str
    #: Of "call", "arguments" and "call_end": which call, from 0.
    call: int = 0
    #: Of "call": its name, to which the tool's answer refers.
    id: str = ""
    #: Of "text", if they were asked for.
    logprobs: list[Logprob] = field(default_factory=list)

    def __str__(self) -> str:
        return self.text if self.kind == "text" else ""


@dataclass
class ToolCall:
    """A call of a tool. `arguments` is JSON text, which json() parses."""
    id: str
    name: str
    arguments: str = ""

    def json(self) -> Any:
        return json.loads(self.arguments)

    def message(self) -> dict[str, Any]:
        """The call as `tool_calls` of the next request's messages have it."""
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}


@dataclass(frozen=True)
class Usage:
    """Tokens and seconds of one text or embedding."""
    prompt_tokens: int
    #: Of the prompt, that were not evaluated again.
    cached_tokens: int
    generated_tokens: int
    drafted_tokens: int
    accepted_tokens: int
    queue_seconds: float
    prompt_seconds: float
    decode_seconds: float


@dataclass
class Embedding:
    """The pooled hidden state of a text, of length 1: float32, as an array of numpy if that is installed, or else as a
    memoryview."""
    values: Any
    usage: Usage


@dataclass
class Result:
    """A whole text."""
    text: str
    reasoning: str
    calls: list[ToolCall]
    logprobs: list[Logprob]
    tokens: list[int]
    finish: Finish
    #: The index of the stop string that ended it, or -1.
    stop: int
    usage: Usage

    def json(self) -> Any:
        """The text parsed as JSON, for one that a schema holds."""
        return json.loads(self.text)

    def message(self) -> dict[str, Any]:
        """The text as a message of the next request's conversation."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            message["tool_calls"] = [call.message() for call in self.calls]
        return message
