"""Samples of a run sorted by line and by what they are of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from wmmadiag.ops.parts.rounding import Doubles
from wmmadiag.ops.stages.model import FINAL, INNER, ExpectedOutput, ExpectedProduct, Observed, SampleRole
from wmmadiag.ops.stages.readings import Groups
from wmmadiag.place import Place
from wmmadiag.provenance.naming import Names
from wmmadiag.provenance.outputs import Products
from wmmadiag.provenance.raw import TaggedRun
from wmmadiag.provenance.tags import parts


def observe(
    samples: NDArray[Any], raw: TaggedRun, products: Products, expected: Sequence[ExpectedOutput], names: Names,
    *, narrow: str, integers: bool, hidden: float, most: int, capacity: int,
) -> Iterator[Observed]:  # fmt: skip
    """Whole elements of products that the operation has, by line and role, in the order of execution.

    Args:
        narrow: type of 16-bit values, "f16" or "bf16".
        integers: 32-bit values are s32.
        hidden: a value at least as low stands for one that the operation hides.
        most, capacity: samples that one instruction leaves at most, and a run.
    """
    tags = parts(samples["tag"])
    role, width = samples["where"] & 0xFF, samples["where"] >> 8
    belongs = _belongs(tags.matrix, raw, products, expected)
    kind, output, swapped = (column[tags.matrix] for column in belongs)
    usable = (kind >= 0) & tags.whole & ((kind == FINAL) | (role != SampleRole.ACCUMULATOR))
    # One number per line, role and kind; a table from instructions, since there are few.
    codes = (samples["pc"].astype(np.int64) * len(SampleRole) + role) * 2 + np.maximum(kind, 0)
    lines: dict[tuple[Place, int, int], int] = {}
    line_of = np.full(int(codes.max(initial=0)) + 1, -1, np.int16)
    for code in map(int, np.flatnonzero(np.bincount(codes[usable]))):
        pc, one_role, one_kind = code // 2 // len(SampleRole), code // 2 % len(SampleRole), code % 2
        line_of[code] = lines.setdefault((names.line(pc), one_role, one_kind), len(lines))
    line = np.where(usable, line_of[codes], -1).astype(np.int16)
    order = np.argsort(line, kind="stable")
    starts = np.searchsorted(line[order], np.arange(len(lines) + 1))
    values = _values(samples, narrow, integers=integers)
    full = raw.samples[1] and len(samples) == capacity
    found = []
    for (place, one_role, one_kind), number in lines.items():
        index = order[starts[number] : starts[number + 1]]
        if one_kind == INNER:
            index = index[~_shadowed(samples["tag"][index], values[index], hidden)]
        if not len(index):
            continue
        exchanged = swapped[index] == 1
        row, column = tags.row[index], tags.column[index]
        bits = 2 if one_role == SampleRole.OPERAND else int(width[index[0]])
        found.append(
            Observed(
                place, SampleRole(one_role), one_kind, values[index], output[index],
                np.where(exchanged, column, row), np.where(exchanged, row, column),
                tags.matrix[index], samples["group"][index].astype(np.int64),
                samples["block"][index].astype(np.int64), unit_roundoff(bits, narrow),
                full or (raw.samples[1] and bool(np.bincount(samples["pc"][index]).max(initial=0) >= most)),
            )
        )  # fmt: skip
    yield from sorted(found, key=lambda one: int(one.group[0]))


def _belongs(
    matrices: NDArray[np.int64], raw: TaggedRun, products: Products, expected: Sequence[ExpectedOutput]
) -> tuple[Groups, Groups, Groups]:
    """Tables by matrix: kind (-1 for none), number of the output, whether rows and columns are exchanged."""
    by_base: dict[int, tuple[int, int, int]] = {}
    seen = np.bincount(matrices)
    tables = np.full(len(seen), -1), np.zeros(len(seen), np.int64), np.zeros(len(seen), np.int64)
    for number in map(int, np.flatnonzero(seen)):
        made = raw.derived.get(number)
        if made is None:
            continue
        if made.base not in by_base:
            by_base[made.base] = belonging(made.base, products, expected)
        for table, value in zip(tables, by_base[made.base], strict=True):
            table[number] = value
    return tables


def belonging(base: int, products: Products, expected: Sequence[ExpectedOutput]) -> tuple[int, int, int]:
    """Of a derived matrix: kind (-1 for none), number of the output, whether rows and columns are exchanged."""
    for position, output in enumerate(expected):
        if products.is_product(base, output.product):
            return FINAL, position, int(products.swapped(base, output.product))
        inner = output.product.left
        if isinstance(inner, ExpectedProduct) and products.is_product(base, inner):
            return INNER, position, int(products.swapped(base, inner))
    return -1, 0, 0


def _values(samples: NDArray[Any], narrow: str, *, integers: bool) -> Doubles:
    bits, width = np.ascontiguousarray(samples["bits"]), samples["where"] >> 8
    half = ml_dtypes.bfloat16 if narrow == "bf16" else np.float16
    with np.errstate(invalid="ignore", over="ignore"):
        as_half = (bits & np.uint64(0xFFFF)).astype(np.uint16).view(half).astype(np.float64)
        words = (bits & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        as_word = words.view(np.int32 if integers else np.float32).astype(np.float64)
    return np.select([width == 2, width == 4], [as_half, as_word], bits.view(np.float64))


def _shadowed(tags: NDArray[Any], values: Doubles, hidden: float) -> NDArray[np.bool_]:
    """Hidden values of elements that have others, too.

    The only key of a row is the row's maximum: what it is subtracted from gets its tag, though it be hidden.
    """
    with np.errstate(invalid="ignore"):
        dull = (values == 0.0) | (values <= hidden)
    some = np.flatnonzero(dull)
    dull[some] = np.isin(tags[some], tags[~dull])
    return np.asarray(dull)


def unit_roundoff(width: int, narrow: str) -> float:
    """Of values of so many bytes, with what arithmetic on them adds; `narrow`: the type of those with two."""
    return (2.0**-7 if narrow == "bf16" else 2.0**-10) if width == 2 else 2.0**-21
