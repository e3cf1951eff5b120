"""Small programs in the spirit of the examples that memory and initialisation checkers document: each bug is found at
its line, and the corrected program is clean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

import wmmadiag
from wmmadiag.checks.finding import Finding


@dataclass(frozen=True)
class Program:
    """A program with a bug in the line marked BUG, what finds it, and the edit that mends it."""

    source: str
    check: str
    kind: str
    mended: tuple[str, str]
    block: int = 64
    grid: int = 2
    fresh: tuple[str, ...] = ()
    arguments: tuple[object, ...] = ()

    @property
    def line(self) -> int:
        return next(i for i, text in enumerate(self.source.splitlines(), 1) if "BUG" in text)


def _run(program: Program, source: str) -> list[Finding]:
    x: NDArray[np.float32] = np.arange(128, dtype=np.float32) + 1
    out = np.zeros(128, np.float32)
    found = wmmadiag.kernel(source, arch="sm_80").check(
        program.grid, program.block, x, out, *program.arguments, fresh=program.fresh
    )
    return [one for one in found if one.level.value != "advice"]


PROGRAMS = {
    "global memory, past the end": Program(
        """__global__ void k(const float* x, float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i + 1] = x[i];  // BUG
}""",
        "launch", "out-of-bounds", ("out[i + 1]", "out[i]"),
    ),
    "global memory, before the start": Program(
        """__global__ void k(const float* x, float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = x[i - 1];  // BUG
}""",
        "launch", "out-of-bounds", ("x[i - 1]", "x[i > 0 ? i - 1 : 0]"),
    ),
    "a loop that goes one too far": Program(
        """__global__ void k(const float* x, float* out, int n) {
    float sum = 0;
    for (int i = threadIdx.x; i <= n; i += blockDim.x)
        sum += x[i];  // BUG
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}""",
        "launch", "out-of-bounds", ("i <= n", "i < n"), arguments=(128,),
    ),
    "more threads than elements": Program(
        """__global__ void k(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = 2 * x[i];  // BUG
}""",
        "launch", "out-of-bounds", ("    out[i] =", "    if (i < n) out[i] ="), block=96, arguments=(128,),
    ),
    "a misaligned store": Program(
        """__global__ void k(const float* x, float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    char* bytes = (char*)out;
    if (i < 100) *(int*)(bytes + 4 * i + 1) = 42;  // BUG
    if (i >= 100) out[i] = x[i];
}""",
        "launch", "misaligned", ("4 * i + 1", "4 * i"),
    ),
    "a misaligned vector": Program(
        """__global__ void k(const float* x, float* out) {
    int i = threadIdx.x % 16;
    float4 v = *(const float4*)(x + 4 * i + 2);  // BUG
    if (blockIdx.x == 0 && threadIdx.x < 16) out[i] = v.x + v.y + v.z + v.w;
}""",
        "launch", "misaligned", ("+ 2)", ")"),
    ),
    "a shared array, past the end": Program(
        """__global__ void k(const float* x, float* out) {
    __shared__ float tile[64];
    tile[threadIdx.x * 2] = x[threadIdx.x];  // BUG
    __syncthreads();
    out[blockIdx.x * 64 + threadIdx.x] = tile[threadIdx.x / 2 * 2];
}""",
        "launch", "out-of-bounds", ("tile[64]", "tile[128]"),
    ),
    "a shared array, into its neighbour": Program(
        """__global__ void k(const float* x, float* out) {
    __shared__ float first[64], second[64], third[64];
    first[threadIdx.x] = 1; second[threadIdx.x] = 2; third[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) for (int i = 0; i <= 64 * (int)x[0]; ++i) first[i] = 3;  // BUG
    __syncthreads();
    out[blockIdx.x * 64 + threadIdx.x] = first[threadIdx.x] + second[threadIdx.x] + third[threadIdx.x];
}""",
        "memory", "write-outside-array", ("i <= 64", "i < 64"),
    ),
    "a local array": Program(
        """__global__ void k(const float* x, float* out, int n) {
    float window[8];
    for (int i = 0; i < 8; ++i) window[i] = x[i];
    float sum = 0;
    for (int i = 0; i < 4; ++i) sum += window[(i + threadIdx.x) * n];  // BUG
    out[blockIdx.x * 64 + threadIdx.x] = sum;
}""",
        "launch", "out-of-bounds", ("(i + threadIdx.x) * n", "(i + threadIdx.x) * n % 8"), arguments=(100_000,),
    ),
    "device memory that nobody initialised": Program(
        """__global__ void k(const float* x, float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] += x[i];  // BUG
}""",
        "uninitialised", "output", ("+=", "="), fresh=("out",),
    ),
    "half of a buffer initialised": Program(
        """__global__ void k(const float* x, float* out) {
    int i = threadIdx.x;
    if (blockIdx.x) return;
    if (i < 32) out[i] = x[i];
    __syncthreads();
    out[64 + i] = out[i];  // BUG
}""",
        "uninitialised", "output", ("i < 32", "i < 64"), fresh=("out",),
    ),
    "a struct that is initialised in part": Program(
        """struct Particle { float position, speed, mass; };
__global__ void k(const float* x, float* out) {
    __shared__ Particle all[64];
    all[threadIdx.x].position = x[threadIdx.x];
    all[threadIdx.x].speed = 1;
    __syncthreads();
    Particle p = all[63 - threadIdx.x];  // BUG
    out[blockIdx.x * 64 + threadIdx.x] = p.position + p.speed * p.mass;
}""",
        "uninitialised", "output", ("speed = 1;", "speed = 1; all[threadIdx.x].mass = 2;"),
    ),
    "a shared array that is read before it is written": Program(
        """__global__ void k(const float* x, float* out) {
    __shared__ float sum[64];
    sum[threadIdx.x] += x[threadIdx.x];  // BUG
    __syncthreads();
    out[blockIdx.x * 64 + threadIdx.x] = sum[63 - threadIdx.x];
}""",
        "uninitialised", "output", ("+=", "="),
    ),
    "a counter without a start": Program(
        """__global__ void k(const float* x, float* out) {
    __shared__ int count;
    __syncthreads();
    if (x[threadIdx.x] > 10) atomicAdd(&count, 1);  // BUG
    __syncthreads();
    out[blockIdx.x * 64 + threadIdx.x] = count;
}""",
        "uninitialised", "output", ("__shared__ int count;", "__shared__ int count; if (threadIdx.x == 0) count = 0;"),
    ),
    "an accumulator without a start": Program(
        """__global__ void k(const float* x, float* out) {
    float part[2];
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 8; ++j) part[(int)x[i] & 1] += x[j];  // BUG
    out[blockIdx.x * 64 + threadIdx.x] = part[threadIdx.x & 1];
}""",
        "uninitialised", "output", ("float part[2];", "float part[2] = {};"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_found_at_its_line(name: str) -> None:
    program = PROGRAMS[name]
    found = _run(program, program.source)
    assert {(one.check, one.kind) for one in found} == {(program.check, program.kind)}
    assert {one.place.line for one in found} == {program.line}


@pytest.mark.parametrize("name", PROGRAMS)
def test_mended(name: str) -> None:
    program = PROGRAMS[name]
    before, after = program.mended
    assert before in program.source
    assert _run(program, program.source.replace(before, after)) == []
