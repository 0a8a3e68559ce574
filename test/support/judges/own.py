"""Float64 models written here, for architectures that transformers lacks: from their papers and published code."""
import math

import torch
from torch.nn.functional import relu

from .depth import KimiK3, rms


def rotated(x, base):
    """RoPE of x [tokens, heads, size], whose halves form the pairs."""
    half = x.shape[-1] // 2
    angles = torch.arange(len(x))[:, None] * base**(-torch.arange(half) / half)
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    first, second = x[..., :half], x[..., half:]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


class SmallThinker:
    """SmallThinker (arXiv 2507.20984): a layer's experts are chosen before its attention, from what comes into the layer.

    Windowed layers have RoPE; every fourth, from the first on, sees all tokens and has none. Without a window all layers
    see everything and have RoPE."""

    def __init__(self, file):
        self.file, self.window = file, file.key("attention.sliding_window", 0)
        self.eps, self.base = file.key("attention.layer_norm_rms_epsilon"), file.key("rope.freq_base")
        self.heads, self.kv_heads = file.key("attention.head_count"), file.key("attention.head_count_kv")

    def w(self, layer, name):
        return self.file.tensors[f"blk.{layer}.{name}.weight"]

    def attention(self, layer, x):
        full = not self.window or layer % 4 == 0
        q, k, v = ((x @ self.w(layer, "attn_" + part).T).unflatten(-1, (count, -1))
                   for part, count in (("q", self.heads), ("k", self.kv_heads), ("v", self.kv_heads)))
        if not (self.window and full):
            q, k = rotated(q, self.base), rotated(k, self.base)
        k, v = (part.repeat_interleave(self.heads // self.kv_heads, 1) for part in (k, v))
        scores = torch.einsum("thd,shd->hts", q, k) * q.shape[-1]**-0.5
        back = torch.arange(len(x))[:, None] - torch.arange(len(x))
        scores = scores.masked_fill((back < 0) | (back >= (len(x) if full else self.window)), -torch.inf)
        mixed = torch.einsum("hts,shd->thd", scores.softmax(-1), v)
        return mixed.flatten(1) @ self.w(layer, "attn_output").T

    def experts(self, layer, x, scores):
        """scores [tokens, experts] are the router's; the chosen ones' probabilities are normalised."""
        scores, chosen = scores.topk(self.file.key("expert_used_count"))
        weights = scores.softmax(-1) if self.file.key("expert_gating_func") == 1 else scores.sigmoid()
        weights = weights / weights.sum(-1, keepdim=True)
        gate, up, down = (self.w(layer, f"ffn_{part}_exps")[chosen] for part in ("gate", "up", "down"))
        gate, up = (torch.einsum("td,tkfd->tkf", x, part) for part in (gate, up))
        return torch.einsum("tkf,tkdf,tk->td", relu(gate) * up, down, weights)

    def logits(self, ids):
        x = self.file.tensors["token_embd.weight"][ids]
        for layer in range(self.file.layers):
            scores = x @ self.w(layer, "ffn_gate_inp").T
            x = x + self.attention(layer, rms(x, self.w(layer, "attn_norm"), self.eps))
            x = x + self.experts(layer, rms(x, self.w(layer, "ffn_norm"), self.eps), scores)
        head = self.file.tensors.get("output.weight", self.file.tensors["token_embd.weight"])
        return rms(x, self.file.tensors["output_norm.weight"], self.eps) @ head.T


def frequencies_of(file, base):
    return base**(-torch.arange(0, file.key("rope.dimension_count"), 2) / file.key("rope.dimension_count"))


def yarn_frequencies(file, base):
    """Frequencies of RoPE under YaRN, whose ramp begins and ends at whole dimensions."""
    size, original = file.key("rope.dimension_count"), file.key("rope.scaling.original_context_length")
    frequencies = frequencies_of(file, base)

    def dimension(turns):
        return size * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))
    low = max(math.floor(dimension(file.key("rope.scaling.yarn_beta_fast", 32.0))), 0)
    high = min(math.ceil(dimension(file.key("rope.scaling.yarn_beta_slow", 1.0))), size - 1)
    slow = ((torch.arange(size // 2) - low) / max(high - low, 0.001)).clamp(0, 1)
    return frequencies * (1 - slow) + frequencies / file.key("rope.scaling.factor") * slow


def turned_tail(x, frequencies, positions, sign=1):
    """RoPE of neighbours among the last elements of x [tokens, ..., size]."""
    size = 2 * len(frequencies)
    angles = (sign * positions[:, None] * frequencies).reshape(len(x), *[1] * (x.dim() - 2), -1)
    first, second = x[..., -size::2], x[..., 1 - size::2]
    turned = torch.stack((first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin()), -1)
    return torch.cat((x[..., :-size], turned.flatten(-2)), -1)


class DeepSeek41:
    """DeepSeek-V4.1-Flash (its model card and published inference code), text.

    As V4 but for: layers that share the entries which one of them pools from tokens without overlap, and the keys of an indexer
    made of these; an indexer whose choice later ones are bounded by, in blocks; queries without a norm of each head;
    mixers of residual streams that the sublayer behind uses; and n-grams of tokens that are hashed into tables, whose entries
    gate themselves into the streams."""

    plain_products = True  # Products of experts are not x @ matrix, so that rounded_activations.py replaces only the others.

    def __init__(self, file):
        self.file, self.eps = file, file.key("attention.layer_norm_rms_epsilon")
        self.plain = frequencies_of(file, file.key("rope.freq_base"))
        self.compressed = yarn_frequencies(file, file.key("attention.compress_rope_freq_base"))

    def w(self, layer, name, kind="weight"):
        return self.file.tensors[f"blk.{layer}.{name}.{kind}"]

    def has(self, layer, name):
        return self.file.has(f"blk.{layer}.{name}.weight")

    def norm(self, layer, name, x):
        return rms(x, self.w(layer, name), self.eps)

    def mixers(self, layer, block, streams):
        """What a sublayer reads of each stream (used by the next one), what it adds to each, and how streams mix [from, to]."""
        count, small = streams.shape[1], self.file.key("hyper_connection.epsilon")
        mixed = rms(streams.flatten(1), 1, self.eps) @ self.w(layer, f"hc_{block}_fn").T
        scale, base = self.w(layer, f"hc_{block}_scale"), self.w(layer, f"hc_{block}_base")
        sizes = [count, count, count * count]
        read, add, mix = (part * factor + shift for part, factor, shift in zip(mixed.split(sizes, -1), scale, base.split(sizes)))
        mix = mix.unflatten(-1, (count, count)).softmax(-1) + small
        mix = mix / (mix.sum(-2, keepdim=True) + small)
        for _ in range(self.file.key("hyper_connection.sinkhorn_iterations") - 1):
            mix = mix / (mix.sum(-1, keepdim=True) + small)
            mix = mix / (mix.sum(-2, keepdim=True) + small)
        return read.sigmoid() + small, 2 * add.sigmoid(), mix

    def rows(self, slot, ids):
        """Rows of a table of n-grams [tokens, columns]. Before the first token there are padding tokens."""
        file = self.file
        grams, heads = file.key("engram.max_ngram_size"), file.key("engram.head_count")
        columns = (grams - 1) * heads
        multipliers, primes, offsets = (file.key("engram." + name)[slot * size:(slot + 1) * size] for name, size in (
            ("multipliers", grams), ("primes", columns), ("offsets", columns)))
        folded = [file.key("engram.pad_id")] * (grams - 1) + [file.key("engram.token_map")[token] for token in ids]
        result = []
        for at in range(grams - 1, len(folded)):
            rolling, row = folded[at] * multipliers[0], []
            for back in range(1, grams):
                rolling ^= folded[at - back] * multipliers[back]
                row += [rolling % primes[(back - 1) * heads + head] + offsets[(back - 1) * heads + head] for head in range(heads)]
            result.append(row)
        return torch.tensor(result)

    def ngrams(self, layer, slot, streams, ids):
        found = self.w(layer, "engram_embd")[self.rows(slot, ids)].flatten(1) @ self.w(layer, "engram_wkv").T
        keys, value = found.split([streams[0].numel(), streams.shape[-1]], -1)
        keys = rms(keys.reshape(streams.shape), self.w(layer, "engram_k"), self.eps)
        score = (keys * rms(streams, self.w(layer, "engram_q"), self.eps)).sum(-1) * streams.shape[-1]**-0.5
        gate = torch.copysign(score.abs().clamp(min=1e-6).sqrt(), score).sigmoid()
        return streams + gate[..., None] * value[:, None]

    def pooled(self, layer, ratio, x):
        """Entries of a source layer, without RoPE."""
        kv = x[:len(x) // ratio * ratio] @ self.w(layer, "attn_compressor_kv").T
        if ratio > 1:
            gate = x[:len(kv)] @ self.w(layer, "attn_compressor_gate").T
            kv, gate = (part.unflatten(0, (-1, ratio)) for part in (kv, gate))
            kv = (kv * gate.softmax(1)).sum(1)
        return self.norm(layer, "attn_compressor_norm", kv)

    def choose(self, layer, ratio, x, low, shared):
        """Which entries each token sees, by this layer's indexer."""
        file, tokens = self.file, torch.arange(len(x))
        keys, heads, size = shared["keys"], file.key("attention.indexer.head_count"), file.key("attention.indexer.key_length")
        queries = turned_tail((low @ self.w(layer, "indexer.attn_q_b").T).unflatten(-1, (heads, size)), self.compressed, tokens)
        weights = x @ self.w(layer, "indexer.proj").T * (size * heads)**-0.5
        scores = (torch.einsum("thd,sd->ths", queries, keys).relu() * weights[..., None]).sum(1)
        visible = (tokens + 1) // ratio
        scores = scores.masked_fill(torch.arange(len(keys)) >= visible[:, None], -torch.inf)
        source = file.key("attention.candidate_source_layer_id", -1)
        if layer == source:
            shared["candidates"] = self.candidates(scores, visible)
        elif 0 <= source < layer:
            scores = scores.masked_fill(~shared["candidates"], -torch.inf)
        best, at = scores.topk(min(file.key("attention.indexer.top_k"), len(keys)))
        return torch.zeros_like(scores, dtype=torch.bool).scatter(1, at, best > -torch.inf)

    def candidates(self, scores, visible):
        """The entries among which later indexers choose: of each token's best blocks, the one of its last entry first."""
        size, most = self.file.key("attention.candidate_block_size"), self.file.key("attention.candidate_topk_blocks")
        allowed = torch.zeros_like(scores, dtype=torch.bool)
        for token, count in enumerate(visible.tolist()):
            best = torch.tensor([scores[token, at:min(at + size, count)].max() for at in range(0, count, size)])
            best[-1:] = torch.inf
            for block in best.topk(min(most, len(best))).indices.tolist():
                allowed[token, block * size:(block + 1) * size] = True
        return allowed

    def attention(self, layer, x, shared):
        file, tokens = self.file, torch.arange(len(x))
        heads, ratio = file.key("attention.head_count"), file.per_layer("attention.compress_ratios")[layer]
        frequencies = self.compressed if ratio else self.plain
        low = self.norm(layer, "attn_q_a_norm", x @ self.w(layer, "attn_q_a").T)
        queries = turned_tail((low @ self.w(layer, "attn_q_b").T).unflatten(-1, (heads, -1)), frequencies, tokens)
        keys = turned_tail(self.norm(layer, "attn_kv_a_norm", x @ self.w(layer, "attn_kv").T), frequencies, tokens)
        back = tokens[:, None] - tokens
        seen = (back >= 0) & (back < file.key("attention.sliding_window"))
        if ratio:
            if self.has(layer, "attn_compressor_kv"):
                entries = self.pooled(layer, ratio, x)
                positions = torch.arange(len(entries)) * ratio
                shared["entries"] = turned_tail(entries, frequencies, positions)
                shared["keys"] = turned_tail(self.norm(layer, "indexer.k_norm", entries @ self.w(layer, "indexer.attn_k").T),
                                             frequencies, positions)
            if self.has(layer, "indexer.attn_q_b"):
                shared["chosen"] = self.choose(layer, ratio, x, low, shared)
            keys, seen = torch.cat((keys, shared["entries"])), torch.cat((seen, shared["chosen"]), 1)
        scores = torch.einsum("thd,sd->ths", queries, keys) * keys.shape[-1]**-0.5
        scores = scores.masked_fill(~seen[:, None], -torch.inf)
        sinks = self.w(layer, "attn_sinks").expand(len(x), -1)[..., None]
        mixed = torch.einsum("ths,sd->thd", torch.cat((scores, sinks), -1).softmax(-1)[..., :-1], keys)
        mixed = turned_tail(mixed, frequencies, tokens, -1)
        groups = file.key("attention.output_group_count")
        first = self.w(layer, "attn_output_a").unflatten(0, (groups, -1))
        return torch.einsum("tgi,goi->tgo", mixed.reshape(len(x), groups, -1), first).flatten(1) @ self.w(layer, "attn_output_b").T

    def ffn(self, layer, x):
        file = self.file
        scores = torch.nn.functional.softplus(x @ self.w(layer, "ffn_gate_inp").T).sqrt()
        _, chosen = (scores + self.w(layer, "exp_probs_b", "bias")).topk(file.key("expert_used_count"))
        weights = scores.gather(1, chosen)
        weights = weights / weights.sum(-1, keepdim=True) * file.key("expert_weights_scale")
        gate, up, down = (self.w(layer, f"ffn_{part}_exps")[chosen] for part in ("gate", "up", "down"))
        inner = self.clamped(torch.einsum("td,tkfd->tkf", x, gate), torch.einsum("td,tkfd->tkf", x, up), file.key("swiglu_clamp_exp")[layer])
        gate, up, shared = (self.w(layer, f"ffn_{part}_shexp").T for part in ("gate", "up", "down"))
        return torch.einsum("tkf,tkdf,tk->td", inner, down, weights) + \
            self.clamped(x @ gate, x @ up, file.key("swiglu_clamp_shexp")[layer]) @ shared

    @staticmethod
    def clamped(gate, up, bound):
        return torch.nn.functional.silu(gate.clamp(max=bound)) * up.clamp(-bound, bound)

    def logits(self, ids):
        file, count = self.file, self.file.key("hyper_connection.count")
        streams = file.tensors["token_embd.weight"][ids][:, None].expand(-1, count, -1)
        read, shared, tables = torch.eye(count)[:1].expand(len(ids), -1), {}, list(file.key("engram.layer_ids"))
        for layer in range(file.layers):
            if layer in tables:
                streams = self.ngrams(layer, tables.index(layer), streams, ids)
            for block, run in (("attn", lambda x: self.attention(layer, x, shared)), ("ffn", lambda x: self.ffn(layer, x))):
                later, add, mix = self.mixers(layer, block, streams)
                result = run(self.norm(layer, block + "_norm", (read[..., None] * streams).sum(1)))
                streams = add[..., None] * result[:, None] + torch.einsum("tij,tid->tjd", mix, streams)
                read = later
        x = (read[..., None] * streams).sum(1)
        return rms(x, file.tensors["output_norm.weight"], self.eps) @ file.tensors["output.weight"].T


MODELS = {"smallthinker": SmallThinker, "deepseek41": DeepSeek41, "kimi-k3": KimiK3}
