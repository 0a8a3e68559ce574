"""moert.h as ctypes sees it. Nothing here is for users of the package."""
from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, Structure, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any

ABI_VERSION = 3


class Sized(Structure):
    """A struct that begins with its size; keywords set fields, the others are 0."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(ctypes.sizeof(self), **fields)


class OpenOptions(Sized):
    _fields_ = [("size", c_size_t), ("threads", c_int32), ("model_path", c_char_p), ("weights_path", c_char_p),
                ("allow_paging", c_int32), ("rung", c_int32), ("context", c_int32)]


class ModelInfo(Sized):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("architecture", c_char_p), ("target", c_char_p),
                ("compiler", c_char_p), ("parameters", c_int64), ("weight_bytes", c_uint64), ("layers", c_int32),
                ("hidden", c_int32), ("experts", c_int32), ("experts_used", c_int32), ("trained_context", c_int32),
                ("sequences", c_int32), ("rung", c_int32), ("rungs", c_int32), ("threads", c_int32),
                ("has_tokenizer", c_int32), ("has_chat_template", c_int32), ("tokens", c_int32), ("bos", c_int32),
                ("eos", c_int32)]


class CacheInfo(Sized):
    _fields_ = [("size", c_size_t), ("page_tokens", c_int32), ("pages", c_int32), ("free_pages", c_int32),
                ("sequences", c_int32)]


class ChatOptions(Sized):
    _fields_ = [("size", c_size_t), ("thinking", c_int32), ("no_special", c_int32), ("variables", c_char_p),
                ("chat_template", c_char_p), ("speculation", c_int32)]


class SequenceOptions(Sized):
    _fields_ = [("size", c_size_t), ("private_prefix", c_int32)]


class GenerateOptions(Sized):
    _fields_ = [("size", c_size_t), ("max_tokens", c_int32), ("temperature", c_float), ("top_k", c_int32),
                ("top_p", c_float), ("min_p", c_float), ("repeat_penalty", c_float), ("repeat_last_n", c_int32),
                ("seed", c_uint64), ("stops", POINTER(c_char_p)), ("stop_count", c_size_t), ("ignore_eos", c_int32),
                ("presence_penalty", c_float), ("frequency_penalty", c_float), ("bias_tokens", POINTER(c_int32)),
                ("biases", POINTER(c_float)), ("bias_count", c_size_t)]


class SchedulerOptions(Sized):
    _fields_ = [("size", c_size_t), ("sequences", c_int32), ("queue", c_int32), ("queue_per_client", c_int32),
                ("running_per_client", c_int32), ("prefill_chunk", c_int32), ("step_factor", c_double),
                ("assumed_tokens", c_int32), ("kept_sequences", c_int32), ("store_folder", c_char_p),
                ("store_bytes", c_uint64), ("chat_template", c_char_p)]


class SubmitOptions(Sized):
    _fields_ = [("size", c_size_t), ("client", c_char_p), ("priority", c_int32), ("constraint", c_void_p),
                ("user", c_void_p), ("logprobs", c_int32), ("is_chat", c_int32)]


class SchedulerStats(Sized):
    _fields_ = [("size", c_size_t), ("waiting", c_int32), ("running", c_int32), ("most_running", c_int32),
                ("pages", c_int32), ("free_pages", c_int32), ("kept_sequences", c_int32), ("prefill_chunk", c_int32),
                ("is_draining", c_int32), ("submitted", c_uint64), ("refused", c_uint64), ("finished", c_uint64),
                ("cancelled", c_uint64), ("failed", c_uint64), ("steps", c_uint64), ("preempted", c_uint64),
                ("prompt_tokens", c_uint64), ("cached_tokens", c_uint64), ("restored_tokens", c_uint64),
                ("evaluated_tokens", c_uint64), ("generated_tokens", c_uint64), ("drafted_tokens", c_uint64),
                ("accepted_tokens", c_uint64), ("step_seconds", c_double)]


class Alternative(Structure):
    _fields_ = [("token", c_int32), ("logprob", c_float)]


class Logprob(Structure):
    _fields_ = [("chosen", Alternative), ("top", POINTER(Alternative)), ("top_count", c_size_t)]


class GenerationStats(Structure):
    _fields_ = [("prompt_tokens", c_int32), ("cached_tokens", c_int32), ("generated_tokens", c_int32),
                ("drafted_tokens", c_int32), ("accepted_tokens", c_int32), ("queue_seconds", c_double),
                ("prompt_seconds", c_double), ("decode_seconds", c_double)]


class Event(Structure):
    _fields_ = [("kind", c_int32), ("text", c_void_p), ("bytes", c_size_t), ("reason", c_int32), ("call", c_int32),
                ("id", c_char_p), ("logprobs", POINTER(Logprob)), ("logprob_count", c_size_t), ("status", c_int),
                ("error", c_char_p), ("remedy", c_char_p), ("stop", c_int32), ("tokens", POINTER(c_int32)),
                ("token_count", c_size_t), ("stats", POINTER(GenerationStats)),
                ("embedding", POINTER(c_float)), ("embedding_count", c_size_t)]


TEXT, REASONING, END, CALL, CALL_ARGUMENTS, CALL_END = range(6)

_SIZE, _IDS, _STATUS = POINTER(c_size_t), POINTER(c_int32), c_int
#: name: (result, arguments)
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "moert_abi_version": (c_int32, []),
    "moert_version": (c_char_p, []),
    "moert_create": (c_void_p, []),
    "moert_destroy": (None, [c_void_p]),
    "moert_last_error": (c_char_p, [c_void_p]),
    "moert_last_remedy": (c_char_p, [c_void_p]),
    "moert_open": (_STATUS, [c_void_p, c_char_p, POINTER(OpenOptions)]),
    "moert_vocab": (c_int32, [c_void_p]),
    "moert_context": (c_int32, [c_void_p]),
    "moert_batch": (c_int32, [c_void_p]),
    "moert_get_model_info": (_STATUS, [c_void_p, POINTER(ModelInfo)]),
    "moert_is_end": (c_int32, [c_void_p, c_int32]),
    "moert_get_cache_info": (_STATUS, [c_void_p, POINTER(CacheInfo)]),
    "moert_tokenize": (_STATUS, [c_void_p, c_char_p, c_size_t, c_int, _IDS, c_size_t, _SIZE]),
    "moert_detokenize": (_STATUS, [c_void_p, _IDS, c_size_t, c_uint32, c_char_p, c_size_t, _SIZE]),
    "moert_chat_text": (_STATUS, [c_void_p, c_void_p, c_size_t, POINTER(ChatOptions), c_char_p, c_size_t, _SIZE]),
    "moert_sequence_create": (_STATUS, [c_void_p, POINTER(SequenceOptions), POINTER(c_void_p)]),
    "moert_sequence_destroy": (None, [c_void_p]),
    "moert_sequence_position": (c_int32, [c_void_p]),
    "moert_sequence_rewind": (_STATUS, [c_void_p, c_int32]),
    "moert_sequence_fork": (_STATUS, [c_void_p, POINTER(c_void_p)]),
    "moert_sequence_save": (_STATUS, [c_void_p, c_char_p]),
    "moert_sequence_restore": (_STATUS, [c_void_p, c_char_p, POINTER(SequenceOptions), POINTER(c_void_p)]),
    "moert_cancel": (None, [c_void_p]),
    "moert_evaluate": (_STATUS, [c_void_p, _IDS, c_size_t, c_void_p]),
    "moert_default_generate_options": (None, [POINTER(GenerateOptions)]),
    "moert_generate": (_STATUS, [c_void_p, _IDS, c_size_t, POINTER(GenerateOptions), c_void_p, c_void_p, c_void_p]),
    "moert_constraint_create": (_STATUS, [c_void_p, c_int32, c_char_p, c_size_t, POINTER(c_void_p)]),
    "moert_constraint_destroy": (None, [c_void_p]),
    "moert_thread_error": (c_char_p, []),
    "moert_thread_remedy": (c_char_p, []),
    "moert_scheduler_create": (_STATUS, [c_void_p, POINTER(SchedulerOptions), POINTER(c_void_p)]),
    "moert_scheduler_destroy": (None, [c_void_p]),
    "moert_submit": (_STATUS, [c_void_p, _IDS, c_size_t, POINTER(GenerateOptions), POINTER(SubmitOptions),
                               POINTER(c_void_p)]),
    "moert_submit_embedding": (_STATUS, [c_void_p, _IDS, c_size_t, c_int32, POINTER(SubmitOptions),
                                         POINTER(c_void_p)]),
    "moert_submit_chat": (_STATUS, [c_void_p, c_char_p, c_size_t, POINTER(SubmitOptions), POINTER(c_void_p)]),
    "moert_generation_destroy": (None, [c_void_p]),
    "moert_generation_user": (c_void_p, [c_void_p]),
    "moert_generation_cancel": (None, [c_void_p]),
    "moert_generation_next": (_STATUS, [c_void_p, c_int32, POINTER(POINTER(Event))]),
    "moert_scheduler_wait": (_STATUS, [c_void_p, c_int32, POINTER(c_void_p)]),
    "moert_scheduler_wake": (None, [c_void_p]),
    "moert_scheduler_drain": (_STATUS, [c_void_p, c_int32, _IDS]),
    "moert_scheduler_retry_after": (c_int32, [c_void_p]),
    "moert_scheduler_get_stats": (_STATUS, [c_void_p, POINTER(SchedulerStats)]),
}
#: The type of moert_generate's callback.
TEXT_CALLBACK = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t)


def _load() -> Any:
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")
    # The loader takes these for those of the same name that libmoert needs, wherever the package lies.
    for name in sorted(os.listdir(folder)):
        if not name.startswith("libmoert"):
            ctypes.CDLL(os.path.join(folder, name))
    library = ctypes.CDLL(os.path.join(folder, "libmoert.so.0"))
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    if library.moert_abi_version() != ABI_VERSION:
        raise ImportError(f"libmoert has version {library.moert_abi_version()} of its interface, "
                          f"this package needs {ABI_VERSION}: install the package again")
    return library


LIB: Any = _load()
