"""Attention of one query per head over keys and values in pages, as decoding has it."""

from __future__ import annotations

from typing import Any

from wmmadiag.numerics.element_types import ElementType
from wmmadiag.ops.catalogue.attention import OPERATION as WHOLE
from wmmadiag.ops.model import Alternative, Arrays, Choice, Drawn, Operation, Parameter, Role, Signs
from wmmadiag.ops.parts.late import NDArray, np
from wmmadiag.ops.parts.one_query import CHOICES, OUTPUTS, PARAMETERS, PARTS, QUERY, of_one_query
from wmmadiag.ops.parts.rounding import Doubles
from wmmadiag.ops.parts.sequence import DERIVED, EXTENTS
from wmmadiag.ops.parts.traits import EXPONENTIAL


def _pages(shape: tuple[int, ...], _: ElementType, pages: int, rng: np.random.Generator) -> Doubles:
    """Which page is where: every page once, in no order."""
    count = int(np.prod(shape))
    return np.resize(rng.permutation(max(pages, 1)), count).reshape(shape).astype(np.float64)


def _lengths(shape: tuple[int, ...], _: ElementType, keys: int, rng: np.random.Generator) -> Doubles:
    """Odd numbers from a quarter of the keys on that a sequence's pages hold, different ones."""
    each = max(keys, 2)
    odd = np.arange(each // 4 | 1, each, 2)
    count = int(np.prod(shape))
    return rng.choice(odd, count, replace=count > odd.size).reshape(shape).astype(np.float64)


_IN_PIECES = 5  # axes


def whole_keys(pages: NDArray[Any]) -> NDArray[Any]:
    """Pages (N, P, Hkv, D), of which each key may lie in pieces: (E, N, P, Hkv, D / E)."""
    if pages.ndim < _IN_PIECES:
        return pages
    return np.moveaxis(pages, 0, -2).reshape(*pages.shape[1:-1], -1)


def _gathered(inputs: Arrays) -> dict[str, NDArray[Any]]:
    """The tensors of a plain attention: keys (B, Hkv, X·P, D), queries (B, H, 1, D), lengths."""
    table = inputs["table"].astype(np.int64)
    table = table if table.ndim == 2 else table[None]
    found = {"q": inputs["q"][..., None, :], "lengths": inputs["lengths"]}
    found |= {role: inputs[role] for role in ("alibi_slopes",) if role in inputs}
    for role in "kv":
        pages = whole_keys(inputs[role])[table]  # (B, X, P, Hkv, D)
        pages = pages.reshape(pages.shape[0], -1, *pages.shape[3:])
        found[role] = pages.swapaxes(1, 2)
    return found


_ORACLE, _BOUND = of_one_query(_gathered)

OPERATION = Operation(
    name="paged_attention",
    meaning="O[b, h] = attention of one query over the keys k[table[b, j // P], j mod P], j < lengths[b]",
    notes="The keys and values of a sequence lie in pages of P; `table` names the pages of each, `lengths` says how "
    "many keys it has. A key may lie in pieces of `piece` elements, each for all rows of a page, as vLLM has it: "
    '`layout = "NHEPD"`, E counting the pieces. Those that are drawn have every page once, in no order, and lengths '
    "that are no multiples of P.",
    roles={
        "q": QUERY,
        "k": Role(
            "ENPHD",
            ("D // piece if piece else 1", "N", "P", "Hkv", "piece if piece else D"),
            spellings=WHOLE.roles["k"].spellings + " kpages kpool kdata",
        ),
        "v": Role("NPHD", ("N", "P", "Hkv", "Dv"), spellings=WHOLE.roles["v"].spellings + " vpages vpool vdata"),
        "table": Role(
            "BX",
            element="int",
            drawn=Drawn(_pages, "k", -4),
            spellings="table blocktable blocktables pagetable pagetables pages pageindices blockindices kvindices",
        ),
        "lengths": Role(
            "B",
            element="int",
            drawn=Drawn(_lengths, "table", -1, ("k", -3)),
            spellings=WHOLE.roles["lengths"].spellings,
        ),
        **OUTPUTS,
    },
    parameters={
        "piece": Parameter("count", "0", "elements of a key that lie beside each other, where it lies in pieces"),
        **PARAMETERS,
    },
    oracle=_ORACLE,
    bound=_BOUND,
    symbols={"B": "1", "H": "1", "N": "B*X", "Hkv": "H", "Dv": "D"},
    separate=("B", "H", "Hkv"),
    made_for={"D": "head dimension", "P": "number of keys in a page"},
    divisors={"Hkv": "H"},
    extents={
        "B": EXTENTS["B"] + " nseq numseqs numsequences seqs",
        "Hkv": EXTENTS["Hkv"],
        "H": EXTENTS["H"],
        "X": "x maxblocks maxblocksperseq maxnumblocksperseq maxpages maxpagesperseq pagesperseq blocksperseq "
        "tablestride blocktablestride maxnumpages maxnumblocks",
        "X*P": "maxcontextlen maxcontextlength maxcontext maxseqlen maxseqlength maxkvlen maxlen",
        "N": "numblocks numpages npages nblocks",
        "P": "p page pagesize blocksize tokensperpage pagelen blocktokens",
        "Dv": EXTENTS["Dv"],
        "D": EXTENTS["D"],
    },
    derived=DERIVED,
    cases=({"B": 2, "H": 4, "D": 64, "X": 3, "P": 16}, {"B": 3, "H": 4, "Hkv": 2, "D": 64, "X": 4, "P": 16}),
    work="2*B*H*X*P*(D + Dv)",
    signs=Signs(
        "paged pagedattention decode pagedattn kvcache",
        parts=(*PARTS, "decode_attention"),
        needs=(EXPONENTIAL,),
        arrays=True,
        open="its source does not tell how its pages lie",
    ),
    choices=(
        Choice(
            "How do the keys and values of a page lie?",
            "storage",
            (
                Alternative("pages of rows, heads within", layouts={"k": "NPHED", "v": "NPHD"}),
                Alternative("pages of heads, rows within", layouts={"k": "NHPED", "v": "NHPD"}),
                *(
                    Alternative(
                        f"pages of heads, of keys pieces of {count} elements for all rows, of values each for all rows",
                        {"piece": count},
                        {"k": "NHEPD", "v": "NHDP"},
                    )
                    for count in ("8", "4", "16")
                ),
            ),
            ("k",),
        ),
        *CHOICES,
    ),
)
