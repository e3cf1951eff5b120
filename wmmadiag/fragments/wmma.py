"""Which lane holds which element of a `wmma` fragment, from sm_75 on.

The PTX ISA leaves these maps open; they were read from the loads and stores that ptxas 12.4 and 12.9 emit for
`wmma.load` and `wmma.store`. They do not depend on the memory layout (row or col).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from wmmadiag.errors import UnsupportedError
from wmmadiag.fragments.map import FragmentMap, accumulator, fragment_map, packed_along_k
from wmmadiag.numerics.architecture import architecture
from wmmadiag.numerics.tensor_core_forms import FORMS, parse_shape, shapes

ElementOffsets = tuple[tuple[int, int], ...]

_SOURCE = "SASS of wmma.load and wmma.store, ptxas 12.4 and 12.9"


@dataclass(frozen=True, slots=True)
class _Row:
    """Register offsets of one shape and kind of operand.

    a, b: (row or column offset, k offset) of each register.
    c: (major, minor) offset of each pair of accumulator elements; major is the row unless `transposed`.
    """

    a: ElementOffsets
    b: ElementOffsets
    c: ElementOffsets
    transposed: bool = False


_SQUARE: ElementOffsets = ((0, 0), (8, 0), (0, 8), (8, 8))  # pairs e1 (row + 8), e2 (column + 8)
_TALL: ElementOffsets = ((0, 0), (8, 0), (16, 0), (24, 0))  # e1, e2: major + 8, + 16
_PAIR: ElementOffsets = ((0, 0),)

# Half operands: each register holds two k.
_HALF: dict[str, _Row] = {
    "m16n16k16": _Row(a=((0, 0), (8, 0), (0, 8), (8, 8)), b=((0, 0), (0, 8), (8, 0), (8, 8)), c=_SQUARE),
    "m32n8k16": _Row(
        a=((0, 0), (8, 0), (0, 8), (8, 8), (16, 0), (24, 0), (16, 8), (24, 8)), b=((0, 0), (0, 8)), c=_TALL
    ),
    "m8n32k16": _Row(
        a=((0, 0), (0, 8)),
        b=((0, 0), (8, 0), (0, 8), (8, 8), (16, 0), (24, 0), (16, 8), (24, 8)),
        c=_TALL,
        transposed=True,
    ),
}
_BYTE: dict[str, _Row] = {
    "m16n16k16": _Row(a=((0, 0), (8, 0)), b=((0, 0), (8, 0)), c=_SQUARE),
    "m32n8k16": _Row(a=_TALL, b=((0, 0),), c=_TALL),
    "m8n32k16": _Row(a=((0, 0),), b=_TALL, c=_TALL, transposed=True),
}
# Turing multiplies m8n32k16 s8 untransposed: pairs along columns, 8 columns apart.
_BYTE_M8N32K16_SM75 = _Row(a=((0, 0),), b=_TALL, c=((0, 0), (0, 8), (0, 16), (0, 24)))
_TF32 = _Row(a=((0, 0), (8, 0), (0, 4), (8, 4)), b=((0, 0), (0, 4), (8, 0), (8, 4)), c=_SQUARE)
_SINGLE = _Row(a=_PAIR, b=_PAIR, c=_PAIR)  # 8x8 tiles: one register each of A and B

# f16 A and B fragments have eight registers in every shape; those beyond the listed ones repeat them in turn.
_HALF_REGISTERS = 8


def wmma_shapes(arch: str) -> tuple[tuple[str, str], ...]:
    """The (shape, type of A) pairs of `wmma` on an architecture.

    Raises:
        UnsupportedError: unknown architecture.
    """
    return shapes(architecture(arch), "wmma")


@cache
def wmma_map(shape: str, matrix: str, type: str, arch: str) -> FragmentMap:
    """The map of a `wmma` fragment.

    Args:
        shape: "m16n16k16", "m32n8k16", "m8n32k16", "m16n16k8" (tf32), "m8n8k4", "m8n8k32", "m8n8k128".
        matrix: "a", "b", "c" or "d".
        type: element type of that matrix ("f16", "s32", …).
        arch: target, sm_75 or later.

    Raises:
        UnsupportedError: no such fragment, or an architecture whose maps are unknown (sm_70).
    """
    target = architecture(arch)
    if target.number < 75:
        raise UnsupportedError(f"wmma fragment maps of {arch} are not known", hint="use sm_75 or later")
    kinds = _operand_types(shape, matrix, type)
    if not any((shape, kind) in wmma_shapes(arch) for kind in kinds):
        raise UnsupportedError(
            f"{arch} has no wmma {shape} fragment {matrix} of type {type}",
            hint=f"`wmmadiag shapes --arch {arch}` lists what it has",
        )
    kind = kinds[0]
    row = _row(shape, kind, target.number)
    m, n, k = parse_shape(shape)
    if matrix in ("a", "b"):
        offsets = row.a if matrix == "a" else row.b
        used = len(offsets)
        if kind == "f16":
            offsets = offsets * (_HALF_REGISTERS // used)
        index = packed_along_k(offsets, type, matrix)
        return fragment_map(*index, (m, k) if matrix == "a" else (k, n), type, _SOURCE, used_registers=used)
    major, minor = accumulator(row.c)
    rows, cols = (minor, major) if row.transposed else (major, minor)
    return fragment_map(rows, cols, (m, n), type, _SOURCE)


def _operand_types(shape: str, matrix: str, type: str) -> tuple[str, ...]:
    """Types of A with which this fragment occurs, on any architecture."""
    found = []
    for form in FORMS:
        if form.instruction != "wmma" or form.shape != shape:
            continue
        of_matrix = form.a if matrix in ("a", "b") else tuple(pair["cd".index(matrix)] for pair in form.cd)
        if type in of_matrix:
            found += [type] if matrix in ("a", "b") else list(form.a)
    if not found:
        raise UnsupportedError(
            f"there is no wmma {shape} fragment {matrix} of type {type}", hint="`wmmadiag shapes` lists what there is"
        )
    return tuple(dict.fromkeys(found))


def _row(shape: str, kind: str, number: int) -> _Row:
    if kind == "tf32":
        return _TF32
    if shape.startswith("m8n8"):
        return _SINGLE
    if kind in ("s8", "u8"):
        return _BYTE_M8N32K16_SM75 if shape == "m8n32k16" and number < 80 else _BYTE[shape]
    return _HALF[shape]
