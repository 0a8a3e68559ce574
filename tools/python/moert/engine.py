"""Plans that are open."""
from __future__ import annotations

import ctypes
import json
import os
import threading
import weakref
from dataclasses import dataclass
from typing import Any, Literal, Mapping, Optional, Sequence, Union

from . import _abi
from ._abi import LIB
from ._arrays import token_array
from ._generation import AsyncGeneration, Feed, Generation, Pump
from .errors import UsageError, failure
from .options import Constraint, Options
from .results import Embedding, Result
from .session import Prompt, Session

Message = Mapping[str, Any]
Path = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class ModelInfo:
    """What is known of the plan and its model."""
    name: str
    architecture: str
    target: str
    compiler: str
    parameters: int
    weight_bytes: int
    layers: int
    hidden: int
    experts: int
    experts_used: int
    trained_context: int
    sequences: int
    threads: int
    context: int
    vocabulary: int
    bos: Optional[int]
    eos: Optional[int]
    has_tokenizer: bool
    has_chat_template: bool


class _Core:
    """The handles of an engine. Apart from it, so that an engine that is forgotten closes them."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.engine: Optional[int] = LIB.moert_create()
        self.scheduler: Optional[int] = None
        self.pump: Optional[Pump] = None
        self.sequences: set[int] = set()

    def close(self) -> None:
        if self.pump:
            self.pump.stop()
            self.pump = None
        with self.lock:
            LIB.moert_scheduler_destroy(self.scheduler)
            self.scheduler = None
            while self.sequences:
                LIB.moert_sequence_destroy(self.sequences.pop())
            LIB.moert_destroy(self.engine)
            self.engine = None


class Engine:
    """A plan that is open. Any thread may use it.

    generate(), stream(), chat() and batch() share the engine: texts are generated several at a time, as many as the
    plan was compiled for (`moec compile --sequences`). Sessions work between their steps.
    """

    def __init__(self, plan: Path, *, threads: int = 0, context: int = 0, model: Optional[Path] = None,
                 weights: Optional[Path] = None, allow_paging: bool = False, rung: int = 0, sequences: int = 0,
                 queue: int = 0, kept_sequences: int = 0, store: Optional[Path] = None, store_bytes: int = 0,
                 chat_template: Optional[str] = None) -> None:
        """Opens a plan that `moec compile` wrote.

        threads: at most so many, 0 is no limit. context: tokens that there must be room for. model, weights: where these files are
        now. sequences: most texts at a time. queue: most texts that wait, 0 is 4096. store: a folder that keeps
        evaluated prompts for the next process, with at most store_bytes. chat_template: a Jinja template for chat()
        instead of the model's.
        """
        core = self._core = _Core()
        self._finalizer = weakref.finalize(self, core.close)
        self._scheduling = _abi.SchedulerOptions(
            sequences=sequences, queue=queue or 4096, queue_per_client=queue or 4096, kept_sequences=kept_sequences,
            store_folder=os.fsencode(store) if store is not None else None, store_bytes=store_bytes,
            chat_template=chat_template.encode() if chat_template is not None else None)
        self._chat_template = chat_template
        options = _abi.OpenOptions(threads=threads, context=context, rung=rung, allow_paging=allow_paging,
                                   model_path=os.fsencode(model) if model is not None else None,
                                   weights_path=os.fsencode(weights) if weights is not None else None)
        try:
            self._call(LIB.moert_open, core.engine, os.fsencode(plan), ctypes.byref(options))
        except BaseException:
            self.close()
            raise
        self.vocabulary: int = LIB.moert_vocab(core.engine)

    # Texts after prompts.

    def stream(self, prompt: Prompt, options: Optional[Options] = None, **fields: Any) -> Generation:
        """Generates a text after a prompt: iterate over its events. `fields` are those of Options."""
        generation = Generation()
        self._submit(generation.feed, prompt, (options or Options()).changed(fields))
        return generation

    def generate(self, prompt: Prompt, options: Optional[Options] = None, **fields: Any) -> Result:
        """Generates a text after a prompt and waits for it."""
        return self.stream(prompt, options, **fields).result()

    def batch(self, prompts: Sequence[Prompt], options: Optional[Options] = None, **fields: Any) -> list[Result]:
        """Generates a text after each prompt, several at a time, and waits for all of them."""
        running = [self.stream(prompt, options, **fields) for prompt in prompts]
        return [each.result() for each in running]

    def stream_async(self, prompt: Prompt, options: Optional[Options] = None, **fields: Any) -> AsyncGeneration:
        """stream() for asyncio: `async for event in engine.stream_async(...)`."""
        generation = AsyncGeneration()
        self._submit(generation.feed, prompt, (options or Options()).changed(fields))
        return generation

    async def generate_async(self, prompt: Prompt, options: Optional[Options] = None, **fields: Any) -> Result:
        """generate() for asyncio. If the task is cancelled, so is the text."""
        return await self.stream_async(prompt, options, **fields).result()

    # Conversations.

    def stream_chat(self, messages: Sequence[Message], *, tools: Optional[Sequence[Mapping[str, Any]]] = None,
                    schema: Optional[Mapping[str, Any]] = None, constraint: Optional[Constraint] = None,
                    client: str = "", priority: int = 0, **fields: Any) -> Generation:
        """Generates the reply in a conversation: iterate over its events.

        messages, tools and `fields` are those of OpenAI's chat completions (tool_choice, max_tokens, temperature,
        stop, reasoning_effort, ...). With `schema` the answer is JSON that this schema allows.
        """
        generation = Generation()
        self._submit_chat(generation.feed, messages, tools, schema, constraint, client, priority, fields)
        return generation

    def chat(self, messages: Sequence[Message], **fields: Any) -> Result:
        """Generates the reply in a conversation and waits for it; keywords as in stream_chat()."""
        return self.stream_chat(messages, **fields).result()

    def stream_chat_async(self, messages: Sequence[Message], *,
                          tools: Optional[Sequence[Mapping[str, Any]]] = None,
                          schema: Optional[Mapping[str, Any]] = None, constraint: Optional[Constraint] = None,
                          client: str = "", priority: int = 0, **fields: Any) -> AsyncGeneration:
        """stream_chat() for asyncio."""
        generation = AsyncGeneration()
        self._submit_chat(generation.feed, messages, tools, schema, constraint, client, priority, fields)
        return generation

    async def chat_async(self, messages: Sequence[Message], **fields: Any) -> Result:
        """chat() for asyncio. If the task is cancelled, so is the reply."""
        return await self.stream_chat_async(messages, **fields).result()

    def chat_text(self, messages: Sequence[Message], **variables: Any) -> str:
        """The conversation as the model's template writes it, up to the beginning of the reply. `variables`, such as
        tools, are for the template."""
        options = _abi.ChatOptions(no_special=1, variables=json.dumps({**variables, "messages": list(messages)}).encode(),
                                    chat_template=self._chat_template.encode() if self._chat_template else None)
        return self._text(lambda room, size, count: self._call(
            LIB.moert_chat_text, self._handle(), None, 0, ctypes.byref(options), room, size, count)).decode()

    # Tokens.

    def tokenize(self, text: str, *, add_bos: bool = True) -> list[int]:
        """The tokens of a text; add_bos: with the one that begins texts."""
        data, count = text.encode(), ctypes.c_size_t()
        room = (ctypes.c_int32 * (len(data) + 8))()  # A token has at least one byte.
        self._call(LIB.moert_tokenize, self._handle(), data, len(data), add_bos, room, len(room), ctypes.byref(count))
        return list(room[:count.value])

    def detokenize(self, tokens: Sequence[int], *, control: bool = False) -> str:
        """The text of tokens; control: with the names of control tokens."""
        ids = token_array(tokens)
        return self._text(lambda room, size, count: self._call(
            LIB.moert_detokenize, self._handle(), ids, len(ids), int(control), room, size, count)).decode()

    def is_end(self, token: int) -> bool:
        """Whether this token ends texts or turns."""
        return bool(LIB.moert_is_end(self._handle(), token))

    # Functions that compute with the model.

    def logits(self, prompt: Prompt) -> Any:
        """The logits after a prompt: float32, one per token of the vocabulary, as an array of numpy if that is
        installed, or else as a memoryview."""
        with self.session() as session:
            return session.logits(prompt)

    def embed(self, prompts: Sequence[Prompt], *, pooling: Optional[Literal["mean", "last"]] = None, client: str = "",
              priority: int = 0) -> list[Embedding]:
        """The pooled hidden state of each prompt; pooling: None is what the model was trained for, or else the mean."""
        running = [Generation() for _ in prompts]
        for generation, prompt in zip(running, prompts):
            self._submit_embedding(generation.feed, prompt, pooling, client, priority)
        return [each.embedding() for each in running]

    async def embed_async(self, prompts: Sequence[Prompt], *, pooling: Optional[Literal["mean", "last"]] = None,
                          client: str = "", priority: int = 0) -> list[Embedding]:
        """embed() for asyncio. If the task is cancelled, so is the work."""
        running = [AsyncGeneration() for _ in prompts]
        for generation, prompt in zip(running, prompts):
            self._submit_embedding(generation.feed, prompt, pooling, client, priority)
        return [await each.embedding() for each in running]

    def session(self, *, private: bool = False) -> Session:
        """An empty session; private: it shares no pages of the cache with others."""
        handle, options = ctypes.c_void_p(), _abi.SequenceOptions(private_prefix=private)
        self._call(LIB.moert_sequence_create, self._handle(), ctypes.byref(options), ctypes.byref(handle))
        return self._adopt(handle)

    def restore(self, path: Path, *, private: bool = False) -> Session:
        """The session that Session.save() wrote with the same plan."""
        handle, options = ctypes.c_void_p(), _abi.SequenceOptions(private_prefix=private)
        self._call(LIB.moert_sequence_restore, self._handle(), os.fsencode(path), ctypes.byref(options),
                   ctypes.byref(handle))
        return self._adopt(handle)

    # Functions that return facts.

    @property
    def info(self) -> ModelInfo:
        given = _abi.ModelInfo()
        self._call(LIB.moert_get_model_info, self._handle(), ctypes.byref(given))
        words = ("name", "architecture", "target", "compiler")
        numbers = ("parameters", "weight_bytes", "layers", "hidden", "experts", "experts_used", "trained_context",
                   "sequences", "threads")
        return ModelInfo(**{name: getattr(given, name).decode() for name in words},
                         **{name: getattr(given, name) for name in numbers}, context=LIB.moert_context(self._handle()),
                         vocabulary=self.vocabulary, bos=None if given.bos < 0 else given.bos,
                         eos=None if given.eos < 0 else given.eos, has_tokenizer=bool(given.has_tokenizer),
                         has_chat_template=bool(given.has_chat_template))

    @property
    def cache(self) -> dict[str, int]:
        """page_tokens, pages, free_pages and sequences: of the KV cache, now."""
        info = _abi.CacheInfo()
        self._call(LIB.moert_get_cache_info, self._handle(), ctypes.byref(info))
        return {each[0]: getattr(info, each[0]) for each in info._fields_[1:]}

    @property
    def stats(self) -> dict[str, Union[int, float]]:
        """What the scheduler does and has done, by the names of moert_scheduler_stats."""
        stats = _abi.SchedulerStats()
        self._scheduled(LIB.moert_scheduler_get_stats, self._scheduler(), ctypes.byref(stats))
        return {each[0]: getattr(stats, each[0]) for each in stats._fields_[1:]}

    # The end.

    def close(self) -> None:
        """Ends all texts, which then raise CancelledError, and closes the sessions and the plan."""
        self._finalizer()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Calls of the library.

    def _handle(self) -> int:
        if self._core.engine is None:
            raise UsageError("the engine is closed")
        return self._core.engine

    def _call(self, function: Any, *arguments: Any) -> None:
        """Calls a function whose errors are the engine's."""
        with self._core.lock:
            handle = self._handle()
            status = function(*arguments)
            if status != 0:
                raise failure(status, LIB.moert_last_error(handle).decode(), LIB.moert_last_remedy(handle).decode())

    def _scheduled(self, function: Any, *arguments: Any) -> None:
        """Calls a function whose errors are this thread's."""
        status = function(*arguments)
        if status != 0:
            raise failure(status, LIB.moert_thread_error().decode(), LIB.moert_thread_remedy().decode())

    def _text(self, call: Any) -> bytes:
        """What a call writes that is asked for its size first."""
        count = ctypes.c_size_t()
        with self._core.lock:
            try:
                call(None, 0, ctypes.byref(count))
            except UsageError:
                if count.value == 0:
                    raise
            room = ctypes.create_string_buffer(count.value + 1)
            call(room, count.value, ctypes.byref(count))
            return room.raw[:count.value]

    def _scheduler(self) -> int:
        core = self._core
        with core.lock:
            if core.scheduler is None:
                handle = ctypes.c_void_p()
                self._call(LIB.moert_scheduler_create, self._handle(), ctypes.byref(self._scheduling),
                           ctypes.byref(handle))
                assert handle.value is not None
                core.scheduler = handle.value
                core.pump = Pump(handle.value)
            return core.scheduler

    def _submit(self, feed: Feed, prompt: Prompt, options: Options) -> None:
        ids = token_array(self.tokenize(prompt) if isinstance(prompt, str) else prompt)
        given = options.to_c()
        own = _abi.SubmitOptions(logprobs=options.logprobs + 1, is_chat=options.is_chat)
        self._begin(feed, own, options.constraint, options.client, options.priority,
                    lambda scheduler, handle: self._scheduled(LIB.moert_submit, scheduler, ids, len(ids),
                                                              ctypes.byref(given), ctypes.byref(own), handle))

    def _submit_embedding(self, feed: Feed, prompt: Prompt, pooling: Optional[str], client: str, priority: int) -> None:
        ids = token_array(self.tokenize(prompt) if isinstance(prompt, str) else prompt)
        kinds = (None, "mean", "last")
        if pooling not in kinds:
            raise UsageError(f"pooling is {pooling!r}: expected mean or last")
        own = _abi.SubmitOptions()
        self._begin(feed, own, None, client, priority,
                    lambda scheduler, handle: self._scheduled(LIB.moert_submit_embedding, scheduler, ids, len(ids),
                                                              kinds.index(pooling), ctypes.byref(own), handle))

    def _submit_chat(self, feed: Feed, messages: Sequence[Message], tools: Optional[Sequence[Mapping[str, Any]]],
                     schema: Optional[Mapping[str, Any]], constraint: Optional[Constraint], client: str, priority: int,
                     fields: Mapping[str, Any]) -> None:
        request: dict[str, Any] = {"messages": list(messages), **fields}
        if tools:
            request["tools"] = list(tools)
        if schema is not None:
            if "response_format" in request:
                raise UsageError("schema and response_format are both given")
            request["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
        try:
            data = json.dumps(request).encode()
        except TypeError as error:
            raise UsageError(f"the request is not JSON: {error}") from None
        own = _abi.SubmitOptions()
        self._begin(feed, own, constraint, client, priority,
                    lambda scheduler, handle: self._scheduled(LIB.moert_submit_chat, scheduler, data, len(data),
                                                              ctypes.byref(own), handle))

    def _begin(self, feed: Feed, own: _abi.SubmitOptions, constraint: Optional[Constraint], client: str, priority: int,
               submit: Any) -> None:
        scheduler, pump = self._scheduler(), self._core.pump
        if pump is None:
            raise UsageError("the engine is closed")
        own.client, own.priority = client.encode(), priority
        own.constraint = constraint.handle if constraint else None
        own.user = number = pump.add(feed)
        handle = ctypes.c_void_p()
        try:
            submit(scheduler, ctypes.byref(handle))
        except BaseException:
            pump.remove(number)
            raise
        assert handle.value is not None
        feed.begin(handle.value)

    def _adopt(self, handle: ctypes.c_void_p) -> Session:
        assert handle.value is not None
        self._core.sequences.add(handle.value)
        return Session(self, handle.value)

    def _release(self, handle: int) -> None:
        with self._core.lock:
            if handle in self._core.sequences:
                self._core.sequences.discard(handle)
                LIB.moert_sequence_destroy(handle)
