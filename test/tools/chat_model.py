#!/usr/bin/env python3
"""Writes a tiny chat model that always gives the same reasoning and the same answer.

  chat_model.py OUT.gguf [--calls]

With --calls its answer is a call of a tool, and its template describes tools.

A Qwen3 with experts and about 1 MB of float weights, with everything that chatting
needs: a template with turns and reasoning, special tokens, and an end of turn that
differs from the end of text. Its layers are random and weak. The row of its output
matrix for a token is the embedding of the token before it, so the model predicts
the token that follows the last one in THOUGHT or ANSWER, where no token occurs twice.
Standard library only.
"""
import argparse
import math
import os
import random
import sys
from array import array

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from gguf_file import ARRAY, BOOL, FLOAT32, INT32, STRING, UINT32, GgufFile, Tensor

THOUGHT = ["Whatever", " they", " asked"]
ANSWER = ["I", " know", " one", " sentence", " by", " heart", ",", " and", " this", " is", " it", "."]

# The model begins its reasoning itself, unless a user turns it off. Later turns do not repeat reasoning.
TEMPLATE = """\
{%- set unthought = '<think>\\n\\n</think>\\n\\n' %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {{- unthought if message.role == 'assistant' }}
    {{- message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and not enable_thinking %}
        {{- unthought }}
    {%- endif %}
{%- endif %}"""

# With --calls: a call, whose tokens hold several words, in a template that has a form for calls.
CALL = ["<tool_call>", '\n{"name": "', "look_up", '", "arguments": {"word": "', "heart", '"}}\n', "</tool_call>"]
CALLS_TEMPLATE = """\
{%- if tools %}
    {{- '<|im_start|>system\\nCall a tool as <tool_call>\\n{"name": NAME, "arguments": OBJECT}\\n</tool_call>' }}
    {%- for tool in tools %}
        {{- '\\n' + tool.function | tojson }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' + (message.content or '') }}
    {%- for call in message.tool_calls or [] %}
        {{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
        {{- call.function.arguments | tojson + '}\\n</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}"""

HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD, EXPERTS, USED, INNER = 96, 2, 4, 2, 32, 8, 2, 32
CONTROL, USER_DEFINED = 3, 4


def byte_alphabet():
    """Returns GPT-2's printable character for each byte."""
    plain = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in plain else next(others)) for byte in range(256)]


class Vocabulary:
    """All bytes, words (merged from the left), and special tokens."""

    def __init__(self, words, marks):
        self.alphabet = byte_alphabet()
        self.tokens, self.merges = list(self.alphabet), []
        for word in [*words, "\n\n"]:
            text = self.spelled(word)
            for size in range(2, len(text) + 1):
                if text[:size] not in self.tokens:
                    self.tokens.append(text[:size])
                    self.merges.append(f"{text[:size - 1]} {text[size - 1]}")
        self.types = [1] * len(self.tokens)
        for name, kind in (("<|endoftext|>", CONTROL), ("<|im_start|>", CONTROL), ("<|im_end|>", CONTROL),
                           *((mark, USER_DEFINED) for mark in marks)):
            self.tokens.append(name)
            self.types.append(kind)

    def spelled(self, text):
        return "".join(self.alphabet[byte] for byte in text.encode())

    def id(self, text):
        return self.tokens.index(text if text in self.tokens and len(text) > 1 else self.spelled(text))


def normal(scale, *shape):
    """Returns a tensor of random numbers; the first dimension is outermost."""
    return floats([random.gauss(0, scale) for _ in range(math.prod(shape))], *shape)


def floats(values, *shape):
    return Tensor("F32", reversed(shape), array("f", values).tobytes())


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("--calls", action="store_true", help="the answer is a call of a tool")
    a = p.parse_args()
    random.seed(4)
    if a.calls:
        texts, template, marks = [["\n", *CALL, "<|im_end|>"]], CALLS_TEMPLATE, ["<tool_call>", "</tool_call>"]
        words = [text for text in CALL if text not in marks]
    else:
        texts = [["\n", "<think>", *THOUGHT, "</think>", "\n\n"], ["\n\n", *ANSWER, "<|im_end|>"]]
        template, marks, words = TEMPLATE, ["<think>", "</think>"], [*THOUGHT, *ANSWER]
    vocabulary, model = Vocabulary(words, marks), GgufFile()
    model.keys = {
        "general.architecture": (STRING, "qwen3moe"),
        "general.name": (STRING, "four-of-us"),
        **{"qwen3moe." + name: (UINT32, value) for name, value in {
            "context_length": 1024, "embedding_length": HIDDEN, "block_count": LAYERS,
            "feed_forward_length": INNER, "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS,
            "attention.key_length": HEAD, "attention.value_length": HEAD, "rope.dimension_count": HEAD,
            "expert_count": EXPERTS, "expert_used_count": USED, "expert_feed_forward_length": INNER}.items()},
        "qwen3moe.attention.layer_norm_rms_epsilon": (FLOAT32, 1e-6),
        "qwen3moe.rope.freq_base": (FLOAT32, 1e6),
        "tokenizer.ggml.model": (STRING, "gpt2"),
        "tokenizer.ggml.pre": (STRING, "qwen2"),
        "tokenizer.ggml.tokens": (ARRAY, (STRING, vocabulary.tokens)),
        "tokenizer.ggml.token_type": (ARRAY, (INT32, vocabulary.types)),
        "tokenizer.ggml.merges": (ARRAY, (STRING, vocabulary.merges)),
        "tokenizer.ggml.eos_token_id": (UINT32, vocabulary.id("<|im_end|>")),
        "tokenizer.ggml.padding_token_id": (UINT32, vocabulary.id("<|endoftext|>")),
        "tokenizer.ggml.add_bos_token": (BOOL, False),
        "tokenizer.chat_template": (STRING, template),
    }
    count = len(vocabulary.tokens)
    embeddings = [[random.choice((-1.0, 1.0)) for _ in range(HIDDEN)] for _ in range(count)]
    # The right token scores up to HIDDEN / 2 = 48, other tokens of the texts about 5, and all the rest 0.
    output = [[0.0] * HIDDEN for _ in range(count)]
    said = [[vocabulary.id(text) for text in line] for line in texts]
    # What follows a token is one token; lines meet where one ends and the next begins.
    followed = [token for ids in said for token in ids[:-1]]
    assert len(set(followed)) == len(followed)
    for ids in said:
        for before, after in zip(ids, ids[1:]):
            output[after] = [x / 2 for x in embeddings[before]]
    tensors = model.tensors
    tensors["token_embd.weight"] = floats(sum(embeddings, []), count, HIDDEN)
    tensors["output_norm.weight"] = floats([1.0] * HIDDEN, HIDDEN)
    tensors["output.weight"] = floats(sum(output, []), count, HIDDEN)
    for layer in range(LAYERS):
        shapes = {"attn_q": (HEADS * HEAD, HIDDEN), "attn_k": (KV_HEADS * HEAD, HIDDEN),
                  "attn_v": (KV_HEADS * HEAD, HIDDEN), "attn_output": (HIDDEN, HEADS * HEAD),
                  "ffn_gate_inp": (EXPERTS, HIDDEN), "ffn_gate_exps": (EXPERTS, INNER, HIDDEN),
                  "ffn_up_exps": (EXPERTS, INNER, HIDDEN), "ffn_down_exps": (EXPERTS, HIDDEN, INNER)}
        for name, size in {"attn_norm": HIDDEN, "ffn_norm": HIDDEN, "attn_q_norm": HEAD, "attn_k_norm": HEAD}.items():
            tensors[f"blk.{layer}.{name}.weight"] = floats([1.0] * size, size)
        for name, shape in shapes.items():
            # Each layer adds about a quarter of the embedding's length.
            weak = 0.5 if name in ("attn_output", "ffn_down_exps") else 1
            tensors[f"blk.{layer}.{name}.weight"] = normal(weak / math.sqrt(shape[-1]), *shape)
    model.write(a.out)


if __name__ == "__main__":
    main()
