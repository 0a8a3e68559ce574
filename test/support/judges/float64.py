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
        gap = gap[gap.isfinite()]
        if gap.numel():
            closest["router"] = min(closest.get("router", torch.inf), gap.min().item())
    return _topk(values, k, dim=dim, **more)


torch.topk = _watched
torch.Tensor.topk = lambda self, k, dim=-1, **more: _watched(self, k, dim, **more)
