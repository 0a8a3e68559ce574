"""Texts that a program evaluates itself."""
from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any, Optional, Sequence, Union

from . import _abi
from ._abi import LIB
from ._arrays import float_array, token_array
from .errors import UsageError
from .options import Options

if TYPE_CHECKING:
    from .engine import Engine

#: A text, which becomes tokens, or tokens.
Prompt = Union[str, Sequence[int]]


class Session:
    """A text on an engine, whose cache holds it: append to it, go back in it, copy it, keep it in a file."""

    def __init__(self, engine: Engine, handle: int) -> None:
        self._engine = engine
        self._handle: Optional[int] = handle

    def _live(self) -> int:
        if self._handle is None:
            raise UsageError("the session is closed")
        return self._handle

    def __len__(self) -> int:
        """The number of tokens in the cache."""
        return int(LIB.moert_sequence_position(self._live()))

    def append(self, prompt: Prompt) -> None:
        """Evaluates the prompt after the text. A text begins with the model's token for beginnings if it is the
        first one."""
        ids = self._ids(prompt)
        self._engine._call(LIB.moert_evaluate, self._live(), ids, len(ids), None)

    def logits(self, prompt: Prompt) -> Any:
        """Evaluates the prompt after the text and returns the logits after it: one float32 per token of the
        vocabulary."""
        ids = self._ids(prompt)
        room, view = float_array(self._engine.vocabulary)
        self._engine._call(LIB.moert_evaluate, self._live(), ids, len(ids), room)
        return view

    def generate(self, prompt: Prompt, options: Optional[Options] = None, **fields: Any) -> str:
        """Evaluates the prompt after the text, generates a reply and returns it; both are then part of the text, but
        for the reply's last token. Options for constraints, probabilities and shares are not for sessions."""
        options = (options or Options()).changed(fields)
        if options.constraint or options.logprobs >= 0:
            raise UsageError("a session takes no constraint and reports no probabilities: use Engine.generate()")
        ids, given = self._ids(prompt), options.to_c()
        pieces: list[bytes] = []

        def keep(_: int, text: int, size: int) -> int:
            pieces.append(ctypes.string_at(text, size))
            return 0

        collect = _abi.TEXT_CALLBACK(keep)
        self._engine._call(LIB.moert_generate, self._live(), ids, len(ids), ctypes.byref(given),
                           ctypes.cast(collect, ctypes.c_void_p), None, None)
        return b"".join(pieces).decode()

    def cancel(self) -> None:
        """Ends a call that another thread makes, which then raises CancelledError."""
        LIB.moert_cancel(self._live())

    def rewind(self, position: int) -> None:
        """Removes all tokens from `position` on."""
        self._engine._call(LIB.moert_sequence_rewind, self._live(), position)

    def fork(self) -> Session:
        """Another session with the same text, which shares its pages of the cache."""
        handle = ctypes.c_void_p()
        self._engine._call(LIB.moert_sequence_fork, self._live(), ctypes.byref(handle))
        return self._engine._adopt(handle)

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the text with its cache to a file for Engine.restore()."""
        self._engine._call(LIB.moert_sequence_save, self._live(), os.fsencode(path))

    def close(self) -> None:
        """Gives its pages back."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._engine._release(handle)

    def _ids(self, prompt: Prompt) -> Any:
        if isinstance(prompt, str):
            return token_array(self._engine.tokenize(prompt, add_bos=len(self) == 0))
        return token_array(prompt)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()
