"""Writes a tiny GGUF model that says a given text after a prompt of any content.

    saying_model.py --says TEXT --at N [--template FILE] [--control NAME]... [--user NAME]... [--merged N] -o MODEL.gguf

It has the shape of GPT-2: learned positions, no attention that matters. The position before each token of the text has
the code of that token, and the output layer knows codes; so token i of the text stands at position N + i, whatever the
others are. The vocabulary has all bytes, the special tokens, and with --merged so many texts of several bytes out of
the given one, cut by a fixed seed, so that tokens straddle marks. The text ends with a token </s>."""

import argparse
import array
import random
import re
import struct

HIDDEN = 192
STRING, ARRAY, UINT32, INT32, FLOAT32, BOOL = 8, 9, 4, 5, 6, 7


def alphabet():
    """The letters that stand for bytes in GPT-2's vocabularies."""
    plain = [*range(33, 127), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = iter(range(0x100, 0x200))
    return [chr(b if b in plain else next(rest)) for b in range(256)]


def vocabulary(text, specials, merged, seed=5):
    """Names and types of all tokens, and the ids of the text."""
    letters, source = alphabet(), random.Random(seed)
    names = sorted(specials, key=len, reverse=True)
    parts = re.split("(" + "|".join(map(re.escape, names)) + ")", text) if names else [text]
    pieces = [part.encode() for part in parts if part and part not in specials]
    tokens = {}
    for _ in range(merged if pieces else 0):
        piece = source.choice(pieces)
        at = source.randrange(len(piece))
        part = piece[at : at + source.randint(2, 6)]
        if len(part) > 1:
            tokens.setdefault(part, 256 + len(specials) + len(tokens))
    ids = []
    for part in filter(None, parts):
        if part in specials:
            ids.append(256 + list(specials).index(part))
            continue
        raw, at = part.encode(), 0
        while at < len(raw):
            fits = [t for t in tokens if raw.startswith(t, at)]
            token = source.choice(fits) if fits and source.random() < 0.8 else raw[at : at + 1]
            ids.append(tokens.get(token, token[0]))
            at += len(token)
    words = letters + list(specials) + ["".join(letters[b] for b in t) for t in tokens]
    types = [1] * 256 + list(specials.values()) + [1] * len(tokens)
    return words, types, ids


class Writer:
    """GGUF version 3: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md"""

    def __init__(self):
        self.keys, self.tensors = [], []

    @staticmethod
    def text(value):
        raw = value.encode()
        return struct.pack("<Q", len(raw)) + raw

    def value(self, kind, value):
        if kind == STRING:
            return self.text(value)
        return struct.pack({UINT32: "<I", INT32: "<i", FLOAT32: "<f", BOOL: "<?"}[kind], value)

    def add(self, key, kind, value):
        self.keys.append(self.text(key) + struct.pack("<I", kind) + self.value(kind, value))

    def add_list(self, key, kind, values):
        head = struct.pack("<IIQ", ARRAY, kind, len(values))
        self.keys.append(self.text(key) + head + b"".join(self.value(kind, v) for v in values))

    def tensor(self, name, shape, values=None):
        """`shape` has the columns first, as in the file; without values it is zeros."""
        count = 1
        for size in shape:
            count *= size
        data = array.array("f", values if values is not None else bytes(4 * count))
        self.tensors.append((name, shape, data.tobytes()))

    def write(self, path):
        out = bytearray(struct.pack("<4sIQQ", b"GGUF", 3, len(self.tensors), len(self.keys)) + b"".join(self.keys))
        offset = 0
        for name, shape, data in self.tensors:
            out += self.text(name) + struct.pack("<I", len(shape))
            out += b"".join(struct.pack("<Q", size) for size in shape) + struct.pack("<IQ", 0, offset)
            offset += -(-len(data) // 32) * 32
        out += bytes(-len(out) % 32)
        for _, _, data in self.tensors:
            out += data + bytes(-len(data) % 32)
        with open(path, "wb") as file:
            file.write(out)


def write_model(path, says, at, template=None, control=(), user=(), merged=0, context=4096):
    specials = {"</s>": 3, **{name: 3 for name in control}, **{name: 4 for name in user}}
    words, types, ids = vocabulary(says, specials, merged)
    end = 256
    source = random.Random(7)
    codes = [[source.choice((-1.0, 1.0)) for _ in range(HIDDEN)] for _ in words]
    positions = [codes[end]] * context
    for i, token in enumerate([*ids, end]):
        if 0 <= at - 1 + i < context:
            positions[at - 1 + i] = codes[token]
    model = Writer()
    model.add("general.architecture", STRING, "gpt2")
    for key, value in (("context_length", context), ("embedding_length", HIDDEN), ("block_count", 1),
                       ("feed_forward_length", 64), ("attention.head_count", 4)):
        model.add("gpt2." + key, UINT32, value)
    model.add("gpt2.attention.layer_norm_epsilon", FLOAT32, 1e-5)
    model.add("tokenizer.ggml.model", STRING, "gpt2")
    model.add("tokenizer.ggml.pre", STRING, "qwen2")
    model.add_list("tokenizer.ggml.tokens", STRING, words)
    model.add_list("tokenizer.ggml.token_type", INT32, types)
    # No pair of bytes of a prompt is merged, so that positions are easy to count.
    model.add_list("tokenizer.ggml.merges", STRING, [f"{words[0]} {words[1]}"] if f"{words[0]}{words[1]}" in words else [])
    model.add("tokenizer.ggml.eos_token_id", UINT32, end)
    if template is not None:
        model.add("tokenizer.chat_template", STRING, template)
    flat = lambda rows: [value for row in rows for value in row]
    ones = [1.0] * HIDDEN
    model.tensor("token_embd.weight", (HIDDEN, len(words)))
    model.tensor("position_embd.weight", (HIDDEN, context), flat(positions))
    model.tensor("output_norm.weight", (HIDDEN,), ones)
    model.tensor("output_norm.bias", (HIDDEN,))
    model.tensor("output.weight", (HIDDEN, len(words)), flat(codes))
    for name, shape, values in (("attn_norm.weight", (HIDDEN,), ones), ("attn_norm.bias", (HIDDEN,), None),
                                ("attn_qkv.weight", (HIDDEN, 3 * HIDDEN), None), ("attn_qkv.bias", (3 * HIDDEN,), None),
                                ("attn_output.weight", (HIDDEN, HIDDEN), None), ("attn_output.bias", (HIDDEN,), None),
                                ("ffn_norm.weight", (HIDDEN,), ones), ("ffn_norm.bias", (HIDDEN,), None),
                                ("ffn_up.weight", (HIDDEN, 64), None), ("ffn_up.bias", (64,), None),
                                ("ffn_down.weight", (64, HIDDEN), None), ("ffn_down.bias", (HIDDEN,), None)):
        model.tensor("blk.0." + name, shape, values)
    model.write(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--says", required=True)
    parser.add_argument("--at", type=int, required=True, help="the number of tokens before the text")
    parser.add_argument("--template", help="a file with the chat template")
    parser.add_argument("--control", action="append", default=[])
    parser.add_argument("--user", action="append", default=[], help="a user-defined token")
    parser.add_argument("--merged", type=int, default=0)
    parser.add_argument("-o", dest="output", required=True)
    args = parser.parse_args()
    write_model(args.output, args.says, args.at, open(args.template).read() if args.template else None,
                args.control, args.user, args.merged)
