"""Attention of one query per head over a cache of keys and values, as decoding has it."""

from __future__ import annotations

from typing import Any

from wmmadiag.ops.catalogue.attention import OPERATION as WHOLE
from wmmadiag.ops.model import Arrays, Operation, Role, Signs
from wmmadiag.ops.parts.late import NDArray
from wmmadiag.ops.parts.one_query import CHOICES, OUTPUTS, PARAMETERS, PARTS, QUERY, of_one_query
from wmmadiag.ops.parts.sequence import DERIVED, EXTENTS
from wmmadiag.ops.parts.settings import by_layout
from wmmadiag.ops.parts.traits import EXPONENTIAL


def _whole(inputs: Arrays) -> dict[str, NDArray[Any]]:
    """The tensors of a plain attention: queries (B, H, 1, D), the rest as they are."""
    return {**inputs, "q": inputs["q"][..., None, :]}


_ORACLE, _BOUND = of_one_query(_whole)

OPERATION = Operation(
    name="decode_attention",
    meaning="O[b, h] = attention of one query over the keys k[b, j], j < lengths[b]",
    notes="The keys of a sequence lie behind one another in a cache that is as long for each; `lengths` says how many "
    "there are.",
    roles={
        "q": QUERY,
        "k": Role("BHSD", ("B", "Hkv", "S", "D"), spellings=WHOLE.roles["k"].spellings),
        "v": Role("BHSD", ("B", "Hkv", "S", "Dv"), spellings=WHOLE.roles["v"].spellings),
        "lengths": WHOLE.roles["lengths"],
        **OUTPUTS,
    },
    parameters=PARAMETERS,
    oracle=_ORACLE,
    bound=_BOUND,
    symbols={"B": "1", "H": "1", "Hkv": "H", "Dv": "D"},
    separate=("B",),
    made_for={"D": "head dimension"},
    divisors={"Hkv": "H"},
    extents={
        "B": EXTENTS["B"] + " numseqs",
        **{name: EXTENTS[name] for name in ("Hkv*D", "H // Hkv", "Hkv")},
        "S - 1": EXTENTS["Skv - 1"],
        "H": EXTENTS["H"],
        "S": EXTENTS["S"] + " " + EXTENTS["Skv"] + " maxseq maxlen cachelen maxcachelen maxcontextlen",
        "Dv": EXTENTS["Dv"],
        "D": EXTENTS["D"],
    },
    derived=DERIVED,
    cases=({"B": 1, "H": 2, "S": 64, "D": 64}, {"B": 2, "H": 4, "Hkv": 2, "S": 128, "D": 64}),
    work="2*B*H*S*(D + Dv)",
    signs=Signs(
        "decode decoding decodeattention decodeattn kvcache singlequery",
        parts=PARTS,
        needs=(EXPONENTIAL,),
        open="its source does not tell how its cache lies",
    ),
    choices=(
        by_layout(
            "How do the keys and values of a cache lie?",
            {
                "a cache of heads of rows": {"k": "BHSD", "v": "BHSD"},
                "a cache of rows of heads": {"k": "BSHD", "v": "BSHD"},
            },
            "k",
        ),
        *CHOICES,
    ),
)
