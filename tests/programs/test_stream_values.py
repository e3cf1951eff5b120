"""Values that streams write and wait for order them, and a wait for what nothing writes is refused by name and line."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import run_program

VALUES = r"""#include <cuda.h>
#include <cstdio>
__global__ void twice(float *x) { x[threadIdx.x] *= 2; }
int main() {
    cuInit(0);
    CUcontext context;
    cuCtxCreate(&context, 0, 0);
    CUstream one, other;
    CUdeviceptr flag;
    float *x, h[32];
    cuStreamCreate(&one, CU_STREAM_NON_BLOCKING), cuStreamCreate(&other, CU_STREAM_NON_BLOCKING);
    cuMemAlloc(&flag, 8), cudaMalloc(&x, sizeof h);
    for (float &v : h) v = 1;
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    twice<<<1, 32, 0, one>>>(x);
    cuStreamWriteValue32(one, flag, 7, 0);
    const CUresult waited = WAIT;
    twice<<<1, 32, 0, other>>>(x);
    cudaDeviceSynchronize();
    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %g\n", waited, h[31]);
}
"""


@pytest.mark.parametrize(
    ("wait", "says", "found"),
    [
        ("cuStreamWaitValue32(other, flag, 7, CU_STREAM_WAIT_VALUE_EQ)", "0 4", "nothing found"),
        ("cuStreamWaitValue32(other, flag, 5, CU_STREAM_WAIT_VALUE_GEQ)", "0 4", "nothing found"),
        ("cuStreamWaitValue32(other, flag, 2, CU_STREAM_WAIT_VALUE_AND)", "0 4", "nothing found"),
        ("CUDA_SUCCESS", "0 4", "nothing orders the two"),
        (
            "cuStreamWaitValue32(other, flag, 8, CU_STREAM_WAIT_VALUE_GEQ)",
            "801 4",
            "program.cu:17: cuStreamWaitValue32",
        ),
        ("cuStreamWaitValue64(other, flag + 4, 8, 0)", "1 4", "nothing orders the two"),  # not aligned
    ],
)
def test_a_value_orders_streams(tmp_path: Path, wait: str, says: str, found: str) -> None:
    done = run_program(tmp_path, VALUES.replace("WAIT", wait))
    assert done.stdout == f"{says}\n", done.stderr
    assert found in " ".join(done.stderr.split())
    assert done.returncode == (0 if found == "nothing found" else 1)
