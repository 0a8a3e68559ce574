"""llama.cpp from the PyPI package xllamacpp, as a reference for tokenizers and models. Called through its C interface."""
import ctypes
import importlib.util
import os

# struct llama_model_params: pointers and numbers, then one-byte flags, of which vocab_only is the
# first.
PARAMS_BYTES, VOCAB_ONLY = 80, 72
ERROR = 4
# struct llama_context_params, as numbers of four bytes: the numbers of threads, flash attention (-1: as llama.cpp likes), and
# the formats of the KV cache (0: F32, 1: F16).
THREADS, FLASH_ATTENTION, CACHE_FORMATS = (7, 8), 13, (26, 27)


def find():
    """Returns the path of the shared library, or None."""
    package = importlib.util.find_spec("xllamacpp")
    if package is None:
        return None
    folder = os.path.dirname(package.origin)
    libraries = [name for name in os.listdir(folder) if name.startswith("xllamacpp") and name.endswith(".so")]
    return os.path.join(folder, libraries[0]) if libraries else None


class _Params(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * PARAMS_BYTES)]


class _ContextParams(ctypes.Structure):
    """Opaque memory for a struct that is returned and passed on unchanged."""
    _fields_ = [("bytes", ctypes.c_ubyte * 1024)]


class _Batch(ctypes.Structure):
    _fields_ = [("n_tokens", ctypes.c_int32), ("token", ctypes.c_void_p), ("embd", ctypes.c_void_p),
                ("pos", ctypes.c_void_p), ("n_seq_id", ctypes.c_void_p), ("seq_id", ctypes.c_void_p),
                ("logits", ctypes.c_void_p)]


_LOG = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


class Library:
    def __init__(self):
        self.api = ctypes.CDLL(find())
        self.errors = []
        self._log = _LOG(self._keep)
        self.api.llama_log_set.argtypes = [_LOG, ctypes.c_void_p]
        self.api.llama_log_set(self._log, None)
        self.api.llama_model_default_params.restype = _Params
        self.api.llama_model_load_from_file.argtypes = [ctypes.c_char_p, _Params]
        self.api.llama_model_load_from_file.restype = ctypes.c_void_p
        self.api.llama_model_free.argtypes = [ctypes.c_void_p]
        self.api.llama_model_get_vocab.argtypes = [ctypes.c_void_p]
        self.api.llama_model_get_vocab.restype = ctypes.c_void_p
        self.api.llama_vocab_get_add_bos.argtypes = [ctypes.c_void_p]
        self.api.llama_vocab_get_add_bos.restype = ctypes.c_bool
        self.api.llama_tokenize.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.c_void_p,
                                            ctypes.c_int32, ctypes.c_bool, ctypes.c_bool]
        self.api.llama_vocab_n_tokens.argtypes = [ctypes.c_void_p]
        self.api.llama_context_default_params.restype = _ContextParams
        self.api.llama_init_from_model.argtypes = [ctypes.c_void_p, _ContextParams]
        self.api.llama_init_from_model.restype = ctypes.c_void_p
        self.api.llama_free.argtypes = [ctypes.c_void_p]
        self.api.llama_decode.argtypes = [ctypes.c_void_p, _Batch]
        self.api.llama_get_logits.argtypes = [ctypes.c_void_p]
        self.api.llama_get_logits.restype = ctypes.POINTER(ctypes.c_float)
        self.api.llama_vocab_is_eog.argtypes = [ctypes.c_void_p, ctypes.c_int32]
        self.api.llama_vocab_is_eog.restype = ctypes.c_bool
        self.api.llama_token_to_piece.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_char_p, ctypes.c_int32,
                                                  ctypes.c_int32, ctypes.c_bool]
        self.api.llama_backend_init()

    def _keep(self, level, text, _):
        if level == ERROR:
            self.errors.append(text.decode(errors="replace"))

    def vocabulary(self, path):
        """Returns the tokenizer of a GGUF file."""
        return Vocabulary(self.api, self._load(path, True))

    def logits(self, path, ids, exact=False):
        """Returns the logits after each of at most 512 tokens, as a list of rows. exact: as in Session."""
        def rows(values, count, size):
            return [values[at * size:(at + 1) * size] for at in range(count)]
        with Session(self, path, exact) as session:
            return session.evaluate(ids, rows)

    def _load(self, path, vocabulary_only):
        params = self.api.llama_model_default_params()
        params.bytes[VOCAB_ONLY] = vocabulary_only
        self.errors.clear()
        model = self.api.llama_model_load_from_file(os.fsencode(path), params)
        if not model:
            raise ValueError(f"llama.cpp does not load {path}: {''.join(self.errors).strip()}")
        return model


class Vocabulary:
    def __init__(self, api, model):
        self.api, self.model = api, model
        self.handle = api.llama_model_get_vocab(model)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.api.llama_model_free(self.model)

    def adds_bos(self):
        return self.api.llama_vocab_get_add_bos(self.handle)

    def ids(self, text):
        """Returns ids without the token that starts a text; names of special tokens count as text."""
        data = text.encode()
        room = len(data) + 16
        tokens = (ctypes.c_int32 * room)()
        count = self.api.llama_tokenize(self.handle, data, len(data), tokens, room, False, False)
        assert count >= 0, f"{text!r} has {-count} tokens, more than {room}"
        return tokens[:count]


class Session:
    """A model and one sequence of at most 512 tokens.

    exact: with one thread, an F32 cache and no flash attention."""

    def __init__(self, library, path, exact=False):
        self.api, self.model = library.api, library._load(path, False)
        params = self.api.llama_context_default_params()
        if exact:
            numbers = ctypes.cast(params.bytes, ctypes.POINTER(ctypes.c_int32))
            assert [numbers[at] for at in (FLASH_ATTENTION, *CACHE_FORMATS)] == [-1, 1, 1], "another struct llama_context_params"
            for at, value in [*((at, 1) for at in THREADS), *((at, 0) for at in (FLASH_ATTENTION, *CACHE_FORMATS))]:
                numbers[at] = value
        self.context = self.api.llama_init_from_model(self.model, params)
        assert self.context, f"llama.cpp makes no context: {''.join(library.errors).strip()}"
        self.vocabulary = self.api.llama_model_get_vocab(self.model)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.api.llama_free(self.context)
        self.api.llama_model_free(self.model)

    def evaluate(self, ids, read):
        """Appends tokens to the sequence; returns read(pointer to their logits, how many tokens, size of the vocabulary).

        The pointer is of no use after the next call."""
        tokens, wanted = (ctypes.c_int32 * len(ids))(*ids), (ctypes.c_int8 * len(ids))(*[1] * len(ids))
        batch = _Batch(n_tokens=len(ids), token=ctypes.addressof(tokens), logits=ctypes.addressof(wanted))
        status = self.api.llama_decode(self.context, batch)
        assert status == 0, f"llama_decode gives {status}"
        return read(self.api.llama_get_logits(self.context), len(ids), self.api.llama_vocab_n_tokens(self.vocabulary))

    def ends_text(self, token):
        return self.api.llama_vocab_is_eog(self.vocabulary, token)

    def text(self, ids):
        """The text of tokens, without those that are special."""
        room, text = ctypes.create_string_buffer(256), b""
        for token in ids:
            size = self.api.llama_token_to_piece(self.vocabulary, token, room, len(room), 0, False)
            assert size >= 0, f"token {token} has {-size} bytes"
            text += room.raw[:size]
        return text.decode(errors="replace")
