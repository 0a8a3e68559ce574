"""Arrays for the library."""
from __future__ import annotations

import ctypes
from typing import Any, Iterable

from .errors import UsageError


def token_array(tokens: Iterable[int]) -> Any:
    tokens = list(tokens)
    try:
        return (ctypes.c_int32 * len(tokens))(*tokens)
    except TypeError:
        raise UsageError("tokens are numbers") from None


def float_array(count: int) -> tuple[Any, Any]:
    """Room for `count` floats for the library, and the same room for the caller: an array of numpy if that is
    installed, or else a memoryview."""
    room = (ctypes.c_float * count)()
    try:
        import numpy
    except ImportError:
        return room, memoryview(room).cast("B").cast("f")
    return room, numpy.ctypeslib.as_array(room)
