"""Kimi K3 in float64, written here: from its published code and the paper of Kimi Linear (arXiv 2510.26692)."""
import torch
from torch.nn.functional import silu

FIXED_EPS = 1e-6  # Epsilon of the norms of latents, and of lengths of queries and keys.


def rms(x, weight, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


class KimiK3:
    """The residual stream begins anew every block of layers; what it was is kept. What a part reads is a sum of these and of the
    stream, weighted by the softmax of their products with a vector of the part, after norms without weights."""

    plain_products = True  # Products with weights are x @ matrix, so that rounded_activations.py can replace them.

    def __init__(self, file):
        self.file, self.eps, self.heads = file, file.key("attention.layer_norm_rms_epsilon"), file.key("attention.head_count")

    def w(self, layer, name):
        return self.file.tensors[f"blk.{layer}.{name}.weight"]

    def linear(self, layer, name, x):
        return x @ self.w(layer, name).T

    def situ(self, gate, up):
        beta, linear = self.file.key("activation.situ_beta"), self.file.key("activation.situ_linear_beta")
        return beta * (gate / beta).tanh() * gate.sigmoid() * linear * (up / linear).tanh()

    def mixed(self, stack, x, score):
        if not stack:
            return x
        rows = torch.stack([*stack, x], 1)
        return torch.einsum("tn,tnd->td", (rms(rows, 1, self.eps) @ score).softmax(-1), rows)

    def delta_net(self, layer, x):
        size, taps = self.file.key("kda.head_dim"), self.file.key("ssm.conv_kernel")
        q, k, v = (self.linear(layer, "attn_" + part, x) for part in "qkv")
        inputs = []
        for part, rows in zip("qkv", (q, k, v)):
            conv = self.w(layer, f"ssm_conv1d_{part}").reshape(-1, taps)
            before = torch.cat((rows.new_zeros(taps - 1, rows.shape[1]), rows))
            rows = sum(before[tap:tap + len(x)] * conv[:, tap] for tap in range(taps))
            inputs.append(silu(rows).unflatten(1, (self.heads, size)))
        q, k, v = inputs
        q, k = (rows * torch.rsqrt(rows.pow(2).sum(-1, keepdim=True) + FIXED_EPS) for rows in (q, k))
        decay = self.linear(layer, "ssm_f_b", self.linear(layer, "ssm_f_a", x)) + self.file.tensors[f"blk.{layer}.ssm_dt.bias"]
        rate = -self.file.tensors[f"blk.{layer}.ssm_a"].flatten()[:, None]
        decay = (self.file.key("kda.gate_lower_bound") * (rate * decay.unflatten(1, (self.heads, size))).sigmoid()).exp()
        beta = self.linear(layer, "ssm_beta", x).sigmoid()
        state, rows = x.new_zeros(self.heads, size, size), []
        for t in range(len(x)):
            state = state * decay[t, :, :, None]
            error = v[t] - torch.einsum("hk,hkv->hv", k[t], state)
            state = state + torch.einsum("hk,hv->hkv", k[t], beta[t, :, None] * error)
            rows.append(torch.einsum("hk,hkv->hv", q[t], state) * size**-0.5)
        gate = self.linear(layer, "ssm_g", x).unflatten(1, (self.heads, size)).sigmoid()
        return self.linear(layer, "attn_output", (rms(torch.stack(rows), self.w(layer, "ssm_norm"), self.eps) * gate).flatten(1))

    def attention(self, layer, x):
        latent = self.file.key("attention.kv_lora_rank")
        q = rms(self.linear(layer, "attn_q_a", x), self.w(layer, "attn_q_a_norm"), FIXED_EPS)
        q = self.linear(layer, "attn_q_b", q).unflatten(1, (self.heads, -1))
        rows = self.linear(layer, "attn_kv_a_mqa", x)
        rows, shared = rms(rows[:, :latent], self.w(layer, "attn_kv_a_norm"), FIXED_EPS), rows[:, latent:]
        k = torch.stack([rows @ matrix for matrix in self.w(layer, "attn_k_b")], 1)
        k = torch.cat((k, shared[:, None].expand(-1, self.heads, -1)), -1)
        scores = torch.einsum("thk,shk->hts", q, k) * q.shape[-1]**-0.5
        scores = scores.masked_fill(torch.ones(len(x), len(x)).triu(1).bool(), -torch.inf)
        v = torch.stack([rows @ matrix.T for matrix in self.w(layer, "attn_v_b")], 1)
        mixed = torch.einsum("hts,shv->thv", scores.softmax(-1), v).flatten(1)
        return self.linear(layer, "attn_output", mixed * self.linear(layer, "attn_gate", x).sigmoid())

    def ffn(self, layer, x, suffix=""):
        gate, up = (self.linear(layer, f"ffn_{part}{suffix}", x) for part in ("gate", "up"))
        return self.linear(layer, "ffn_down" + suffix, self.situ(gate, up))

    def experts(self, layer, x):
        scores = self.linear(layer, "ffn_gate_inp", x).sigmoid()
        chosen = (scores + self.file.tensors[f"blk.{layer}.exp_probs_b.bias"]).topk(self.file.key("expert_used_count"))[1]
        weights = scores.gather(1, chosen)
        weights = weights / weights.sum(-1, keepdim=True) * self.file.key("expert_weights_scale")
        low = self.linear(layer, "ffn_routed_down", x)
        routed, matrices = torch.zeros_like(low), [self.w(layer, f"ffn_{part}_exps") for part in ("gate", "up", "down")]
        for expert, (gate, up, down) in enumerate(zip(*matrices)):
            tokens, slots = (chosen == expert).nonzero(as_tuple=True)
            rows = low[tokens]
            routed[tokens] += weights[tokens, slots, None] * (self.situ(rows @ gate.T, rows @ up.T) @ down.T)
        routed = rms(routed, self.w(layer, "ffn_routed_norm"), self.eps)
        return self.linear(layer, "ffn_routed_up", routed) + self.ffn(layer, x, "_shexp")

    def logits(self, ids):
        x, stack = self.file.tensors["token_embd.weight"][ids], []
        for layer, heads in enumerate(self.file.per_layer("attention.head_count_kv")):
            read = rms(self.mixed(stack, x, self.w(layer, "attn_res_score")), self.w(layer, "attn_norm"), self.eps)
            if layer % self.file.key("attn_res.block_size") == 0:
                stack.append(x)
                x = 0
            x = x + (self.attention if heads else self.delta_net)(layer, read)
            read = rms(self.mixed(stack, x, self.w(layer, "ffn_res_score")), self.w(layer, "ffn_norm"), self.eps)
            dense = layer < self.file.key("leading_dense_block_count")
            x = x + (self.ffn if dense else self.experts)(layer, read)
        x = self.mixed(stack, x, self.file.tensors["output_res_score.weight"])
        return rms(x, self.file.tensors["output_norm.weight"], self.eps) @ self.file.tensors["output.weight"].T
