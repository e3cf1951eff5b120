"""Attention of several new queries of each sequence over keys and values in pages, as a prefill in chunks has it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from wmmadiag.numerics.element_types import ElementType
from wmmadiag.ops.catalogue.packed_attention import OPERATION as PACKED
from wmmadiag.ops.catalogue.paged_attention import OPERATION as PAGED
from wmmadiag.ops.catalogue.paged_attention import whole_keys
from wmmadiag.ops.model import Arrays, Drawn, Signs
from wmmadiag.ops.parts.each_sequence import Sequence, of_sequences
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import Doubles
from wmmadiag.ops.parts.traits import EXPONENTIAL


def _sequences(inputs: Arrays) -> Iterator[Sequence]:
    begins, table = inputs["starts"].astype(np.int64), np.atleast_2d(inputs["table"].astype(np.int64))
    for one, length in enumerate(np.atleast_1d(inputs["lengths"].astype(np.int64))):
        pages = (whole_keys(inputs[role])[table[one]] for role in "kv")
        keys, values = (found.reshape(-1, *found.shape[2:])[:length] for found in pages)
        yield slice(begins[one], begins[one + 1]), keys, values


def _lengths(shape: tuple[int, ...], _: ElementType, keys: int, rng: np.random.Generator) -> Doubles:
    """Odd numbers from half of the keys on that a sequence's pages hold: no fewer than there are queries in all."""
    odd = np.arange((keys // 2) | 1, max(keys, 2), 2)
    count = int(np.prod(shape))
    return rng.choice(odd, count, replace=count > odd.size).reshape(shape).astype(np.float64)


_ORACLE, _BOUND = of_sequences(_sequences)
_LAST = {"causal": "1", "alignment": "bottom-right"}  # the last query is that of the last key

OPERATION = replace(
    PAGED,
    name="paged_prefill",
    meaning="attention of each sequence's queries, starts[b] ≤ i < starts[b + 1], over the keys k[table[b, j // P], "
    "j mod P], j < lengths[b]",
    notes="The queries are the last ones of their sequences, whose keys are in the cache already: a causal mask is "
    "aligned to the bottom-right corner. Pages lie as those of `paged_attention`, queries as those of "
    "`packed_attention`. Those that are drawn have no fewer keys than there are queries in all.",
    roles={
        "q": PACKED.roles["q"],
        "k": PAGED.roles["k"],
        "v": PAGED.roles["v"],
        "table": PAGED.roles["table"],
        "lengths": replace(PAGED.roles["lengths"], drawn=Drawn(_lengths, "table", -1, ("k", -3))),
        "starts": replace(
            PACKED.roles["starts"],
            spellings=PACKED.roles["starts"].spellings + " querystart querystarts querystartloc querystartlocs qstart "
            "qstarts qstartloc bstartloc startloc",
        ),
        **{role: PACKED.roles[role] for role in ("alibi_slopes", "o", "lse")},
    },
    parameters={"piece": PAGED.parameters["piece"]}
    | {name: replace(one, default=_LAST[name]) if name in _LAST else one for name, one in PACKED.parameters.items()},
    oracle=_ORACLE,
    bound=_BOUND,
    symbols={**PAGED.symbols, "X": "2*ceil_div(T, P) + 1"},
    separate=("H", "Hkv"),
    extents={
        **PAGED.extents,
        "X*P": "maxcontextlen maxcontextlength maxcontext maxkvlen",
        "T": PACKED.extents["T"] + " maxquerylen maxqlen maxquerylength maxnumqueries",
    },
    longest=PACKED.longest + " maxquerylen maxqlen maxquerylength maxnumqueries",
    cases=({"B": 2, "H": 2, "T": 64, "D": 64, "P": 16}, {"B": 3, "H": 4, "Hkv": 2, "T": 150, "D": 64, "P": 16}),
    work="2*H*T*X*P*(D + Dv)",
    signs=Signs(
        "pagedprefill prefillpaged chunkedprefill contextattention extendattention extend",
        parts=("paged_attention", "packed_attention", "attention", "gemm", "softmax", "qkt", "pv"),
        needs=(EXPONENTIAL,),
        open="its source does not tell how its pages lie",
    ),
    choices=(*(one for one in PAGED.choices if one.kind == "storage"), *PACKED.choices),
)
