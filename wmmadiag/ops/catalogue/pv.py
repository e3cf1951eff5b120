"""The second product of an attention."""

from __future__ import annotations

from wmmadiag.ops.model import Operation, Role
from wmmadiag.ops.parts.sequence import CASES, EXTENTS, SYMBOLS, laid_out, turned
from wmmadiag.ops.parts.settings import PRODUCTS, inputs_rounded, sums_kept_in

OPERATION = Operation(
    "pv",
    "O = P·V",
    {
        "p": Role("BHSK", ("B", "H", "Sq", "Skv"), spellings="p prob probs attn s a weights"),
        "v": Role("BHSD", ("B", "Hkv", "Skv", "Dv"), spellings="v value values b"),
        "o": Role("BHSD", ("B", "H", "Sq", "Dv"), output=True, spellings="o out output result c y"),
    },
    PRODUCTS,
    SYMBOLS,
    EXTENTS,
    cases=CASES,
    choices=(laid_out("v", "o"), turned("v", "BHSD", "BHDS"), sums_kept_in("p"), inputs_rounded("p")),
)
