"""Kernels in headers of a project that a search path leads to: `src/x.cu` and `include/lib/x.cuh`."""

from pathlib import Path

import pytest

from wmmadiag.cli.main import main
from wmmadiag.hostcode.program import read_program

COMMON = "#pragma once\n#define DIV_UP(a, b) (((a) + (b) - 1) / (b))\n"
HEADER = """
#pragma once
#include <stdexcept>
#include "common.cuh"
namespace lib {
template <int TILE> __global__ void gemm_kernel(const float* A, const float* B, float* C, int M, int N, int K) {
    int n = blockIdx.x * TILE + threadIdx.x, m = blockIdx.y;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[m * K + k] * B[k * N + n];
    C[m * N + n] = sum;
}
inline void gemm(const float* A, const float* B, float* C, int M, int N, int K) {
    if (N % 32) throw std::runtime_error("no multiple of 32");
    gemm_kernel<32><<<dim3(DIV_UP(N, 32), M), 32>>>(A, B, C, M, N, K);
}
}
"""
SOURCE = """
#include <lib/gemm.cuh>
void run(const float* A, const float* B, float* C, int M, int N, int K) { lib::gemm(A, B, C, M, N, K); }
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "include" / "lib").mkdir(parents=True)
    (tmp_path / "include" / "lib" / "common.cuh").write_text(COMMON)
    (tmp_path / "include" / "lib" / "gemm.cuh").write_text(HEADER)
    (tmp_path / "src" / "gemm.cu").write_text(SOURCE)
    return tmp_path


def test_a_kernel_of_such_a_header_is_judged(project, capsys):
    assert main(["check", str(project / "src" / "gemm.cu"), "-I", str(project / "include")]) == 0
    assert "the instantiation lib::gemm_kernel<32> is the one" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("own", [True, False])
def test_where_the_source_has_kernels_those_are_meant(project, own):
    text = SOURCE + "__global__ void own(float* x) { x[0] = 1; }" * own
    program = read_program(text, str(project / "src" / "gemm.cu"), (project / "include",), {})
    assert [one.function.qualified for one in program.kernels()] == (["own"] if own else ["lib::gemm_kernel"])
