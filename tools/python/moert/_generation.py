"""Texts that are being generated: how their events come from the scheduler to whoever waits for them."""
from __future__ import annotations

import asyncio
import ctypes
import queue
import threading
from typing import Any, AsyncIterator, Callable, Iterator, Optional, Union

from . import _abi
from ._abi import LIB
from ._arrays import float_array
from .errors import CancelledError, Error, failure
from .results import Embedding, Event, EventKind, Finish, Logprob, Result, ToolCall, Usage

_KINDS: dict[int, EventKind] = {_abi.TEXT: "text", _abi.REASONING: "reasoning", _abi.CALL: "call",
                                _abi.CALL_ARGUMENTS: "arguments", _abi.CALL_END: "call_end"}
_REASONS: tuple[Finish, ...] = ("length", "end", "stop", "context")

#: How it ends: with the whole text or the embedding, or why there is none.
Last = Union[Result, Embedding, Error]
#: What a feed hands on.
Item = Union[Event, Last]


class Feed:
    """One generation, as the thread that receives events sees it."""

    def __init__(self, put: Callable[[Item], None]) -> None:
        self._put = put
        self._lock = threading.Lock()
        self._handle: Optional[int] = None
        self._wants_cancel = self._has_ended = False
        self._texts: dict[str, list[str]] = {"text": [], "reasoning": []}
        self._calls: list[ToolCall] = []
        self._logprobs: list[Logprob] = []

    def begin(self, handle: int) -> None:
        """Tells which generation it is, which may have ended already."""
        with self._lock:
            if self._has_ended:
                return
            self._handle = handle
            if self._wants_cancel:
                LIB.moert_generation_cancel(handle)

    def cancel(self) -> None:
        with self._lock:
            self._wants_cancel = True
            if self._handle is not None:
                LIB.moert_generation_cancel(self._handle)

    def receive(self, handle: int) -> bool:
        """Takes all events that have come; returns whether the last one is among them."""
        event = ctypes.POINTER(_abi.Event)()
        while True:
            LIB.moert_generation_next(handle, 0, ctypes.byref(event))
            if not event:
                return False
            item = self._item(event.contents)
            is_end = not isinstance(item, Event)
            if is_end:
                with self._lock:
                    self._handle, self._has_ended = None, True
                LIB.moert_generation_destroy(handle)
            try:
                self._put(item)
            except RuntimeError:  # The event loop that waited for it is closed.
                self.cancel()
            if is_end:
                return True

    def _item(self, event: Any) -> Item:
        if event.kind == _abi.END:
            return self._end(event)
        kind = _KINDS[event.kind]
        text = ctypes.string_at(event.text, event.bytes).decode()
        logprobs = [Logprob(each.chosen.token, each.chosen.logprob,
                            [(other.token, other.logprob) for other in each.top[:each.top_count]])
                    for each in event.logprobs[:event.logprob_count]] if event.logprob_count else []
        if kind == "call":
            self._calls.append(ToolCall((event.id or b"").decode(), text))
        elif kind == "arguments":
            self._calls[event.call].arguments += text
        elif kind in self._texts:
            self._texts[kind].append(text)
        self._logprobs += logprobs
        return Event(kind, text, event.call, (event.id or b"").decode(), logprobs)

    def _end(self, event: Any) -> Last:
        if event.status != 0:
            return failure(event.status, event.error.decode(), event.remedy.decode())
        stats = event.stats.contents
        usage = Usage(*(getattr(stats, each[0]) for each in _abi.GenerationStats._fields_))
        if event.embedding_count:
            room, values = float_array(event.embedding_count)
            ctypes.memmove(room, event.embedding, ctypes.sizeof(room))
            return Embedding(values, usage)
        reason = _REASONS[event.reason]
        return Result(text="".join(self._texts["text"]), reasoning="".join(self._texts["reasoning"]),
                      calls=self._calls, logprobs=self._logprobs, tokens=event.tokens[:event.token_count],
                      finish="calls" if self._calls and reason in ("end", "stop") else reason, stop=event.stop,
                      usage=usage)


class Generation:
    """A text that is being generated: iterate over its events, or wait for its result().

    It is cancelled when it is closed, left by an exception, or forgotten. Not for several threads.
    """

    def __init__(self) -> None:
        self._items: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self.feed = Feed(self._items.put)
        self._last: Optional[Last] = None

    def __iter__(self) -> Iterator[Event]:
        while self._last is None:
            item = self._items.get()
            if isinstance(item, Event):
                yield item
            else:
                self._last = item
        if isinstance(self._last, Error):
            raise self._last

    def result(self) -> Result:
        """Waits for the end, and returns the whole text. Raises CancelledError after cancel()."""
        last = self._end()
        assert isinstance(last, Result)
        return last

    def embedding(self) -> Embedding:
        """The result of Engine.embed()."""
        last = self._end()
        assert isinstance(last, Embedding)
        return last

    def _end(self) -> Optional[Last]:
        try:
            for _ in self:
                pass
        except BaseException:
            self.cancel()
            raise
        return self._last

    def cancel(self) -> None:
        """Ends the text within a step. May be called from any thread."""
        self.feed.cancel()

    close = cancel

    def __enter__(self) -> Generation:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()

    def __del__(self) -> None:
        self.feed.cancel()


class AsyncGeneration:
    """A text that is being generated, for asyncio: `async for` over its events, or await its result().

    When the task that waits for it is cancelled, so is the text.
    """

    def __init__(self) -> None:
        self._items: asyncio.Queue[Item] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        items = self._items

        def put(item: Item) -> None:
            loop.call_soon_threadsafe(items.put_nowait, item)

        self.feed = Feed(put)
        self._last: Optional[Last] = None

    async def __aiter__(self) -> AsyncIterator[Event]:
        try:
            while self._last is None:
                item = await self._items.get()
                if isinstance(item, Event):
                    yield item
                else:
                    self._last = item
        except (asyncio.CancelledError, GeneratorExit):
            self.cancel()
            raise
        if isinstance(self._last, Error):
            raise self._last

    async def result(self) -> Result:
        """Waits for the end, and returns the whole text. Raises CancelledError after cancel()."""
        last = await self._end()
        assert isinstance(last, Result)
        return last

    async def embedding(self) -> Embedding:
        """The result of Engine.embed_async()."""
        last = await self._end()
        assert isinstance(last, Embedding)
        return last

    async def _end(self) -> Optional[Last]:
        async for _ in self:
            pass
        return self._last

    def cancel(self) -> None:
        """Ends the text within a step. May be called from any thread."""
        self.feed.cancel()

    async def __aenter__(self) -> AsyncGeneration:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cancel()

    def __del__(self) -> None:
        self.feed.cancel()


class Pump:
    """The thread that receives the events of all generations of a scheduler."""

    def __init__(self, scheduler: int) -> None:
        self._scheduler = scheduler
        self._lock = threading.Lock()
        self._feeds: dict[int, Feed] = {}
        self._last = 0
        self._stops = False
        self._thread = threading.Thread(target=self._run, name="moert events", daemon=True)
        self._thread.start()

    def add(self, feed: Feed) -> int:
        """A number for SubmitOptions.user, by which the feed is found."""
        with self._lock:
            if self._stops:
                raise CancelledError("the engine is closed")
            self._last += 1
            self._feeds[self._last] = feed
            return self._last

    def remove(self, number: int) -> None:
        with self._lock:
            self._feeds.pop(number, None)

    def _run(self) -> None:
        handle = ctypes.c_void_p()
        while True:
            LIB.moert_scheduler_wait(self._scheduler, -1, ctypes.byref(handle))
            if not handle.value:
                if self._stops:
                    return
                continue
            number = LIB.moert_generation_user(handle)
            if self._feeds[number].receive(handle.value):
                self.remove(number)

    def stop(self) -> None:
        """Ends all generations, hands their last events on, and ends the thread."""
        with self._lock:
            self._stops = True
        LIB.moert_scheduler_drain(self._scheduler, 0, None)
        while self._feeds and self._thread.is_alive():
            self._thread.join(0.001)
        LIB.moert_scheduler_wake(self._scheduler)
        self._thread.join()
