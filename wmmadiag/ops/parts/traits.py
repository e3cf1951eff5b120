"""What kernels' code does, as patterns: what speaks for an operation and against it."""

from __future__ import annotations

from wmmadiag.ops.model import Trait

TENSOR_CORES = Trait("", "it does not multiply on tensor cores", "it multiplies on tensor cores")
EXPONENTIAL = Trait(
    r"\b(?:\w+_)?h?2?exp(?:2|10)?f?(?:_approx\w*|_fast\w*)?\s*\(|\bex2\s*\.\s*approx",
    "it calls no exponential",
    "it calls an exponential",
)
ACTIVATION = Trait(
    r"\b(?:__)?(?:tanh|erf|erfc|gelu|silu|sigmoid|relu|leaky_relu|log|log2|rsqrt|sqrt|cos|sin|pow)f?\s*\("
    r"|tanh\s*\.\s*approx|\bf?max[fn]?\s*\(\s*(?:[^(),]+,\s*0(?:\.0?)?f?|0(?:\.0?)?f?\s*,[^(),]+)\s*\)"
    r"|\b(\w[\w.\[\]\s]{0,80})>\s*0(?:\.\d*f?)?\s*\?\s*\1",
    "it calls no activation",
    "it calls {found}",
)
