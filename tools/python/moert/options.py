"""How texts are generated."""
from __future__ import annotations

import ctypes
import dataclasses
import json
import threading
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Sequence

from . import _abi
from ._abi import LIB
from .errors import UsageError, failure

# Constraints need a handle for their errors alone.
_COMPILER = LIB.moert_create()
_COMPILER_LOCK = threading.Lock()


class Constraint:
    """What a text must follow, compiled once for any number of texts and engines.

    Raises UsageError, naming the place, for parts that are not supported: nothing is ignored.
    """

    def __init__(self, kind: int, text: str) -> None:
        data, handle = text.encode(), ctypes.c_void_p()
        self.handle: Optional[int] = None
        with _COMPILER_LOCK:
            status = LIB.moert_constraint_create(_COMPILER, kind, data, len(data), ctypes.byref(handle))
            if status != 0:
                raise failure(status, LIB.moert_last_error(_COMPILER).decode(), "")
        self.handle = handle.value

    def __del__(self) -> None:
        if self.handle:
            LIB.moert_constraint_destroy(self.handle)

    @classmethod
    def schema(cls, schema: Mapping[str, Any]) -> Constraint:
        """JSON that this schema allows."""
        return cls(0, json.dumps(schema))

    @classmethod
    def grammar(cls, gbnf: str) -> Constraint:
        """A grammar in llama.cpp's notation."""
        return cls(1, gbnf)

    @classmethod
    def regex(cls, pattern: str) -> Constraint:
        """Texts that this expression matches as a whole."""
        return cls(2, pattern)

    @classmethod
    def choices(cls, texts: Sequence[str]) -> Constraint:
        """One of these texts."""
        return cls(3, json.dumps(list(texts)))


@dataclass(frozen=True)
class Options:
    """How a text after a prompt is generated. The defaults are those of moert run."""
    #: -1: until the model ends its text.
    max_tokens: int = -1
    #: 0: the most likely token.
    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    repeat_last_n: int = 64
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int = 0
    #: Texts that end the text; not shown.
    stop: Sequence[str] = ()
    ignore_eos: bool = False
    #: Added to the logits of tokens.
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    constraint: Optional[Constraint] = None
    #: How many alternatives to report of each token, with their probabilities; -1: no probabilities.
    logprobs: int = -1
    #: Whether reasoning is separated from the answer: the prompt is a conversation.
    is_chat: bool = False
    #: Whose share of the engine it uses, and which of its texts comes first.
    client: str = ""
    priority: int = 0

    def changed(self, fields: Mapping[str, Any]) -> Options:
        known = {each.name for each in dataclasses.fields(self)}
        for name in fields:
            if name not in known:
                raise UsageError(f"there is no option {name!r}: expected one of {', '.join(sorted(known))}")
        return dataclasses.replace(self, **fields)

    def to_c(self) -> _abi.GenerateOptions:
        result = _abi.GenerateOptions()
        LIB.moert_default_generate_options(ctypes.byref(result))
        for name in ("max_tokens", "temperature", "top_k", "top_p", "min_p", "repeat_penalty", "repeat_last_n",
                     "presence_penalty", "frequency_penalty", "seed", "ignore_eos"):
            setattr(result, name, getattr(self, name))
        stops = [self.stop] if isinstance(self.stop, str) else self.stop
        result.stops = (ctypes.c_char_p * len(stops))(*(each.encode() for each in stops))
        result.stop_count = len(stops)
        count = len(self.logit_bias)
        result.bias_tokens = (ctypes.c_int32 * count)(*self.logit_bias)
        result.biases = (ctypes.c_float * count)(*self.logit_bias.values())
        result.bias_count = count
        return result
