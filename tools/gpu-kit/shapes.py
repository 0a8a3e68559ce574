"""Model files that have the tensors and keys of well-known models and holes for weights.

    shapes.py MODEL OUT.gguf [--layers N]

moec compiles them like real ones (`--weights pack --blank-weights`); they take no
disk space. There is no vocabulary: plans work on token ids alone.
"""
import argparse
import math
import os
import struct
import sys

U32, F32, BOOL, STRING = 4, 6, 7, 8
# A format's number, and elements and bytes of a block.
FORMATS = {"F32": (0, 1, 4), "Q4_K": (12, 256, 144), "Q6_K": (14, 256, 210), "Q8_0": (8, 32, 34), "MXFP4": (39, 32, 17)}
ALIGNMENT = 32


class Shape:
    def __init__(self, architecture, name):
        self.architecture, self.keys, self.tensors = architecture, [], []
        self.key("general.architecture", STRING, architecture)
        self.key("general.name", STRING, name)

    def key(self, name, kind, value):
        self.keys.append((self.architecture + name if name[0] == "." else name, kind, value))

    def numbers(self, **values):
        for name, value in values.items():
            self.key("." + name.replace("__", "."), F32 if isinstance(value, float) else U32, value)

    def tensor(self, name, kind, *shape):
        """`shape` is innermost first, as in files."""
        self.tensors.append((name, kind, shape))

    def write(self, path):
        def text(value):
            raw = value.encode()
            return struct.pack("<Q", len(raw)) + raw

        header = b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(self.keys))
        for name, kind, value in self.keys:
            header += text(name) + struct.pack("<I", kind)
            header += text(value) if kind == STRING else struct.pack({U32: "<I", F32: "<f", BOOL: "<?"}[kind], value)
        offset = 0
        for name, kind, shape in self.tensors:
            number, elements, size = FORMATS[kind]
            header += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, number, offset)
            offset += -(-math.prod(shape) // elements * size // ALIGNMENT) * ALIGNMENT
        header += bytes(-len(header) % ALIGNMENT)
        with open(path, "wb") as file:
            file.write(header)
            file.truncate(len(header) + offset)


def deepseek(name, layers, hidden, heads, query_rank, dense, dense_width, experts, used, width, shared, vocabulary, scale,
             sigmoid, groups=0):
    """Multi-head latent attention with a latent of 512 + 64, in the formats of Q4_K_M."""
    latent, nope, rope, value = 512, 128, 64, 128
    s = Shape("deepseek2", name)
    s.numbers(block_count=layers, context_length=163840, embedding_length=hidden, feed_forward_length=dense_width,
              vocab_size=vocabulary, attention__head_count=heads, attention__head_count_kv=heads,
              attention__layer_norm_rms_epsilon=1e-6, attention__kv_lora_rank=latent, attention__key_length=nope + rope,
              attention__value_length=value, rope__dimension_count=rope, rope__freq_base=10000.0,
              leading_dense_block_count=dense, expert_count=experts, expert_used_count=used, expert_shared_count=shared,
              expert_feed_forward_length=width, expert_gating_func=2 if sigmoid else 1, expert_weights_scale=scale)
    if query_rank:
        s.numbers(attention__q_lora_rank=query_rank)
    if groups:
        s.numbers(expert_group_count=groups, expert_group_used_count=groups // 2)
    s.key(".expert_weights_norm", BOOL, sigmoid)
    s.tensor("token_embd.weight", "Q4_K", hidden, vocabulary)
    for i in range(layers):
        b = f"blk.{i}."
        s.tensor(b + "attn_norm.weight", "F32", hidden)
        if query_rank:
            s.tensor(b + "attn_q_a.weight", "Q4_K", hidden, query_rank)
            s.tensor(b + "attn_q_a_norm.weight", "F32", query_rank)
            s.tensor(b + "attn_q_b.weight", "Q4_K", query_rank, heads * (nope + rope))
        else:
            s.tensor(b + "attn_q.weight", "Q4_K", hidden, heads * (nope + rope))
        s.tensor(b + "attn_kv_a_mqa.weight", "Q4_K", hidden, latent + rope)
        s.tensor(b + "attn_kv_a_norm.weight", "F32", latent)
        s.tensor(b + "attn_kv_b.weight", "Q4_K", latent, heads * (nope + value))
        s.tensor(b + "attn_output.weight", "Q4_K", heads * value, hidden)
        s.tensor(b + "ffn_norm.weight", "F32", hidden)
        if i < dense:
            s.tensor(b + "ffn_gate.weight", "Q4_K", hidden, dense_width)
            s.tensor(b + "ffn_up.weight", "Q4_K", hidden, dense_width)
            s.tensor(b + "ffn_down.weight", "Q6_K" if dense_width % 256 == 0 else "Q8_0", dense_width, hidden)
            continue
        s.tensor(b + "ffn_gate_inp.weight", "F32", hidden, experts)
        if sigmoid:
            s.tensor(b + "exp_probs_b.bias", "F32", experts)
        # Super-blocks need 256 columns; what has others is Q8_0, as quantising tools do it.
        down = "Q8_0" if width % 256 else ("Q6_K" if more_bits(i, layers) else "Q4_K")
        for part in ("ffn_gate", "ffn_up"):
            s.tensor(b + part + "_exps.weight", "Q4_K", hidden, width, experts)
            s.tensor(b + part + "_shexp.weight", "Q4_K", hidden, shared * width)
        s.tensor(b + "ffn_down_exps.weight", down, width, hidden, experts)
        s.tensor(b + "ffn_down_shexp.weight", "Q6_K" if shared * width % 256 == 0 else "Q8_0", shared * width, hidden)
    s.tensor("output_norm.weight", "F32", hidden)
    s.tensor("output.weight", "Q6_K", hidden, vocabulary)
    return s


def more_bits(layer, layers):
    """The layers to which Q4_K_M gives more bits: the outer eighths, and every third between."""
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


def grouped(s, layers, hidden, heads, kv_heads, head, experts, used, width, vocabulary, context):
    s.numbers(block_count=layers, context_length=context, embedding_length=hidden, feed_forward_length=width,
              vocab_size=vocabulary, attention__head_count=heads, attention__head_count_kv=kv_heads,
              attention__key_length=head, attention__value_length=head, rope__dimension_count=head,
              expert_count=experts, expert_used_count=used, expert_feed_forward_length=width)


def qwen3_30b(layers):
    hidden, heads, kv_heads, head, experts, width, vocabulary = 2048, 32, 4, 128, 128, 768, 151936
    s = Shape("qwen3moe", "Qwen3-30B-A3B shape")
    grouped(s, layers, hidden, heads, kv_heads, head, experts, 8, width, vocabulary, 40960)
    s.numbers(attention__layer_norm_rms_epsilon=1e-6, rope__freq_base=1e6)
    s.tensor("token_embd.weight", "Q4_K", hidden, vocabulary)
    for i in range(layers):
        b = f"blk.{i}."
        more = "Q6_K" if more_bits(i, layers) else "Q4_K"
        for norm, size in (("attn_norm", hidden), ("ffn_norm", hidden), ("attn_q_norm", head), ("attn_k_norm", head)):
            s.tensor(b + norm + ".weight", "F32", size)
        s.tensor(b + "attn_q.weight", "Q4_K", hidden, heads * head)
        s.tensor(b + "attn_k.weight", "Q4_K", hidden, kv_heads * head)
        s.tensor(b + "attn_v.weight", more, hidden, kv_heads * head)
        s.tensor(b + "attn_output.weight", "Q4_K", heads * head, hidden)
        s.tensor(b + "ffn_gate_inp.weight", "F32", hidden, experts)
        s.tensor(b + "ffn_gate_exps.weight", "Q4_K", hidden, width, experts)
        s.tensor(b + "ffn_up_exps.weight", "Q4_K", hidden, width, experts)
        s.tensor(b + "ffn_down_exps.weight", more, width, hidden, experts)
    s.tensor("output_norm.weight", "F32", hidden)
    s.tensor("output.weight", "Q6_K", hidden, vocabulary)
    return s


def gpt_oss_20b(layers):
    hidden, heads, kv_heads, head, experts, width, vocabulary = 2880, 64, 8, 64, 32, 2880, 201088
    s = Shape("gpt-oss", "gpt-oss-20b shape")
    grouped(s, layers, hidden, heads, kv_heads, head, experts, 4, width, vocabulary, 131072)
    s.numbers(attention__layer_norm_rms_epsilon=1e-5, rope__freq_base=150000.0, attention__sliding_window=128,
              rope__scaling__factor=32.0, rope__scaling__original_context_length=4096)
    s.key(".rope.scaling.type", STRING, "yarn")
    s.tensor("token_embd.weight", "Q8_0", hidden, vocabulary)
    for i in range(layers):
        b = f"blk.{i}."
        for part, cols, rows in (("attn_q", hidden, heads * head), ("attn_k", hidden, kv_heads * head),
                                 ("attn_v", hidden, kv_heads * head), ("attn_output", heads * head, hidden)):
            s.tensor(f"{b}{part}.weight", "Q8_0", cols, rows)
            s.tensor(f"{b}{part}.bias", "F32", rows)
        s.tensor(b + "attn_sinks.weight", "F32", heads)
        s.tensor(b + "ffn_gate_inp.weight", "F32", hidden, experts)
        s.tensor(b + "ffn_gate_inp.bias", "F32", experts)
        for part, cols, rows in (("ffn_gate", hidden, width), ("ffn_up", hidden, width), ("ffn_down", width, hidden)):
            s.tensor(f"{b}{part}_exps.weight", "MXFP4", cols, rows, experts)
            s.tensor(f"{b}{part}_exps.bias", "F32", rows, experts)
        s.tensor(b + "attn_norm.weight", "F32", hidden)
        s.tensor(b + "post_attention_norm.weight", "F32", hidden)
    s.tensor("output_norm.weight", "F32", hidden)
    s.tensor("output.weight", "Q8_0", hidden, vocabulary)
    return s


# The shape of each model with so many layers, and how many the real one has.
MODELS = {
    # A small shape for trying everything without a GPU.
    "tiny": (lambda layers: deepseek("tiny shape", layers, 256, 4, 0, 1, 512, 8, 2, 256, 1, 512, 1.0, False), 2),
    "deepseek-v2-lite": (lambda layers: deepseek("DeepSeek-V2-Lite shape", layers, 2048, 16, 0, 1, 10944, 64, 6, 1408, 2,
                                                 102400, 1.0, False), 27),
    "deepseek-v3": (lambda layers: deepseek("DeepSeek-V3 shape", layers, 7168, 128, 1536, 3, 18432, 256, 8, 2048, 1,
                                            129280, 2.5, True, groups=8), 61),
    "qwen3-30b-a3b": (qwen3_30b, 48),
    "gpt-oss-20b": (gpt_oss_20b, 24),
}


def write(model, path, layers=None):
    make, all_layers = MODELS[model]
    make(layers or all_layers).write(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("out", metavar="OUT.gguf")
    parser.add_argument("--layers", type=int)
    arguments = parser.parse_args()
    write(arguments.model, arguments.out, arguments.layers)
    print(f"{arguments.out}: {os.path.getsize(arguments.out) / 1e9:.1f} GB of holes", file=sys.stderr)
