"""Float64 models written here, for architectures that transformers lacks: from their papers and published code."""
import torch
from torch.nn.functional import relu


def rms(x, weight, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


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


MODELS = {"smallthinker": SmallThinker}
