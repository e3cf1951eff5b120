"""Attention over sequences of different lengths that lie one behind the other, as varlen kernels have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from wmmadiag.numerics.element_types import ElementType
from wmmadiag.ops.catalogue.attention import OPERATION as WHOLE
from wmmadiag.ops.model import Arrays, Drawn, Elements, Operation, Role, Signs, Values
from wmmadiag.ops.parts.late import NDArray, np
from wmmadiag.ops.parts.rounding import Doubles, Judgement
from wmmadiag.ops.parts.sequence import ADDED, DERIVED, EXTENTS
from wmmadiag.ops.parts.traits import EXPONENTIAL

assert WHOLE.oracle is not None and WHOLE.bound is not None
_ORACLE, _BOUND = WHOLE.oracle, WHOLE.bound


def _starts(shape: tuple[int, ...], _: ElementType, rows: int, __: np.random.Generator) -> Doubles:
    """Where sequences begin, then the number of rows: lengths that differ; as many queries as keys where rows are."""
    count = shape[-1] - 1
    if count < 1:
        return np.zeros(shape)
    weights = 1.0 + np.random.default_rng([rows, count]).permutation(count)
    cuts = np.floor(rows * np.cumsum(weights) / weights.sum()).astype(np.int64)
    return np.concatenate([[0], cuts[:-1] | 1, [rows]]).astype(np.float64)  # odd: no tile's size divides them


def _sequences(inputs: Arrays) -> Iterator[tuple[slice, dict[str, NDArray[Any]]]]:
    """The rows of each sequence's queries, and its tensors with heads first."""
    starts = inputs["starts"].astype(np.int64)
    of_keys = inputs.get("key_starts", inputs["starts"]).astype(np.int64)
    others = {role: inputs[role] for role in ("alibi_slopes",) if role in inputs}
    for one in range(len(starts) - 1):
        rows, keys = slice(starts[one], starts[one + 1]), slice(of_keys[one], of_keys[one + 1])
        if rows.stop > rows.start and keys.stop > keys.start:
            taken = {"q": inputs["q"][rows], "k": inputs["k"][keys], "v": inputs["v"][keys]}
            yield rows, {**{role: array.swapaxes(0, 1) for role, array in taken.items()}, **others}


def _oracle(parameters: Values, inputs: Arrays) -> dict[str, Doubles]:
    q, v = inputs["q"], inputs["v"]
    out, lse = np.zeros((*q.shape[:2], v.shape[2])), np.full((q.shape[1], q.shape[0]), -np.inf)
    for rows, tensors in _sequences(inputs):
        found = _ORACLE(parameters, tensors)
        out[rows], lse[:, rows] = found["o"].swapaxes(0, 1), found["lse"]
    return {"o": out, "lse": lse}


def _bound(
    parameters: Values, inputs: Arrays, expected: Mapping[str, Doubles], elements: Elements
) -> dict[str, Judgement]:
    """Of each sequence the bound of `attention`; rows of no sequence are 0."""
    bounds = {role: np.zeros_like(expected[role]) for role in ("o", "lse") if role in elements}
    free = {role: np.ones(bound.shape, np.bool_) for role, bound in bounds.items()}
    for rows, tensors in _sequences(inputs):
        own = {"o": expected["o"][rows].swapaxes(0, 1), "lse": expected["lse"][:, rows]}
        found = _BOUND(parameters, tensors, own, elements)
        for role, bound in bounds.items():
            one = found[role]
            heads_first = (bound, free[role]) if role == "lse" else (bound.swapaxes(0, 1), free[role].swapaxes(0, 1))
            heads_first[0][:, rows] = one.bound
            heads_first[1][:, rows] = False if one.nonfinite_ok is None else one.nonfinite_ok
    return {role: Judgement(bound, free[role] if free[role].any() else None) for role, bound in bounds.items()}


OPERATION = Operation(
    name="packed_attention",
    meaning="attention of each sequence: O[i] over the keys of its own, starts[b] ≤ i < starts[b + 1]",
    notes="Queries, keys and values of all sequences lie one behind the other. `starts` has one number more than there "
    "are sequences, `key_starts` those of keys where they are others. All parameters are those of `attention`, of each "
    "sequence.",
    roles={
        "q": Role("THD", ("T", "H", "D"), spellings=WHOLE.roles["q"].spellings),
        "k": Role("UHD", ("U", "Hkv", "D"), spellings=WHOLE.roles["k"].spellings),
        "v": Role("UHD", ("U", "Hkv", "Dv"), spellings=WHOLE.roles["v"].spellings),
        "starts": Role(
            "E",
            ("B + 1",),
            element="int",
            drawn=Drawn(_starts, "q", -3),
            spellings="starts offsets cuseqlens cuseqlensq cuseqlen cuqseqlens qcuseqlens cumseqlens cumseqlensq "
            "culens cuq qoindptr indptr qindptr seqoffsets seqstarts qoffsets",
        ),
        "key_starts": Role(
            "E",
            ("B + 1",),
            required=False,
            element="int",
            drawn=Drawn(_starts, "k", -3),
            spellings="keystarts cuseqlensk cukseqlens kcuseqlens cuseqlenskv cumseqlensk cuk kvindptr "
            "kvoffsets koffsets",
        ),
        "alibi_slopes": replace(ADDED["alibi_slopes"], axes="H", shape=("H",)),
        "o": Role("THD", ("T", "H", "Dv"), output=True, spellings=WHOLE.roles["o"].spellings),
        "lse": Role("HT", ("H", "T"), output=True, required=False, spellings="lse softmaxlse logsumexp"),
    },
    parameters={name: one for name, one in WHOLE.parameters.items() if name != "mask_hides"},
    oracle=_oracle,
    bound=_bound,
    symbols={"H": "1", "U": "T", "Hkv": "H", "Dv": "D", "causal": "0"},
    separate=("H", "Hkv"),
    counted_by={"key_starts": "U"},
    made_for={"D": "head dimension"},
    divisors={"Hkv": "H"},
    extents={
        "B": EXTENTS["B"] + " nseq numseqs numsequences seqs",
        "Hkv": EXTENTS["Hkv"],
        "H": EXTENTS["H"],
        # The longest sequence is no longer than all together.
        "T": "t total totalq totaltokens numtokens tokens ntokens maxseqlen maxseqlenq maxlen maxs maxq",
        "U": "totalk totalkv maxseqlenk maxseqlenkv maxk",
        "Dv": EXTENTS["Dv"],
        "D": EXTENTS["D"],
    },
    derived=DERIVED,
    cases=({"B": 2, "H": 1, "T": 128, "D": 64}, {"B": 3, "H": 2, "T": 240, "D": 64}),
    work="2*H*T*U*(D + Dv)*(0.5 if causal else 1)",
    signs=Signs(
        "varlen ragged packed",
        parts=("attention", "gemm", "softmax", "qkt", "pv"),
        needs=(EXPONENTIAL,),
        open="its source does not tell what its offsets count",
    ),
    choices=tuple(one for one in WHOLE.choices if one.kind != "storage"),
)
