"""Attention of one query per head over a cache of keys and values, as decoding has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from wmmadiag.ops.catalogue.attention import OPERATION as WHOLE
from wmmadiag.ops.model import Arrays, Elements, Operation, Role, Told, Values
from wmmadiag.ops.parts.rounding import Doubles, Judgement
from wmmadiag.ops.parts.sequence import ADDED, DERIVED, EXTENTS
from wmmadiag.ops.parts.settings import by_layout
from wmmadiag.ops.parts.traits import EXPONENTIAL

if TYPE_CHECKING:
    from numpy.typing import NDArray

assert WHOLE.oracle is not None and WHOLE.bound is not None
_ORACLE, _BOUND = WHOLE.oracle, WHOLE.bound


def _whole(inputs: Arrays) -> dict[str, NDArray[Any]]:
    """The tensors of a plain attention: queries (B, H, 1, D), the rest as they are."""
    return {**inputs, "q": inputs["q"][..., None, :]}


def _oracle(parameters: Values, inputs: Arrays) -> dict[str, Doubles]:
    found = _ORACLE({**parameters, "causal": False, "alignment": "bottom-right"}, _whole(inputs))
    return {"o": found["o"][..., 0, :], "lse": found["lse"][..., 0]}


def _bound(
    parameters: Values, inputs: Arrays, expected: Mapping[str, Doubles], elements: Elements
) -> dict[str, Judgement]:
    """The bound of `attention`, of one query."""
    told = {"o": expected["o"][..., None, :], "lse": expected["lse"][..., None]}
    found = _BOUND({**parameters, "causal": False, "alignment": "bottom-right"}, _whole(inputs), told, elements)
    judged = {}
    for role, one in found.items():
        axis = -2 if role == "o" else -1
        free = None if one.nonfinite_ok is None else one.nonfinite_ok.squeeze(axis)
        judged[role] = Judgement(one.bound.squeeze(axis), free)
    return judged


OPERATION = Operation(
    name="decode_attention",
    meaning="O[b, h] = attention of one query over the keys k[b, j], j < lengths[b]",
    notes="The keys of a sequence lie behind one another in a cache that is as long for each; `lengths` says how many "
    "there are.",
    roles={
        "q": Role("BHD", ("B", "H", "D"), spellings=WHOLE.roles["q"].spellings),
        "k": Role("BHSD", ("B", "Hkv", "S", "D"), spellings=WHOLE.roles["k"].spellings),
        "v": Role("BHSD", ("B", "Hkv", "S", "Dv"), spellings=WHOLE.roles["v"].spellings),
        "lengths": WHOLE.roles["lengths"],
        "alibi_slopes": ADDED["alibi_slopes"],
        "o": Role("BHD", ("B", "H", "Dv"), output=True, spellings=WHOLE.roles["o"].spellings),
        "lse": Role("BH", ("B", "H"), output=True, required=False, spellings="lse softmaxlse logsumexp"),
    },
    parameters={
        name: one
        for name, one in WHOLE.parameters.items()
        if name not in ("mask_hides", "causal", "alignment", "window_left", "window_right")
    },
    oracle=_oracle,
    bound=_bound,
    symbols={"B": "1", "H": "1", "Hkv": "H", "Dv": "D"},
    separate=("B",),
    made_for={"D": "head dimension"},
    divisors={"Hkv": "H"},
    extents={
        "B": EXTENTS["B"] + " numseqs",
        "Hkv": EXTENTS["Hkv"],
        "H": EXTENTS["H"],
        "S": EXTENTS["S"] + " " + EXTENTS["Skv"] + " maxseq maxlen cachelen maxcachelen maxcontextlen",
        "Dv": EXTENTS["Dv"],
        "D": EXTENTS["D"],
    },
    derived=DERIVED,
    cases=({"B": 1, "H": 2, "S": 64, "D": 64}, {"B": 2, "H": 4, "Hkv": 2, "S": 128, "D": 64}),
    work="2*B*H*S*(D + Dv)",
    told=Told(
        "decode decoding decodeattention decodeattn kvcache singlequery",
        parts=("attention", "gemm", "softmax", "qkt", "pv"),
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
        *(one for one in WHOLE.choices if one.kind == "arithmetic" or "multiplied by" in one.question),
    ),
)
