"""The check `banks`: what it must find, and look-alikes that it must not."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_checks import found

_TILE = """__global__ void k(const float* x, float* out) {
    __shared__ float t[32][%d];
    for (int i = 0; i < 32; ++i) t[i][threadIdx.x] = x[i * 32 + threadIdx.x];
    __syncwarp();
    float s = 0;
    for (int i = 0; i < 32; ++i) s += t[threadIdx.x][i];
    out[threadIdx.x] = s;
}"""
_FRAGMENT = """__global__ void k(const half* x, float* out) {
    __shared__ __align__(32) half t[16 * %d];
    for (int i = threadIdx.x; i < 16 * %d; i += 32) t[i] = x[i];
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::load_matrix_sync(a, t, %d);
    for (int i = 0; i < a.num_elements; ++i) out[threadIdx.x * a.num_elements + i] = __half2float(a.x[i]);
}"""
_GLOBAL = "__global__ void k(const float* x, float* out) { out[threadIdx.x] = x[threadIdx.x * %d]; }"


def _run(source: str) -> list[tuple[str, str]]:
    x, out = np.zeros(4096, np.float32), np.zeros(512, np.float32)
    findings = found("banks", source, x, out, names=("x", "out"))
    return [(one.kind, one.detail[0].split(" (")[0]) for one in findings]


def test_a_column_of_a_square_tile() -> None:
    assert _run(_TILE % 32) == [("bank-conflicts", "32 passes per request where 1 would do")]
    assert _run(_TILE % 33) == []


@pytest.mark.parametrize(
    ("ldm", "expected"),
    [
        (64, [("bank-conflicts", "32 passes per request where 4 would do")]),
        (32, [("bank-conflicts", "16 passes per request where 4 would do")]),
        (72, []),
        (24, []),
    ],
)
def test_rows_of_a_fragment(ldm: int, expected: list[tuple[str, str]]) -> None:
    assert [one for one in _run(_FRAGMENT % (ldm, ldm, ldm)) if one[0] == "bank-conflicts"] == expected


def test_global_memory() -> None:
    assert _run(_GLOBAL % 8) == [("uncoalesced", "32 sectors of 32 bytes per request where 4 would do")]
    assert _run(_GLOBAL % 1) == []
    assert _run(_GLOBAL % 0) == []


_ACCUMULATOR = """__global__ void k(const float* x, float* out) {
    __shared__ __align__(32) float t[16 * %d];
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, x[0]);
    wmma::store_matrix_sync(t, c, %d, wmma::mem_%s_major);
    __syncwarp();
    for (int i = threadIdx.x; i < 256; i += 32) out[i] = t[i / 16 * %d + i %% 16];
}"""


@pytest.mark.parametrize(
    ("ldm", "layout", "passes"),
    [(16, "row", 2), (32, "row", 4), (24, "row", 0), (16, "col", 4), (20, "col", 0), (20, "row", 2)],
)
def test_stores_of_an_accumulator(ldm: int, layout: str, passes: int) -> None:
    parts = 8  # four of 8 bytes per lane in two halves, or eight of 4
    expected = [("bank-conflicts", f"{passes * parts} passes per request where {parts} would do")] if passes else []
    assert [one for one in _run(_ACCUMULATOR % (ldm, ldm, layout, ldm)) if "where 8" in one[1]] == expected


def test_the_check_and_the_picture_count_alike() -> None:
    import wmmadiag

    for ldm in (16, 32, 40, 64, 128):
        memory = wmmadiag.fragment_map("m16n16k16", "f16", "a", ldm=ldm).memory
        assert memory is not None
        told = [one for one in _run(_FRAGMENT % (ldm, ldm, ldm)) if one[0] == "bank-conflicts"]
        text = f"{memory.passes} passes per request where {memory.fewest} would do"
        assert told == ([("bank-conflicts", text)] if memory.passes >= 2 * memory.fewest else [])
