"""The scores of an attention."""

from __future__ import annotations

from wmmadiag.ops.model import Operation, Parameter, Role
from wmmadiag.ops.parts.sequence import (
    ADDED,
    CASES,
    DERIVED,
    EXTENTS,
    SCALE_SPELLINGS,
    SOFTCAP,
    SYMBOLS,
    laid_out,
    turned,
)
from wmmadiag.ops.parts.settings import PRODUCTS, inputs_rounded, sums_kept_in

OPERATION = Operation(
    "qkt",
    "scores = softcap(scale · Q·Kᵀ) + bias − slope·|i − j|",
    {
        "q": Role("BHSD", ("B", "H", "Sq", "D"), spellings="q query queries a"),
        "k": Role("BHSD", ("B", "Hkv", "Skv", "D"), spellings="k key keys b"),
        **ADDED,
        "scores": Role(
            "BHSK", ("B", "H", "Sq", "Skv"), output=True, spellings="s score scores c o out output qk qkt attn p"
        ),
    },
    {
        "scale": Parameter("real", "1", "factor of Q·Kᵀ", spellings=SCALE_SPELLINGS),
        **SOFTCAP,
        **PRODUCTS,
    },
    SYMBOLS,
    EXTENTS,
    DERIVED,
    cases=CASES,
    choices=(laid_out("q", "k"), turned("k", "BHSD", "BHDS"), sums_kept_in("q"), inputs_rounded("q")),
)
