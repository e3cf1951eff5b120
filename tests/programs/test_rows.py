"""Blocks that never ask for an axis of their index: turns of them end once one has changed nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import run_program

from wmmadiag.programs.rows import Turns, turns_of, unasked

PROGRAM = r"""
#include <cstdio>
#include <cuda_runtime.h>
__global__ void same(int* out, const int* in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int s = 0;
    for (int j = 0; j <= i; ++j) s += in[j];
    out[i] = s;
}
__global__ void grows(int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] += 1;
}
__global__ void settles(int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && out[i] < 5) out[i] += 1;
}
__global__ void at_once(int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && out[i] < 1) out[i] += 1;
}
__global__ void nobody(int* out) { out[threadIdx.x] = 2 * out[threadIdx.x] + 1; }
__global__ void inner(int* out) { out[blockIdx.y * 32 + threadIdx.x] = 3 * out[threadIdx.x] + blockIdx.y + 1; }
__global__ void two(int* a, int* b) {  // what one turn leaves in a the next one takes to b
    if (a[threadIdx.x] == 7) b[threadIdx.x] = 9;
    a[threadIdx.x] = 7;
}
__global__ void ticket(int* out, int* next) {
    if (threadIdx.x != 0) return;
    int t = atomicAdd(next, 1);
    out[t] = t * t;
}
int main() {
    const int n = 64;
    int *in, *out, *next, h[n];
    cudaMalloc(&in, sizeof h);
    cudaMalloc(&out, sizeof h);
    cudaMalloc(&next, sizeof(int));
    for (int i = 0; i < n; ++i) h[i] = i;
    cudaMemcpy(in, h, sizeof h, cudaMemcpyHostToDevice);
    cudaMemset(out, 0, sizeof h);
    cudaMemset(next, 0, sizeof(int));
    const auto show = [&](const char* what) {
        cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
        printf("%s %d %d\n", what, h[3], h[33]);
        cudaMemset(out, 0, sizeof h);
    };
    cudaEvent_t begin, end;
    cudaEventCreate(&begin), cudaEventCreate(&end);
    float one, all;
    cudaEventRecord(begin), same<<<2, 32>>>(out, in, n), cudaEventRecord(end);
    cudaEventElapsedTime(&one, begin, end);
    cudaMemset(out, 0, sizeof h);
    cudaEventRecord(begin), same<<<dim3(2, 60000), 32>>>(out, in, n), cudaEventRecord(end);
    cudaEventElapsedTime(&all, begin, end);
    show("same");
    printf("%.0f times as many instructions\n", all / one);
    grows<<<dim3(2, 7, 3), 32>>>(out, n), show("grows");
    settles<<<dim3(2, 9), 32>>>(out, n), show("settles");
    at_once<<<dim3(2, 9), 32>>>(out, n), show("at once");
    nobody<<<dim3(2, 2, 2), 64>>>(out), show("nobody");
    inner<<<dim3(1, 2, 5), 32>>>(out), show("inner");
    cudaMemset(in, 0, sizeof h);
    two<<<3, 64>>>(in, out), show("two");
    ticket<<<dim3(1, 40), 32>>>(out, next), show("ticket");
}
"""


@pytest.mark.subprocess
def test_memory_is_as_if_all_blocks_had_run_one_after_another(tmp_path: Path) -> None:
    # All 60,000 rows of the first would be 200 million warp instructions.
    words = ("--checks", "none", "--json", "run.json", "--budget-instructions", "1000000")
    done = run_program(tmp_path, PROGRAM, *words)
    inner = [0, 0]
    for _ in range(5):
        for y in range(2):
            inner[y] = 3 * inner[0] + y + 1
    assert done.stdout.splitlines() == [
        "same 6 561", "60000 times as many instructions", "grows 21 21", "settles 5 5", "at once 1 1", "nobody 255 255",
        f"inner {inner[0]} {inner[1]}", "two 9 9", "ticket 9 1089",
    ], done.stderr  # fmt: skip
    found = json.loads((tmp_path / "run.json").read_text())
    assert found["exit_code"] == 0
    assert found["settled"] == 2  # `same` and `at_once`: each of the others changes something in its second turn
    assert "2 ended when its blocks, all alike, changed nothing more" in done.stderr


@pytest.mark.parametrize(
    ("body", "axes"),
    [
        ("mov.u32 %r1, %ctaid.x;", "zy"),
        ("mov.u32 %r1, %ctaid.y; mov.u32 %r2, %nctaid.z;", "x"),
        ("mov.v4.u32 {%r1, %r2, %r3, %r4}, %ctaid;", ""),
        ("add.f32 %f1, %f2, %f3;", "zyx"),
        ("@%p1 atom.global.add.u32 %r1, [%rd1], 1;", ""),
        ("{ red.global.add.u32 [%rd1], 1; }", ""),
        ("ld.volatile.global.u32 %r1, [%rd1];", ""),
        ("mov.u64 %rd1, %clock64;", ""),
        ("mov.u32 %r1, %smid;", ""),
        ("call.uni (retval0), vprintf, (param0, param1);", ""),
        ("call (retval0), %rd1, (param0), prototype_0;", ""),
        ("call.uni (retval0), helper, (param0);", "zyx"),
    ],
)
def test_axes_that_nobody_asks_for(body: str, axes: str) -> None:
    assert unasked([body]) == axes


def test_only_outer_axes_are_turns() -> None:
    assert turns_of((8, 48, 1), "zy") == Turns((8, 1, 1), 48, 1)
    assert turns_of((8, 48, 2), "y") == Turns((8, 48, 2), 1, 2)
    assert turns_of((8, 48, 1), "y") == Turns((8, 1, 1), 48, 1)
    assert turns_of((8, 3, 5), "zyx") == Turns((1, 1, 1), 120, 0)
    assert turns_of((8, 1, 5), "zx") == Turns((1, 1, 1), 40, 0)
    assert turns_of((8, 3, 5), "zyx").several(4) == (4, 1, 1)
    assert turns_of((8, 3, 5), "z").several(2) == (8, 3, 2)
