"""Small kernels in a folder of their own, and the command line called in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from wmmadiag.cli.main import main

RIGHT = """#include <mma.h>
using namespace nvcuda;
#ifndef FILL
#define FILL 0.0f
#endif
__global__ void gemm(const half* A, const half* B, float* C, int M, int N, int K)
{
    int r = blockIdx.y * 16, c = blockIdx.x * 16;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, FILL);
    for (int k = 0; k < K; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
        wmma::load_matrix_sync(a, A + r * K + k, K);
        wmma::load_matrix_sync(b, B + k * N + c, N);
        wmma::mma_sync(sum, a, b, sum);
    }
    wmma::store_matrix_sync(C + r * N + c, sum, N, wmma::mem_row_major);
}
void launch(half* a, half* b, float* c, int M, int N, int K) { gemm<<<dim3(N / 16, M / 16), 32>>>(a, b, c, M, N, K); }
"""
HANG = """#include <cuda_fp16.h>
extern "C" __global__ void hang(const half* A, const half* B, float* C, int M, int N, int K)
{
    volatile int go = 1;
    while (go) {}
    C[0] = 0;
}
"""
CARD = """format = 1
name = "{name}"
source = "{source}"
entry = "gemm"
arguments = [
    {{ name = "A", role = "a", dtype = "f16" }},
    {{ name = "B", role = "b", dtype = "f16" }},
    {{ name = "C", role = "d", dtype = "f32" }},
    {{ name = "M", dtype = "s32", value = "M" }},
    {{ name = "N", dtype = "s32", value = "N" }},
    {{ name = "K", dtype = "s32", value = "K" }},
]
launch = {{ grid = ["N / 16", "M / 16"], block = 32 }}
computes = {{ operation = "gemm" }}
cases = [{{ name = "one", M = 16, N = 16, K = 16 }}, {{ name = "{second}", M = 32, N = 16, K = 32 }}]
"""


@dataclass(frozen=True)
class Answer:
    """What a command printed and its exit code."""

    code: int
    out: str
    err: str


Run = Callable[..., Answer]


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WMMADIAG_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        patch.delenv("WMMADIAG_DEBUG", raising=False)
        yield


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: str | Path) -> Answer:
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return Answer(code, captured.out, captured.err)

    return run


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with gemm.cu, hang.cu, wrong.cu and cards right.toml and wrong.toml."""
    monkeypatch.chdir(tmp_path)
    Path("gemm.cu").write_text(RIGHT)
    Path("wrong.cu").write_text(RIGHT.replace("0.0f", "1.0f"))
    Path("hang.cu").write_text(HANG)
    Path("right.toml").write_text(CARD.format(name="right", source="gemm.cu", second="two"))
    Path("wrong.toml").write_text(CARD.format(name="wrong", source="wrong.cu", second="other"))
    return tmp_path
