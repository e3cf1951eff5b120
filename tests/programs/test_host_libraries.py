"""cuBLAS, cuBLASLt and cuRAND against plain loops on the host, and on wrong memory, through `wmmadiag run`."""

from __future__ import annotations

from pathlib import Path

import pytest

from wmmadiag.cli.main import main

FOLDER = Path(__file__).parent / "libraries"

BROKEN = r"""
#include <cublas_v2.h>
int main(int argc, char**) {
    const int n = 16;
    float host[n * n] = {}, one = 1, zero = 0, *a, *b, *c;
    cudaMalloc(&a, n * n * sizeof(float));
    cudaMalloc(&b, n * n * sizeof(float));
    cudaMalloc(&c, n * (n - 1) * sizeof(float));
    cudaMemcpy(a, host, sizeof host, cudaMemcpyHostToDevice);
    cublasHandle_t handle;
    cublasCreate(&handle);
    if (argc == 1) cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, n, b, n, &zero, a, n);
    if (argc == 2) cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, n, a, n, &zero, c, n);
    if (argc == 3) cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, n, host, n, &zero, b, n);
    if (argc == 4) cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, n, a, n, &zero, b, n);
}
"""


@pytest.mark.subprocess
@pytest.mark.parametrize("name", ["blas", "blaslt", "quasi_random"])
@pytest.mark.corpus
def test_library_functions_agree_with_plain_loops(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    exit_code = main(["run", str(FOLDER / f"{name}.cu")])
    said = capfd.readouterr()
    assert exit_code == 0, said.out + said.err
    assert "all as expected" in said.out


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("arguments", "line", "message"),
    [
        ([], 12, "nothing has written"),
        (["x"], 13, "which has 960"),
        (["x", "x"], 14, "memory of the host"),
        (["x", "x", "x"], 0, "nothing found"),
    ],
    ids=["uninitialised", "too small", "host memory", "right"],
)
def test_library_call_on_wrong_memory_is_found_at_its_line(
    arguments: list[str], line: int, message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "broken.cu"
    source.write_text(BROKEN)
    exit_code = main(["run", str(source), "--", *arguments])
    said = " ".join(capfd.readouterr().err.split())
    assert exit_code == (1 if line else 0), said
    assert message in said
    assert not line or f"broken.cu:{line}" in said


VERSIONED = r"""
#include <cstdio>
#include <cublas_v2.h>
int main() {
    cublasHandle_t handle;
    double *x, host[] = {1, 2, 3}, sum = 0;
    cudaMalloc(&x, sizeof host);
    if (cublasCreate_v2(&handle) != CUBLAS_STATUS_SUCCESS) return 1;
    cublasSetVector(3, sizeof(double), host, 1, x, 1);
    cublasDdot_v2(handle, 3, x, 1, x, 1, &sum);
    printf("%g\n", sum);
    cublasDestroy_v2(handle);
}
"""


@pytest.mark.subprocess
def test_functions_by_the_names_of_the_binary(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """`cublasCreate` is a macro of NVIDIA's header for `cublasCreate_v2`, which programs call, too."""
    source = tmp_path / "program.cu"
    source.write_text(VERSIONED)
    assert main(["run", str(source)]) == 0
    assert capfd.readouterr().out == "14\n"


UNORDERED = r"""
#include <cublas_v2.h>
__global__ void scale(float2* x, float by) { x[threadIdx.x].x *= by; }
int main(int argc, char**) {
    const float one = 1, half = 0.5f;
    float2 *x, *y;
    cudaMalloc(&x, 64 * sizeof *x), cudaMalloc(&y, 64 * sizeof *y);
    cudaMemset(x, 0, 64 * sizeof *x), cudaMemset(y, 0, 64 * sizeof *y);
    cudaStream_t s;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    cublasHandle_t handle;
    cublasCreate(&handle), cublasSetStream(handle, s);
    cudaDeviceSynchronize();
    cublasSscal(handle, 128, &half, (float*)x, 1);
    cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, (float*)y, 8, (float*)x, 8, &half, (float*)y + 64, 8);
    if (argc == 1) cudaStreamSynchronize(s);
    scale<<<1, 64>>>(x, 2);
    cudaMemsetAsync((float*)y + 64 + 4, 0, 16);  // between two columns of the product
    cudaDeviceSynchronize();
}
"""


@pytest.mark.subprocess
@pytest.mark.parametrize("arguments", [[], ["x"]], ids=["ordered", "unordered"])
def test_library_calls_are_work_of_their_stream(
    arguments: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "program.cu"
    source.write_text(UNORDERED)
    exit_code = main(["run", str(source), "--", *arguments])
    said = " ".join(capfd.readouterr().err.split())
    assert exit_code == bool(arguments), said
    found = ["cublasSscal" in said, "cublasSgemm" in said, "cudaMemset" in said]
    assert found == ([True, True, False] if arguments else [False] * 3), said
