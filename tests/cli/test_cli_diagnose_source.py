"""`wmmadiag diagnose SOURCE.cu` and `wmmadiag check SOURCE.cu` agree on a source whose tensor-core kernel is right."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from wmmadiag.place import Place, own_place
from wmmadiag.subject.drafts import derive
from wmmadiag.subject.drafts.derive import derived_card
from wmmadiag.subject.open_subject import derived_once

if TYPE_CHECKING:
    from conftest import Run

GEMM = """#include <mma.h>
#include <cuda_fp16.h>
#include <cstdio>
using namespace nvcuda;

__global__ void gemm(const half* A, const half* B, float* C, int M, int N, int K)
{
    int r = blockIdx.y * 16, c = blockIdx.x * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    for (int k = 0; k < K; k += 16) {
        wmma::load_matrix_sync(fa, A + r * K + k, K);
        wmma::load_matrix_sync(fb, B + k * N + c, N);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    wmma::store_matrix_sync(C + r * N + c, fc, N, wmma::mem_row_major);
}
"""
SOFTMAX = """
__global__ void softmax_kernel(const float* x, float* y, int rows, int cols)
{
    const float* in = x + blockIdx.x * cols;
    float m = -INFINITY, s = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 32) m = fmaxf(m, in[c]);
    for (int d = 16; d; d /= 2) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, d));
    for (int c = threadIdx.x; c < cols; c += 32) s += __expf(in[c] - m);
    for (int d = 16; d; d /= 2) s += __shfl_xor_sync(0xffffffff, s, d);
    for (int c = threadIdx.x; c < cols; c += 32) y[blockIdx.x * cols + c] = __expf(in[c] - m) / s;
}

void run(const half* A, const half* B, float* C, float* P, int M, int N, int K)
{
    gemm<<<dim3(N / 16, M / 16), 32>>>(A, B, C, M, N, K);
    softmax_kernel<<<M, 32>>>(C, P, M, N);
}
"""
MAIN = """
int main()
{
    const int n = 32;
    half *a, *b;
    float* c;
    cudaMallocManaged(&a, n * n * sizeof(half));
    cudaMallocManaged(&b, n * n * sizeof(half));
    cudaMallocManaged(&c, n * n * sizeof(float));
    for (int i = 0; i < n * n; ++i) { a[i] = __float2half(float(i % 7)); b[i] = __float2half(float(i % 5)); c[i] = 0; }
    gemm<<<dim3(n / 16, n / 16), 32>>>(a, b, c, n, n, n);
    cudaDeviceSynchronize();
    int bad = 0;
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) {
            float sum = 0;
            for (int k = 0; k < n; ++k) sum += __half2float(a[i * n + k]) * __half2float(b[k * n + j]);
            bad += c[i * n + j] != FACTOR * sum;
        }
    printf(bad ? "FAIL\\n" : "PASS\\n");
    return bad != 0;
}
"""


@pytest.fixture
def source(here: Path):
    def write(text: str) -> str:
        Path("own.cu").write_text(text)
        return "own.cu"

    return write


def test_another_kernel_that_is_wrong_is_looked_into(run: Run, source) -> None:
    path = source(GEMM + SOFTMAX.replace("s += __expf(in[c] - m)", "s += __expf(in[c])"))
    with derived_once():
        checked, found = run("check", path), run("diagnose", path)
    assert checked.code and "softmax_kernel" in checked.out
    line = Path(path).read_text().split("s += __expf")[0].count("\n") + 1
    assert found.code in (1, 3) and f"own.cu:{line}" in found.out, found
    assert "--entry softmax_kernel" in found.out


def test_what_is_right_alone_says_what_it_rests_on(run: Run, source, monkeypatch) -> None:
    asked = []

    def derived(path, options, *, together):
        asked.append((options.entry, together))
        return derived_card(path, options, together=together)

    monkeypatch.setattr(derive, "derived_card", derived)
    path = source(GEMM + SOFTMAX)
    with derived_once():
        found, checked = run("diagnose", path), run("check", path)
    assert len(asked) == len(set(asked)) > 1  # nothing twice
    assert checked.code == 0 and "2 checks: 2 ok" in checked.out  # each alone: together they are no operation
    assert found.code == 0
    assert "nothing is wrong" in found.out and "taken as gemm" in " ".join(found.out.split())


@pytest.mark.parametrize(
    ("factor", "code", "said"), [("1", 0, "PASS"), ("2", 3, "wrong by the program's own comparison")]
)
def test_the_program_s_own_comparison_is_heard(run: Run, source, factor: str, code: int, said: str) -> None:
    path = source(GEMM + MAIN.replace("FACTOR", factor))
    found = run("diagnose", path)
    assert (run("check", path).code, found.code) == (code, code), found
    assert said in found.out


def test_a_place_in_a_header_that_stands_in_for_torch_s_is_none_of_the_user_s() -> None:
    call = Place("own.cu", 7)
    assert own_place(Place("/x/wmmadiag/compile/stubs/c10/util/Half.h", 12, inlined_at=call)) == call
    assert own_place(Place("/x/mine/Half.h", 12, inlined_at=call)).line == 12
