"""Recipes of unit models (ModelRecipe.h) with wider rows, so that formats in blocks fit into them.

The lengths of a recipe (of embeddings, heads, FFNs, ranks, states, and what rotates) are all multiplied by one factor, the least
power of two that makes the rows of matrices a multiple of a block. Counts stay: of layers, heads, experts, taps, streams and
the vocabulary. One factor for all keeps sums of lengths right, such as a latent beside its rotated part.
"""
import math
import re

# Keys whose numbers are lengths.
LENGTHS = re.compile(
    r"\.(embedding_length(_out|_per_layer_input)?|(expert_|expert_shared_|expert_chunk_)?feed_forward_length"
    r"|rope\.dimension_(count(_swa)?|sections)|attention\.(key|value)_length(_mla|_swa)?|attention\.\w+_lora_rank"
    r"|attention\.indexer\.key_length|ssm\.(state|inner)_size|kda\.head_dim|moe_latent_size|expert_latent_length|hyper_connection\.low_rank|engram\.key_length)")

# Tensors, without "blk.N.", and which of their dimensions (innermost first) are counts. All other dimensions are lengths.
COUNTS = [(re.compile(name), dimensions) for name, dimensions in (
    (r"(token_embd|output|position_embd|per_layer_token_embd|engram_(embd|q|k))\.weight", {1}),
    (r"output\.bias", {0}),
    (r"ffn_gate_inp(_shexp)?\.weight", {1}),
    (r"(ffn_gate_inp|exp_probs_b)\.bias|exp_probs_b|attn_sinks\.weight|layer_output_scale\.weight|.*_(exps|shexp)\.scale", {0}),
    (r"ffn_\w+_(ch)?exps\.weight|attn_[kv]_b\.weight", {2}),
    (r"ffn_\w+_exps\.bias|ssm_norm\.weight", {1}),
    (r"ffn_gate_tid2eid\.weight|ssm_[ad]|attn_\w+\.scale", {0, 1}),
    (r"(ssm_conv1d(_[qkv])?|shortconv\.conv|ple_conv1d)\.weight", {0}),
    (r"ssm_(alpha|beta|ba)\.weight|indexer\.proj\.weight|\w+_ape\.weight", {1}),
    (r"(hc_\w+|output_hc)_(fn|inject)\.weight", {1}),
    (r"(hc_\w+|output_hc)_(base|scale)\.weight", {0}),
)]

# What is not quantised: routers and other small matrices that files keep in F32, and what is no factor of a product.
KEPT = re.compile(r"ffn_gate_inp.*|ssm_(alpha|beta|ba|conv1d.*|norm|[ad])\b.*|shortconv\.conv.*|ple_conv1d.*|\w+_ape.*"
                  r"|(hc_\w+|output_hc)_\w+\.weight|indexer\.proj.*|position_embd.*|engram_[qk].*|.*(norm|bias|scale|sinks)\b.*"
                  r"|per_layer_model_proj.*|ffn_gate_tid2eid.*")


def part_of(name):
    """The name of a tensor without "blk.N."."""
    return re.sub(r"^blk\.(\{[^}]*\}|\d+)\.", "", name)


def is_matrix(name, shape, heads=()):
    """Whether files quantise this tensor. heads: numbers of heads, which tell gates of heads from gates of channels."""
    part = part_of(name)
    if part == "attn_gate.weight" and shape[-1] in heads:
        return False
    return len(shape) > 1 and 1 not in shape[:2] and not KEPT.fullmatch(part)


class Recipe:
    def __init__(self, path):
        with open(path) as file:
            self.lines = re.sub(r"\\\n", " ", file.read()).splitlines()
        self.words = [line.split() for line in self.lines]
        self.keys = {words[1]: words[3:] for words in self.words if words[:1] == ["key"]}
        self.variables = {words[1]: words[2] for words in self.words if words[:1] == ["let"]}
        self.tensors = {words[1]: [self.number(size) for size in words[3].split(",")]
                        for words in self.words if words[:1] == ["tensor"]}

    def number(self, word):
        return int(self.variables.get(word.removeprefix("$"), word))

    def numbers(self, key):
        return {self.number(word) for word in self.keys.get(key, ())}

    def words_of(self, verb):
        """What stands behind a word that begins one line."""
        return next(words[1:] for words in self.words if words[:1] == [verb])

    def heads(self):
        return self.numbers(".attention.head_count")

    def factor(self, block):
        """The least power of two that makes rows a multiple of `block`."""
        rows = [shape[0] for name, shape in self.tensors.items() if is_matrix(name, shape, self.heads())]
        return max(block // math.gcd(block, row) for row in rows)

    def has_head(self):
        return "output.weight" in self.tensors

    def counts(self, name, shape):
        part = part_of(name)
        if part == "attn_gate.weight" and shape[1] in self.heads():
            return {1}
        if part == "ssm_dt.bias" and shape[0] in self.numbers(".ssm.time_step_rank"):
            return {0}
        return next((dimensions for pattern, dimensions in COUNTS if pattern.fullmatch(part)), set())

    def wider_shape(self, name, sizes, factor):
        shape = [self.number(size) for size in sizes]
        if part_of(name) == "ssm_in.weight" and any("ssm_d" == part_of(other) for other in self.tensors):
            # Mamba 2: two inner widths, states of all groups twice, and a step of each head.
            steps = self.number(self.keys[".ssm.time_step_rank"][0])
            return [shape[0] * factor, (shape[1] - steps) * factor + steps]
        counts = self.counts(name, shape)
        return [size if at in counts or size == 1 else size * factor for at, size in enumerate(shape)]

    def wider(self, factor):
        """The recipe's text with lengths that are `factor` times as long."""
        return "\n".join(self.wider_line(line, words, factor) for line, words in zip(self.lines, self.words)) + "\n"

    def wider_line(self, line, words, factor):
        if words[:1] == ["key"] and LENGTHS.fullmatch(words[1]):
            return " ".join(words[:3] + [str(self.number(word) * factor) for word in words[3:]])
        if words[:1] == ["key"] and words[1] == ".attention.scale":
            # What scores are multiplied by; their deviation grows with the root of a head's length.
            return " ".join(words[:3] + [str(float(words[3]) / factor**0.5)])
        if words[:1] != ["tensor"]:
            return line
        name, kind, sizes, drawn = words[1], words[2], words[3].split(","), words[4:]
        shape = self.wider_shape(name, sizes, factor)
        if drawn[0] == "values" and shape[0] != self.number(sizes[0]):
            drawn = ["values"] + [repeated(word, factor) for word in drawn[1:]]
        elif drawn[0] == "normal" and (part_of(name) == "attn_k_b.weight" or name == "token_embd.weight" and not self.has_head()):
            # Sums over columns, and logits of a table that is the head too: their deviation grows with the root of the length.
            drawn = drawn[:2] + [str(float(drawn[2]) / factor**0.5)]
        elif self.words_of("architecture") == ["gemma4"] and part_of(name) == "attn_q_norm.weight":
            # Scores of the indexer are not divided by the root of a head's length.
            drawn = drawn[:1] + [str(float(word) / factor**0.5) for word in drawn[1:]]
        return " ".join(["tensor", name, kind, ",".join(map(str, shape)), *drawn])


def repeated(word, factor):
    """A value, or a value and how often it comes, `factor` times as often."""
    value, _, count = word.partition("*")
    return f"{value}*{int(count or 1) * factor}"
