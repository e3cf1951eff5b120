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
