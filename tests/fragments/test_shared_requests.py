"""What fragments ask of shared memory: words, passes, and the engine's own count."""

from __future__ import annotations

import numpy as np
import pytest

from wmmadiag.fragments import memory_access, wmma_map, wmma_shapes
from wmmadiag.fragments.memory_access import footprint
from wmmadiag.fragments.shared_requests import SharedRequest, fragment_requests, matrix_rows

SUMS = {"f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "f64": ("f64",)}


def _requests(shape: str, matrix: str, type: str, layout: str, ldm: int, arch: str = "sm_90") -> list[SharedRequest]:
    fragment = wmma_map(shape, matrix, type, arch)
    where = footprint(fragment, layout, ldm, memory_access(shape, matrix, type, layout, "shared"))
    return fragment_requests(fragment, where, matrix, layout, 0)


def _passes(requests: list[SharedRequest]) -> list[int]:
    return [int(words.max()) for one in requests for words in one.passes()]


@pytest.mark.parametrize(
    ("shape", "matrix", "type", "layout", "names"),
    [  # as ptxas 13.0 assembles them for sm_90
        ("m16n16k16", "a", "f16", "row", ["LDSM"] * 4),
        ("m16n16k16", "a", "f16", "col", ["LDSM"] * 4),
        ("m32n8k16", "b", "f16", "row", ["LDSM"] * 2),
        ("m16n16k8", "a", "tf32", "row", ["LDS"] * 4),
        ("m16n16k16", "b", "s8", "row", ["LDS.U8"] * 8),
        ("m16n16k16", "b", "s8", "col", ["LDSM"] * 2),
        ("m8n8k32", "a", "s4", "row", ["LDSM"]),
        ("m8n8k4", "a", "f64", "row", ["LDS.64"]),
        ("m8n8k4", "c", "f64", "row", ["LDS.128"]),
        ("m8n8k4", "c", "f64", "col", ["LDS.64"] * 2),
        ("m16n16k16", "c", "f32", "row", ["LDS.64"] * 4),
        ("m16n16k16", "d", "f32", "col", ["STS"] * 8),
        ("m8n32k16", "c", "f32", "row", ["LDS"] * 8),
        ("m16n16k16", "d", "f16", "row", ["STS"] * 4),
        ("m16n16k16", "c", "f16", "col", ["LDS"] * 4),
    ],
)
def test_instructions_are_those_of_the_assembler(
    shape: str, matrix: str, type: str, layout: str, names: list[str]
) -> None:
    assert [one.name for one in _requests(shape, matrix, type, layout, 64)] == names


def test_turing_multiplies_m8n32k16_integers_untransposed() -> None:
    assert {one.name for one in _requests("m8n32k16", "c", "s32", "row", 32, "sm_75")} == {"LDS.64"}
    assert {one.name for one in _requests("m8n32k16", "c", "s32", "row", 32, "sm_80")} == {"LDS"}


def test_every_request_lies_in_the_footprint_and_all_bytes_are_asked_for() -> None:
    for shape, kind in wmma_shapes("sm_90"):
        for matrix, type in [("a", kind), ("b", kind), *((m, t) for m in "cd" for t in SUMS.get(kind, ("s32",)))]:
            fixed = {"a": ("row",), "b": ("col",)}.get(matrix, ()) if kind in ("s4", "u4", "b1") else ()
            for layout in fixed or ("row", "col"):
                fragment = wmma_map(shape, matrix, type, "sm_90")
                where = footprint(fragment, layout, 256, memory_access(shape, matrix, type, layout, "shared"))
                asked = np.concatenate([
                    (one.addresses[:, None] + np.arange(one.bytes)).ravel()
                    for one in fragment_requests(fragment, where, matrix, layout, 0)
                ])  # fmt: skip
                wanted = (where.lines[:, None] + np.arange(where.line_bytes)).ravel()
                assert sorted(asked) == sorted(wanted), (shape, matrix, type, layout)


@pytest.mark.parametrize(("ldm", "passes"), [(64, 8), (32, 4), (16, 2), (72, 1), (24, 1), (40, 1)])
def test_rows_of_f16(ldm: int, passes: int) -> None:
    assert _passes(_requests("m16n16k16", "a", "f16", "row", ldm)) == [passes] * 4


def test_an_accumulator_is_served_half_a_warp_at_a_time() -> None:
    assert _passes(_requests("m16n16k16", "c", "f32", "row", 20)) == [2] * 8  # rows of 80 bytes: no multiple of 32
    assert _passes(_requests("m16n16k16", "c", "f32", "row", 24)) == [1] * 8


def test_lanes_that_want_the_same_word_share_it() -> None:
    assert [list(one) for one in SharedRequest("LDS", np.zeros(32, np.int64), 4, "").passes()] == [[1] + [0] * 31]
    assert _passes([SharedRequest("LDS", np.arange(32, dtype=np.int64) * 128, 4, "")]) == [32]
    assert _passes([SharedRequest("LDS.128", np.arange(32, dtype=np.int64) * 16, 16, "")]) == [1] * 4


def test_ldmatrix_reads_eight_rows_at_a_time() -> None:
    lanes = np.arange(32, dtype=np.int64)
    assert _passes(matrix_rows(lanes % 16 * 128 + lanes // 16 * 16)) == [8] * 4
    assert _passes(matrix_rows(lanes % 16 * 144 + lanes // 16 * 16)) == [1] * 4
