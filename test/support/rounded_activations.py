"""What rounding activations does to logits, and nothing else: a float64 judge whose products round what they multiply.

Our CPU kernels multiply quantised weights by activations in int8, with a scale for each 32 that follow each other: the largest
magnitude becomes 127 (kernels/cpu/Elementwise.h). Our GPU kernels multiply F16 and BF16 weights in prefill by activations with as
many bits (kernels/cuda/Narrow.cu). Here all else stays in float64. Products with weights that a file keeps in F32, as routers, have
no rounding. Needs torch and transformers.
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


def int8(x):
    """x with each 32 of its last dimension, if that has whole ones, rounded to multiples of their largest magnitude / 127."""
    if x.shape[-1] % BLOCK:
        return x
    blocks = x.reshape(-1, BLOCK)
    step = blocks.abs().amax(-1, keepdim=True) / MOST
    step = torch.where(step > 0, step, 1.0)
    return ((blocks / step).round() * step).reshape(x.shape)


def significant(bits):
    """A function that rounds each number to so many significant bits: 8 are BF16, 11 are F16 where rows have a scale."""
    def rounded(x):
        mantissa, exponent = torch.frexp(x)
        return torch.ldexp((mantissa * 2**bits).round() / 2**bits, exponent)
    return rounded


def place(tensor):
    """Where in memory a tensor, or what it is a view of, is."""
    return tensor.untyped_storage().data_ptr()


class RoundedActivations(TorchFunctionMode):
    """Within this, products with the weights at `places` multiply rounded(x). `products` counts them."""

    def __init__(self, places, rounded):
        super().__init__()
        self.places, self.rounded, self.products = places, rounded, 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function in PRODUCTS:
            x, weight = PRODUCTS[function]
            if place(args[weight]) in self.places:
                self.products += 1
                args = list(args)
                args[x] = self.rounded(args[x])
        return function(*args, **(kwargs or {}))


class Judge:
    """Float64 logits of a file of floats by its model's class or by ours, as they are and with rounded activations."""

    def __init__(self, path, kept):
        """kept: names of the file's matrices whose products round nothing."""
        self.reference = transformers_reference.Reference(transformers_reference.GgufModel(path))
        matrices = self.reference.file.tensors.values() if self.reference.own else self.reference.model.parameters()
        unrounded = {place(value) for name, value in self.reference.file.tensors.items() if name in kept}
        self.places = {place(value) for value in matrices} - unrounded

    def logits(self, ids):
        return self.reference.logits(ids)

    def rounded_logits(self, ids, rounded):
        with RoundedActivations(self.places, rounded) as rounding:
            logits = self.reference.logits(ids)
        assert rounding.products, "no product with a weight was seen"
        return logits


def judges(architecture):
    """Whether there is a class for an architecture whose products are seen."""
    return architecture in FAMILIES or getattr(own.MODELS.get(architecture), "plain_products", False)
