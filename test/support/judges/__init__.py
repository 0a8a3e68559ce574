"""Mappings of GGUF files to models of the PyPI package transformers, one function for each architecture.

A function takes a GgufModel and returns the model type of transformers (or a configuration class), the arguments of its
configuration, and the model's weights by name; perhaps also a function that changes the model made from these.
"""
from . import classic, delta, grouped_query, hybrid, latent, plain, qwen4, scaled, windows

MODULES = (classic, delta, grouped_query, hybrid, latent, plain, qwen4, scaled, windows)
FAMILIES = {name: function for module in MODULES for name, function in module.FAMILIES.items()}
