"""One module per operation, each with `OPERATION`; `wmmadiag.ops.registry` finds them."""

ORDER = ("attention", "gemm", "qkt", "pv", "softmax")
"""Those that lists begin with, as kernels for them are the commonest; what names alone leave open is the first."""
