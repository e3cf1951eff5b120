"""New keys and values written into pages of a cache, each to a slot of its own."""

from __future__ import annotations

from typing import Any

from wmmadiag.numerics.element_types import ElementType
from wmmadiag.ops.catalogue.paged_attention import whole_keys
from wmmadiag.ops.model import (
    Alternative,
    Arrays,
    Choice,
    Distance,
    Drawn,
    Elements,
    Judged,
    Operation,
    Outputs,
    Parameter,
    Role,
    Signs,
    Values,
)
from wmmadiag.ops.parts.late import NDArray, np
from wmmadiag.ops.parts.rounding import Doubles, judged
from wmmadiag.ops.parts.settings import by_value
from wmmadiag.ops.parts.traits import EXPONENTIAL, TENSOR_CORES


def _slots(shape: tuple[int, ...], _: ElementType, rows: int, rng: np.random.Generator) -> Doubles:
    """Rows of pages, no two alike, in no order."""
    count = int(np.prod(shape))
    return np.resize(rng.permutation(max(rows, 1)), count).reshape(shape).astype(np.float64)


def _written(cache: NDArray[Any], new: NDArray[Any], slots: NDArray[Any]) -> Doubles:
    """Pages (N, P, Hkv, D) with new rows (T, Hkv, D) in these slots."""
    found = np.array(cache, np.float64, order="C")
    found.reshape(-1, *found.shape[2:])[slots.astype(np.int64)] = new
    return found


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    del parameters
    keys = _written(whole_keys(inputs["k"]), inputs["key"], inputs["slots"])
    shape = inputs["k"].shape
    if len(shape) > keys.ndim:
        keys = np.moveaxis(keys.reshape(*keys.shape[:-1], shape[0], -1), -2, 0)
    found = {"k_out": keys}
    if "value" in inputs and "v" in inputs:
        found["v_out"] = _written(inputs["v"], inputs["value"], inputs["slots"])
    return found


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Copies are exact, but for a narrower type's rounding."""
    del parameters, inputs
    return judged({role: np.zeros_like(one) for role, one in expected.items()}, expected, elements)


def _rows_of(order: str) -> dict[str, str]:
    """Layouts in which a row of a page has whole keys beside each other."""
    in_pieces = f"{order[:-1]}E{order[-1]}"
    return {"k": in_pieces, "v": order, "k_out": in_pieces, "v_out": order}


_TOGETHER = {"k": "NHEPD", "v": "NHDP", "k_out": "NHEPD", "v_out": "NHDP"}

OPERATION = Operation(
    name="cache_append",
    meaning="k[slots[t] // P, slots[t] mod P] = key[t], and v likewise with value",
    notes="The keys and values of a cache lie in pages of P; what has no new row stays. A key may lie in pieces of "
    '`piece` elements, each for all rows of a page: `layout = "NHEPD"`, E counting the pieces.',
    roles={
        "key": Role("THD", ("T", "Hkv", "D"), spellings="key keys newk newkey knew kin ksrc"),
        "value": Role("THD", ("T", "Hkv", "D"), required=False, spellings="value values newv newvalue vnew vin vsrc"),
        "k": Role(
            "ENPHD",
            ("D // piece if piece else 1", "N", "P", "Hkv", "piece if piece else D"),
            spellings="kcache keycache cachek cachekey kpages kpool",
        ),
        "v": Role("NPHD", ("N", "P", "Hkv", "D"), required=False, spellings="vcache valuecache cachev vpages vpool"),
        "slots": Role(
            "T",
            element="int",
            drawn=Drawn(_slots, "k", -4, ("k", -3)),
            spellings="slots slotmapping slotmap slotindices slot loc outcacheloc cacheloc positions",
        ),
        "k_out": Role(
            "ENPHD",
            ("D // piece if piece else 1", "N", "P", "Hkv", "piece if piece else D"),
            output=True,
            updates="k",
            spellings="kcacheout",
        ),
        "v_out": Role("NPHD", ("N", "P", "Hkv", "D"), output=True, required=False, updates="v", spellings="vcacheout"),
    },
    parameters={
        "piece": Parameter(
            "count",
            "0",
            "elements of a key that lie beside each other, where it lies in pieces",
            spellings="x vec",
            drafted=("8", "4"),
        )
    },
    oracle=_oracle,
    bound=_bound,
    symbols={"N": "2*ceil_div(T, P) + 1", "Hkv": "1"},
    extents={
        "T": "t n tokens numtokens ntokens count",
        "Hkv*D": "kvdim rowsize rowelements hiddensize",
        "Hkv": "h heads nheads numheads numkvheads nkvheads kvheads hkv",
        "N": "numblocks numpages npages nblocks",
        "P": "p blocksize pagesize tokensperpage page",
        "D": "d headdim headsize hd dim",
    },
    distances=(
        Distance("key", "Hkv*D", "keystride stridekey kstride stridek"),
        Distance("value", "Hkv*D", "valuestride stridevalue vstride stridev"),
    ),
    cases=({"T": 5, "Hkv": 2, "D": 64, "P": 16}, {"T": 37, "Hkv": 3, "D": 64, "P": 16}),
    work="2*T*Hkv*D",
    signs=Signs(
        "andcache reshapeandcache cacheappend appendcache appendkv kvappend writekvcache storekvcache storekv "
        "updatekvcache writecache copytocache kvcacheupdate",
        excludes=(TENSOR_CORES, EXPONENTIAL),
        arrays=True,
        open="its source does not tell how its pages lie",
    ),
    choices=(
        Choice(
            "How do the keys and values of a page lie?",
            "storage",
            (
                Alternative("pages of rows, heads within", layouts=_rows_of("NPHD")),
                Alternative("pages of heads, rows within", layouts=_rows_of("NHPD")),
                Alternative("pages of heads, of keys pieces for all rows, of values each for all rows", {}, _TOGETHER),
            ),
            ("k",),
        ),
        by_value(
            "How many elements of a key lie beside each other?",
            "storage",
            "piece",
            {"whole keys": "0", "pieces of 8": "8", "pieces of 4": "4", "pieces of 16": "16"},
            "k",
        ),
    ),
)
