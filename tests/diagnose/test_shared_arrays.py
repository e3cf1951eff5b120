"""Static shared arrays that are too large together: which they are, and the same in dynamic memory."""

from __future__ import annotations

import pytest

from wmmadiag.diagnose.edits import Edit, apply
from wmmadiag.diagnose.engine import diagnose_card, failing_evidence
from wmmadiag.diagnose.hypotheses.shared_memory_limit import HYPOTHESIS
from wmmadiag.diagnose.source.read import read_source
from wmmadiag.diagnose.source.shared_arrays import carved_at, in_dynamic_memory, static_arrays
from wmmadiag.subject.card_files.read import load_card

_SOURCE = """#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;
template <int ROWS>
__global__ void product(const half* a, const half* b, float* c) {
    __shared__ half left[ROWS][72], right[64][24];
    __shared__ __align__(256) static float result[16][16];
    for (int i = threadIdx.x; i < 16 * 64; i += blockDim.x) {
        left[i / 64][i % 64] = a[i];
        right[i / 16][i % 16] = b[i];
    }
    __syncthreads();
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int k = 0; k < 64; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
        wmma::load_matrix_sync(fa, &left[0][k], 72);
        wmma::load_matrix_sync(fb, &right[k][0], 24);
        wmma::mma_sync(acc, fa, fb, acc);
    }
    if (threadIdx.x < 32) wmma::store_matrix_sync(result[0], acc, 16, wmma::mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) c[i] = result[i / 16][i % 16];
}
HOST
"""
_CARD = """format = 1
source = "k.cu"
entry = "product<512>"
[computes]
operation = "gemm"
[[arguments]]
role = "a"
dtype = "f16"
[[arguments]]
role = "b"
dtype = "f16"
[[arguments]]
role = "d"
dtype = "f32"
[launch]
grid = 1
block = 64
[[cases]]
name = "one"
M = 16
N = 16
K = 64
"""
_HOST = """void run(const half* a, const half* b, float* c, dim3 grid, cudaStream_t stream) {
    product<512><<<grid, dim3(64, 1), 0, stream>>>(a, b, c);
    product<512><<<grid, 64>>>(a, b, c);
}"""
_BYTES = 512 * 72 * 2 + 64 * 24 * 2 + 16 * 16 * 4


@pytest.mark.parametrize("host", ["", _HOST])
def test_too_many_bytes_are_mended_by_dynamic_memory(tmp_path, host):
    (tmp_path / "k.cu").write_text(_SOURCE.replace("HOST", host))
    (tmp_path / "k.toml").write_text(_CARD)
    card = load_card(tmp_path / "k.toml")
    claim = HYPOTHESIS.test(failing_evidence(card))[0]
    assert (claim.verdict, claim.place.line, claim.edit_lines) == ("proven", 6, (6, 7))
    assert f"left {512 * 72 * 2:,}" in claim.evidence[-1]
    cause = diagnose_card(card).causes[0]
    assert (cause.hypothesis, cause.verdict, cause.fix.status) == ("shared-memory-limit", "proven", "verified")
    assert f"{_BYTES:,} bytes" in cause.fix.summary
    assert "+    extern __shared__" in cause.fix.diff
    if host:
        assert f"+    product<512><<<grid, dim3(64, 1), {_BYTES}, stream>>>" in cause.fix.diff
        assert f"+    product<512><<<grid, 64, {_BYTES}>>>" in cause.fix.diff
        assert cause.fix.diff.count(f"cudaFuncAttributeMaxDynamicSharedMemorySize, {_BYTES});") == 2


@pytest.mark.parametrize(
    "body",
    [
        "if (n) { __shared__ float s[64]; s[n] = 0; }",  # not in the function's own body
        "__shared__ float s[64]; extern __shared__ float t[]; s[n] = t[n];",  # dynamic memory is used already
        "{ __shared__ float s[64]; s[n] = 0; } __shared__ float s[32]; s[n] = 1;",  # two of one name
    ],
)
def test_what_is_not_plain_is_left_alone(body):
    model = read_source(f"__global__ void f(int n) {{ {body} }}")
    arrays = static_arrays(model, {"s": 256})
    assert arrays
    assert in_dynamic_memory(model, arrays) is None


def test_other_declarations_between_stay_in_front():
    text = """__global__ void f(int n) {
    __shared__ float s[64];
    const int m = 8;
    __shared__ half t[m];
    s[n] = t[n];
}
"""
    model = read_source(text)
    changes, size = in_dynamic_memory(model, static_arrays(model, {"s": 256, "t": 16}))
    assert size == 256 + 128
    changed = apply(text, Edit("launch", "shared-memory-limit", 2, "", changes, 0.0))
    lines = [line.strip() for line in changed.split("\n")]
    assert lines.index("const int m = 8;") < lines.index("struct SharedArrays {") < lines.index("s[n] = t[n];")
    assert "__align__(128) half t[m];" in lines


def test_the_line_that_carves_what_another_line_uses():
    text = """__global__ void f(int n) {
    extern __shared__ float pool[];
    float* first = pool;
    float* second = first + 32 * n;
    float* row = second + 4 * threadIdx.x;
    first[0] = 1;
    row[n] = 2;
    n = 3;
}"""
    model = read_source(text)
    assert [carved_at(model, line) for line in (6, 7, 8)] == [3, 5, None]
