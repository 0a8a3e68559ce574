"""Runs plans of moec: language models compiled for one machine.

    import moert

    with moert.Engine("plan.fb") as engine:
        for event in engine.stream("In the beginning", max_tokens=40):
            print(event, end="")
        answer = engine.chat([{"role": "user", "content": "Name a colour."}], schema={"enum": ["red", "blue"]})
        print(answer.text)
"""
from ._abi import LIB as _LIB
from ._generation import AsyncGeneration, Generation
from .engine import Engine, ModelInfo
from .errors import (CancelledError, DoesNotFitError, Error, FileError, InternalError, InvalidFileError,
                     UnsupportedError, UsageError, WrongMachineError)
from .options import Constraint, Options
from .results import Embedding, Event, Logprob, Result, ToolCall, Usage
from .session import Session

__version__: str = _LIB.moert_version().decode()
__all__ = ["AsyncGeneration", "CancelledError", "Constraint", "DoesNotFitError", "Embedding", "Engine", "Error", "Event", "FileError",
           "Generation", "InternalError", "InvalidFileError", "Logprob", "ModelInfo", "Options", "Result", "Session",
           "ToolCall", "UnsupportedError", "UsageError", "Usage", "WrongMachineError"]
