"""Makes torch and transformers compute in float64; to be imported before transformers is.

Models cast their routers, norms and rotary tables to float32. There is no float32 after this: the name means float64, and
so does Tensor.float().
"""
import torch

torch.set_default_dtype(torch.float64)
torch.float32 = torch.float = torch.float64
torch.Tensor.float = torch.Tensor.double

closest = {}
_topk = torch.topk


def _watched(values, k, dim=-1, **more):
    """torch.topk; remembers by how little the last chosen element was chosen."""
    if dim in (-1, values.dim() - 1) and values.shape[-1] > k and values.is_floating_point():
        best = _topk(values.detach(), k + 1, -1)[0]
        gap = best[..., -2] - best[..., -1]
        gap = gap[gap.isfinite() & (best[..., -1] > -1e30)]  # Leaves out gaps among masked elements and to them.
        if gap.numel():
            closest["router"] = min(closest.get("router", torch.inf), gap.min().item())
    return _topk(values, k, dim=dim, **more)


torch.topk = _watched
torch.Tensor.topk = lambda self, k, dim=-1, **more: _watched(self, k, dim, **more)


def watch_sparse_mixer():
    """Phi's router compares with maxima and with a band: remembers how close both comparisons were."""
    from transformers.models.phimoe import modeling_phimoe as phi
    if hasattr(phi.sparsemixer, "watched"):
        return
    mixer = phi.sparsemixer

    def watched(scores, jitter_eps, **more):
        left = scores
        for _ in range(2):
            torch.topk(left, 1)
            best, at = left.max(-1, keepdim=True)
            band = ((best - scores) / scores.abs().clamp(min=best) - 2 * jitter_eps).abs().min().item()
            closest["mixer"] = min(closest.get("mixer", torch.inf), band)
            left = left.scatter(-1, at, -torch.inf)
        return mixer(scores, jitter_eps, **more)

    watched.watched = True
    phi.sparsemixer = watched
