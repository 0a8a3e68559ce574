"""What can go wrong. Every error has a message, which names the place, and the command that corrects it, if any."""
from __future__ import annotations


class Error(Exception):
    """A failure of the library."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(f"{message}\nnext: {remedy}" if remedy else message)
        self.message = message
        #: A command line for a POSIX shell, or "". The word MODEL in it stands for the model file.
        self.remedy = remedy


class InternalError(Error):
    """A bug in the library."""


class UsageError(Error, ValueError):
    """An argument is wrong."""


class InvalidFileError(Error):
    """A plan or model file is malformed."""


class FileError(Error, OSError):
    """The operating system refused."""

    def __str__(self) -> str:
        return Exception.__str__(self)


class DoesNotFitError(Error):
    """Memory, context, cache or the queue cannot hold it."""


class UnsupportedError(Error):
    """Well-formed, but not implemented, or not possible with this model."""


class WrongMachineError(Error):
    """The plan is for another CPU, GPU or model."""


class CancelledError(Error):
    """The work was cancelled by another thread, or because the engine was closed."""


BY_STATUS: dict[int, type[Error]] = {
    1: InternalError,
    2: UsageError,
    3: InvalidFileError,
    4: FileError,
    5: DoesNotFitError,
    6: UnsupportedError,
    7: WrongMachineError,
    130: CancelledError,
}


def failure(status: int, message: str, remedy: str) -> Error:
    """The error for a status that is not 0."""
    return BY_STATUS.get(status, InternalError)(message or f"status {status}", remedy)
