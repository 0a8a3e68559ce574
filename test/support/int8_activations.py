"""What rounding activations to int8 does to logits, and nothing else: a float64 judge whose products round what they multiply.

Our CPU kernels multiply quantised weights by activations in int8, with a scale for each 32 that follow each other: the largest
magnitude becomes 127 (kernels/cpu/Elementwise.h). Here all else stays in float64. Products with weights that a file keeps in F32,
as routers, have no rounding. Needs torch and transformers.
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import transformers_reference
import torch
from judges import FAMILIES, own
from torch.overrides import TorchFunctionMode

BLOCK, MOST = 32, 127

# Products, and where their arguments have activations and weights.
PRODUCTS = {
    torch.nn.functional.linear: (0, 1),
    torch.matmul: (0, 1),
    torch.Tensor.matmul: (0, 1),
    torch.Tensor.__matmul__: (0, 1),
    torch.bmm: (0, 1),
    torch.addmm: (1, 2),
}


def rounded(x):
    """x with each 32 of its last dimension rounded to multiples of their largest magnitude / 127."""
    blocks = x.reshape(-1, BLOCK)
    step = blocks.abs().amax(-1, keepdim=True) / MOST
    step = torch.where(step > 0, step, 1.0)
    return ((blocks / step).round() * step).reshape(x.shape)


def place(tensor):
    """Where in memory a tensor, or what it is a view of, is."""
    return tensor.untyped_storage().data_ptr()


class Int8Activations(TorchFunctionMode):
    """Within this, products with the weights at `places` round what they multiply. `products` counts them."""

    def __init__(self, places):
        super().__init__()
        self.places, self.products = places, 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function in PRODUCTS:
            x, weight = PRODUCTS[function]
            if place(args[weight]) in self.places and args[x].shape[-1] % BLOCK == 0:
                self.products += 1
                args = list(args)
                args[x] = rounded(args[x])
        return function(*args, **(kwargs or {}))


class Judge:
    """Float64 logits of a file in F32 by its model's class or by ours, as they are and with activations in int8."""

    def __init__(self, path, kept):
        """kept: names of the file's matrices whose products round nothing."""
        self.reference = transformers_reference.Reference(transformers_reference.GgufModel(path))
        matrices = self.reference.file.tensors.values() if self.reference.own else self.reference.model.parameters()
        unrounded = {place(value) for name, value in self.reference.file.tensors.items() if name in kept}
        self.places = {place(value) for value in matrices} - unrounded

    def logits(self, ids):
        return self.reference.logits(ids)

    def int8_logits(self, ids):
        with Int8Activations(self.places) as rounding:
            logits = self.reference.logits(ids)
        assert rounding.products, "no product with a weight was seen"
        return logits


def judges(architecture):
    """Whether there is a class for an architecture whose products are seen."""
    return architecture in FAMILIES or getattr(own.MODELS.get(architecture), "plain_products", False)
