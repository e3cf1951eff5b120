"""The words of formulas: what is applied, what only casts, what is done over an index, and where a formula ends."""

from __future__ import annotations

FUNCTIONS = frozenset({
    "exp", "exp2", "log", "log2", "tanh", "sigmoid", "relu", "relu6", "gelu", "gelu_tanh", "silu", "swish", "sqrt",
    "rsqrt", "abs", "sin", "cos", "floor", "ceil", "round", "rint", "clamp", "clip", "max", "min", "fmax", "fmin",
    "conj", "erf", "softplus", "square", "softmax", "logsumexp", "rmsnorm", "rms_norm", "rms", "layernorm",
    "layer_norm", "mean", "sum", "rowsum", "amax", "cov", "cdist", "matmul", "mm", "bmm", "linear", "transpose",
    "tril", "triu",
})  # fmt: skip
OF_ROWS = frozenset({
    "softmax", "logsumexp", "rmsnorm", "rms_norm", "rms", "layernorm", "layer_norm", "mean", "sum", "rowsum", "amax",
    "cov", "cdist", "matmul", "mm", "bmm", "linear", "transpose", "tril", "triu",
})  # fmt: skip
"""Those that take rows or matrices, and no single elements."""
CASTS = frozenset({
    "half", "float", "bf16", "bfloat16", "f16", "fp16", "f32", "fp32", "float16", "float32", "double", "int8",
})  # fmt: skip
OVER = {"sum": "sum", "mean": "mean", "max": "max", "min": "min", "softmax": "softmax", "avg": "mean"}
"""What a name says that is done over an index behind it."""
STOP = frozenset({
    "for", "where", "with", "if", "over", "of", "in", "and", "or", "is", "are", "the", "as", "per", "from", "to",
    "by", "when", "else", "at", "on", "both", "a", "an",
})  # fmt: skip
"""What ends a formula in a sentence."""
