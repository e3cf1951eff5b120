"""Every fragment map covers its matrix, and agrees with the published figures at some points."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from wmmadiag.errors import UnsupportedError
from wmmadiag.fragments import (
    FragmentMap,
    ldmatrix_map,
    mma_map,
    registers,
    wmma_map,
    wmma_shapes,
)
from wmmadiag.numerics.architecture import architecture
from wmmadiag.numerics.tensor_core_forms import shapes

ARCHES = ("sm_75", "sm_80", "sm_89", "sm_90a", "sm_100", "sm_120a")
SUMS = {"f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "f64": ("f64",)}
FLOAT8 = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")


def _sums(kind: str) -> tuple[str, ...]:
    return ("f16", "f32") if kind in FLOAT8 else SUMS.get(kind, ("s32",))


def _holders(fragment: FragmentMap) -> NDArray[np.int_]:
    count = np.zeros((fragment.tiles, *fragment.shape), dtype=int)
    np.add.at(count, (fragment.tile, fragment.row, fragment.col), 1)
    return count


@pytest.mark.parametrize("arch", ARCHES)
def test_wmma_maps_cover_their_matrices(arch: str) -> None:
    for shape, kind in wmma_shapes(arch):
        for matrix, type in [("a", kind), ("b", kind), *((m, t) for m in "cd" for t in _sums(kind))]:
            fragment = wmma_map(shape, matrix, type, arch)
            repeats = fragment.registers // fragment.used_registers
            assert (_holders(fragment) == repeats).all(), (shape, matrix, type)
            if kind == "f16" and matrix in "ab":
                assert fragment.registers == 8
            else:
                assert repeats == 1


@pytest.mark.parametrize("arch", ARCHES)
def test_mma_maps_cover_their_matrices(arch: str) -> None:
    for shape, kind in shapes(architecture(arch), "mma"):
        layouts = ("row", "col") if (shape, kind) == ("m8n8k4", "f16") else ("",)
        for layout in layouts:
            for operand in "ab":
                assert (_holders(mma_map(shape, operand, kind, layout)) == 1).all(), (shape, operand, kind)
        for operand in "cd":
            for type in _sums(kind):
                assert (_holders(mma_map(shape, operand, type)) == 1).all(), (shape, operand, type)


def _at(fragment: FragmentMap, lane: int, element: int) -> tuple[int, int]:
    return int(fragment.row[lane, element]), int(fragment.col[lane, element])


# PTX ISA 9.0, the formulas under the figures of "Matrix Fragments for mma.…", worked out by hand.
@pytest.mark.parametrize(
    ("shape", "operand", "type", "lane", "element", "expected"),
    [
        ("m16n8k16", "a", "f16", 0, 0, (0, 0)),
        ("m16n8k16", "a", "f16", 5, 1, (1, 3)),
        ("m16n8k16", "a", "f16", 5, 2, (9, 2)),
        ("m16n8k16", "a", "f16", 5, 4, (1, 10)),
        ("m16n8k16", "a", "bf16", 31, 7, (15, 15)),
        ("m16n8k16", "b", "f16", 5, 0, (2, 1)),
        ("m16n8k16", "b", "f16", 5, 3, (11, 1)),
        ("m16n8k16", "c", "f32", 5, 1, (1, 3)),
        ("m16n8k16", "c", "f32", 5, 2, (9, 2)),
        ("m16n8k16", "d", "f16", 31, 3, (15, 7)),
        ("m16n8k8", "a", "f16", 6, 3, (9, 5)),
        ("m16n8k8", "a", "tf32", 6, 1, (9, 2)),
        ("m16n8k8", "a", "tf32", 6, 2, (1, 6)),
        ("m16n8k8", "b", "tf32", 6, 1, (6, 1)),
        ("m16n8k4", "a", "tf32", 7, 1, (9, 3)),
        ("m16n8k16", "a", "f64", 6, 2, (1, 6)),
        ("m16n8k16", "a", "f64", 6, 7, (9, 14)),
        ("m16n8k16", "b", "f64", 6, 3, (14, 1)),
        ("m8n8k4", "a", "f64", 6, 0, (1, 2)),
        ("m8n8k16", "a", "s8", 6, 3, (1, 11)),
        ("m16n8k16", "a", "u8", 6, 5, (9, 9)),
        ("m16n8k32", "a", "s8", 6, 9, (1, 25)),
        ("m16n8k32", "b", "e4m3", 6, 5, (25, 1)),
        ("m16n8k32", "a", "s4", 6, 9, (9, 17)),
        ("m16n8k64", "a", "u4", 6, 17, (1, 49)),
        ("m16n8k64", "b", "u4", 6, 9, (49, 1)),
        ("m16n8k128", "a", "b1", 6, 33, (9, 65)),
        ("m16n8k256", "a", "b1", 6, 65, (1, 193)),
        ("m8n8k128", "b", "b1", 6, 3, (67, 1)),
        ("m8n8k32", "c", "s32", 6, 1, (1, 5)),
    ],
)
def test_published_mma_figures(
    shape: str, operand: str, type: str, lane: int, element: int, expected: tuple[int, int]
) -> None:
    assert _at(mma_map(shape, operand, type), lane, element) == expected


@pytest.mark.parametrize(
    ("operand", "type", "layout", "lane", "element", "expected"),
    [
        ("a", "f16", "row", 2, 3, (2, 3)),
        ("a", "f16", "row", 18, 3, (6, 3)),
        ("a", "f16", "col", 18, 3, (7, 2)),
        ("b", "f16", "row", 18, 3, (2, 7)),
        ("b", "f16", "col", 18, 3, (3, 6)),
        ("c", "f16", "", 18, 5, (6, 5)),
        ("c", "f32", "", 0, 1, (0, 1)),
        ("c", "f32", "", 19, 7, (7, 7)),
        ("c", "f32", "", 2, 0, (0, 2)),
        ("c", "f32", "", 1, 2, (3, 0)),
    ],
)
def test_m8n8k4_holds_four_matrices(
    operand: str, type: str, layout: str, lane: int, element: int, expected: tuple[int, int]
) -> None:
    fragment = mma_map("m8n8k4", operand, type, layout)
    assert _at(fragment, lane, element) == expected
    assert fragment.tiles == 4
    assert list(fragment.tile[[0, 3, 4, 8, 15, 16, 20, 31], 0]) == [0, 0, 1, 2, 3, 0, 1, 3]


# As read from the code that ptxas emits for wmma.load and wmma.store.
@pytest.mark.parametrize(
    ("shape", "matrix", "type", "arch", "lane", "element", "expected"),
    [
        ("m16n16k16", "a", "f16", "sm_80", 5, 5, (1, 11)),
        ("m16n16k16", "a", "f16", "sm_80", 5, 13, (1, 11)),
        ("m16n16k16", "b", "f16", "sm_80", 5, 2, (10, 1)),
        ("m16n16k16", "b", "f16", "sm_80", 5, 4, (2, 9)),
        ("m16n16k16", "c", "f32", "sm_75", 5, 2, (9, 2)),
        ("m16n16k16", "d", "f16", "sm_90", 5, 7, (9, 11)),
        ("m32n8k16", "a", "f16", "sm_80", 5, 8, (17, 2)),
        ("m32n8k16", "b", "f16", "sm_80", 5, 4, (2, 1)),
        ("m32n8k16", "c", "f32", "sm_80", 5, 7, (25, 3)),
        ("m8n32k16", "b", "f16", "sm_80", 5, 4, (10, 1)),
        ("m8n32k16", "b", "f16", "sm_80", 5, 2, (2, 9)),
        ("m8n32k16", "c", "f32", "sm_80", 5, 5, (3, 17)),
        ("m16n16k8", "a", "tf32", "sm_80", 6, 2, (1, 6)),
        ("m16n16k8", "b", "tf32", "sm_80", 6, 1, (6, 1)),
        ("m16n16k16", "b", "s8", "sm_80", 6, 5, (9, 9)),
        ("m8n32k16", "c", "s32", "sm_75", 6, 7, (1, 29)),
        ("m8n32k16", "c", "s32", "sm_80", 6, 7, (5, 25)),
        ("m8n8k32", "a", "s4", "sm_75", 6, 3, (1, 19)),
        ("m8n8k128", "b", "b1", "sm_80", 6, 3, (67, 1)),
        ("m8n8k4", "d", "f64", "sm_80", 6, 1, (1, 5)),
    ],
)
def test_known_wmma_elements(
    shape: str, matrix: str, type: str, arch: str, lane: int, element: int, expected: tuple[int, int]
) -> None:
    assert _at(wmma_map(shape, matrix, type, arch), lane, element) == expected


@pytest.mark.parametrize(
    ("instruction", "shape", "matrix", "type", "count"),
    [
        ("wmma", "m16n16k16", "a", "f16", 8),
        ("wmma", "m16n16k16", "c", "f16", 4),
        ("wmma", "m16n16k16", "d", "f32", 8),
        ("wmma", "m32n8k16", "b", "bf16", 2),
        ("wmma", "m16n16k16", "a", "s8", 2),
        ("wmma", "m8n8k4", "d", "f64", 2),
        ("mma", "m16n8k16", "a", "f16", 4),
        ("mma", "m16n8k16", "b", "f16", 2),
        ("mma", "m16n8k16", "c", "f16", 2),
        ("mma", "m16n8k16", "a", "f64", 8),
        ("mma", "m8n8k4", "a", "f16", 2),
        ("mma", "m8n8k4", "c", "f32", 8),
        ("mma", "m16n8k256", "a", "b1", 4),
    ],
)
def test_register_counts(instruction: str, shape: str, matrix: str, type: str, count: int) -> None:
    assert registers(instruction, shape, matrix, type, "sm_90") == count


def test_ldmatrix_figures() -> None:
    plain, turned = ldmatrix_map("x4", False), ldmatrix_map("x4", True)
    assert (_holders(plain) == 1).all()
    assert (_holders(turned) == 1).all()
    assert _at(plain, 6, 1) == (1, 5)
    assert _at(turned, 6, 1) == (5, 1)
    assert list(plain.tile[0]) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert plain.registers == 4


def test_ldmatrix_feeds_mma() -> None:
    """x4 of the four 8x8 quarters of a 16x16 A gives the registers of an m16n8k16 fragment."""
    a, loaded = mma_map("m16n8k16", "a", "f16"), ldmatrix_map("x4", False)
    assert (a.row == loaded.row + 8 * (loaded.tile % 2)).all()
    assert (a.col == loaded.col + 8 * (loaded.tile // 2)).all()


def test_maps_are_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        mma_map("m16n8k16", "a", "f16").row[0, 0] = 1


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda: wmma_map("m16n16k16", "a", "f16", "sm_70"), id="Volta's maps are not known"),
        pytest.param(lambda: wmma_map("m16n16k16", "a", "bf16", "sm_75"), id="bf16 on Turing"),
        pytest.param(lambda: wmma_map("m16n8k16", "a", "f16", "sm_80"), id="an mma shape"),
        pytest.param(lambda: wmma_map("m16n16k16", "c", "bf16", "sm_80"), id="bf16 accumulator"),
        pytest.param(lambda: mma_map("m16n16k16", "a", "f16"), id="a wmma shape"),
        pytest.param(lambda: mma_map("m16n8k16", "a", "f16", "col"), id="column-major A"),
        pytest.param(lambda: mma_map("m8n8k4", "a", "f16"), id="no layout"),
        pytest.param(lambda: mma_map("m16n8k16", "e", "f16"), id="no such operand"),
        pytest.param(lambda: ldmatrix_map("x3", False), id="x3"),
    ],
)
def test_unknown_fragments_are_refused(call: object) -> None:
    assert callable(call)
    with pytest.raises(UnsupportedError):
        call()
