"""Small programs in the manner of the documented examples of race and synchronisation checkers: each wrong one is found
at its lines, each right one is clean, by the checks `races`, `async` and `barriers` together.

`//X` marks a line; a finding is (kind, level, marks of its place and of its other line). A fault is ("fault", kind).
"""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

import wmmadiag
from wmmadiag import emulator
from wmmadiag.checks import native_names, select
from wmmadiag.checks.run import CheckedRuns
from wmmadiag.emulator import EmulatorOptions
from wmmadiag.errors import KernelFault
from wmmadiag.launch import Launch

REDUCE = """
__global__ void k(float* out, const float* x) {
    __shared__ float s[128];
    int t = threadIdx.x;
    s[t] = x[t] + x[t + 128];
    {first}
    for (int w = 64; w > 0; w >>= 1) {
        if (t < w) s[t] += s[t + w]; //R
        {each}
    }
    if (t == 0) out[0] = s[0];
}
"""
WARP_REDUCE = """
__global__ void k(float* out, const float* x) {
    __shared__ {volatile} float s[64];
    int t = threadIdx.x;
    s[t] = x[t]; s[t + 32] = x[t + 32]; //F
    {sync}
    s[t] = s[t] + s[t + 32]; //A
    {sync}
    float v = t < 16 ? s[t + 16] : 0.0f; //B
    {sync}
    if (t < 16) s[t] += v;
    if (t == 0) out[0] = s[0];
}
"""
STENCIL = """
__global__ void k(float* out, const float* x) {
    __shared__ float s[128];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    for (int i = 0; i < 4; ++i) {
        float v = s[(t + 1) % 128]; //R
        {middle}
        s[t] = v + 1; //W
        {end}
    }
    out[t] = s[t];
}
"""
ROLES = """
__global__ void k(float* out, const float* x) {
    __shared__ float s[2][64];
    int t = threadIdx.x;
    if (t < 64) {
        for (int i = 0; i < 4; ++i) {
            asm volatile("bar.sync %0, 128;" :: "r"(3 + (i & 1)) : "memory");
            s[i & 1][t] = x[64 * i % 256 + t]; //W
            asm volatile("bar.arrive %0, 128;" :: "r"({full} + (i & 1)) : "memory");
        }
    } else {
        asm volatile("bar.arrive 3, 128;" ::: "memory");
        asm volatile("bar.arrive 4, 128;" ::: "memory");
        for (int i = 0; i < 4; ++i) {
            asm volatile("bar.sync %0, 128;" :: "r"({full} + (i & 1)) : "memory");
            float v = s[i & 1][127 - t]; //R
            {empty}
            out[64 * (i & 1) + t - 64] += v;
        }
    }
}
"""
EMPTY = 'if (i < 2) asm volatile("bar.arrive %0, 128;" :: "r"(3 + (i & 1)) : "memory");'
STAGES = """#include <cuda_pipeline.h>
__global__ void k(float* out, const float* x) {
    __shared__ __align__(16) float s[{stages}][512];
    int t = threadIdx.x;
    float sum = 0;
    for (int i = 0; i < {stages} - 1; ++i) {
        __pipeline_memcpy_async(&s[i][4 * t], &x[4 * t], 16);
        __pipeline_commit();
    }
    #pragma unroll 1
    for (int i = 0; i < 6; ++i) {
        __pipeline_wait_prior({left});
        {barrier}
        sum += s[i % {stages}][511 - t]; //R
        {end}
        int next = i + {stages} - 1;
        if (next < 6) __pipeline_memcpy_async(&s[next % {stages}][4 * t], &x[4 * t], 16); //C
        {commit}
    }
    {drain}
    s[5 % {stages}][384 + t] = sum; //E
    __syncthreads();
    out[t] = s[5 % {stages}][511 - t];
}
"""
COUNT = """
__global__ void k(float* out, const float* x) {
    int t = threadIdx.x;
    out[t] = x[t];
    {body} //B
    out[t] += 1;
}
"""
GROUPS = """#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void k(float* out, const float* x) {
    __shared__ float s[128];
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<32>(block);
    int t = block.thread_rank();
    s[t] = x[t]; //W
    {sync};
    out[t] = s[t ^ {other}]; //R
}
"""
LAST_BLOCK = """
__device__ unsigned int count;
__global__ void k(float* out, const float* x) {
    __shared__ bool last;
    int t = threadIdx.x;
    if (t == 0) out[1 + blockIdx.x] = x[blockIdx.x]; //W
    {fence}
    if (t == 0) last = atomicInc(&count, gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    if (last && t == 0) { float sum = 0; for (int i = 0; i < gridDim.x; ++i) sum += out[1 + i]; out[0] = sum; } //R
}
"""


def fill(source, **how):
    for name, value in how.items():
        source = source.replace("{" + name + "}", str(value))
    assert not re.search(r"\{[a-z]+\}", source), source
    return source


def stages(count=3, left=1, barrier="__syncthreads();", end="", commit="__pipeline_commit();", drain=None):
    drain = "__pipeline_wait_prior(0); __syncthreads();" if drain is None else drain
    return fill(STAGES, stages=count, left=left, barrier=barrier, end=end, commit=commit, drain=drain)


S, RW, WARN = "__syncthreads();", "read-write", "warning"
WRONG = {
    "reduction, no barrier before the loop": (fill(REDUCE, first="", each=S), (RW, "error", "R", None)),
    "reduction, no barrier in the loop": (fill(REDUCE, first=S, each=""), (RW, "error", "R", "R")),
    "write after read": (fill(STENCIL, middle="", end=S), (RW, "error", "R", "W")),
    "read after write in the next iteration": (fill(STENCIL, middle=S, end=""), (RW, "error", "R", "W")),
    "write after write": (
        "__global__ void k(float* out, const float* x) { __shared__ float s[64]; int t = threadIdx.x;\n"
        "s[t % 64] = x[t]; //W\n __syncthreads(); out[t] = s[t / 2]; }",
        ("same-store", "error", "W", None),
    ),
    "lanes of one warp write one element": (
        "__global__ void k(float* out, const float* x) { __shared__ float s[64]; int t = threadIdx.x;\n"
        "s[t / 2] = x[t]; //W\n __syncthreads(); out[t] = s[t / 2]; }",
        ("one-instruction", WARN, "W", None),
    ),
    "warp-synchronous code": (fill(WARP_REDUCE, volatile="", sync=""), ("lanes-read-write", WARN, "B", "A")),
    "blocks hand on without a fence": (fill(LAST_BLOCK, fence=""), ("blocks-read-write", "error", "R", "W")),
    "buffer given back too early": (
        fill(ROLES, full=1, empty="").replace("float v = ", EMPTY + "\nfloat v = "),
        (RW, "error", "R", "W"),
    ),
    "barrier in a branch": (
        fill(COUNT, body="if (t < 64) { out[t] += 1; __syncthreads(); out[t] += x[t]; }"),
        ("conditional", "error", "B", "B"),
    ),
    "threads return before a barrier": (
        "__global__ void k(float* out, const float* x) { int t = threadIdx.x;\n if (t >= 100) return; //E\n"
        "out[t] = x[t];\n __syncthreads(); //B\n out[t] += 1; }", ("exited-lanes", WARN, "B", "E"),
    ),
    "a named barrier for more threads than come": (
        fill(COUNT, body='asm volatile("bar.sync 1, 256;" ::: "memory");'), ("fault", "deadlock", "B", None),
    ),
    "a named barrier for a number that is no multiple of the warp": (
        fill(COUNT, body='int n = 40 + (t & 0); asm volatile("bar.sync 1, %0;" :: "r"(n) : "memory");'),
        ("fault", "bad-operand", "B", None),
    ),
    "a named barrier with two counts": (
        fill(COUNT, body='int n = t < 64 ? 128 : 64; asm volatile("bar.sync 1, %0;" :: "r"(n) : "memory");'),
        ("fault", "bad-operand", "B", None),
    ),
    "a barrier that does not exist": (
        fill(COUNT, body='int n = x[0] > 1e30f ? 1 : 16; asm volatile("bar.sync %0;" :: "r"(n) : "memory");'),
        ("fault", "bad-operand", "B", None),
    ),
    "a shuffle with half a mask": (
        fill(COUNT, body="out[t] = __shfl_down_sync(0xffff, out[t], 1);"), ("mask", "error", "B", None),
    ),
    "a syncwarp that some never reach": (
        fill(COUNT, body="if (t % 32 < 8) { out[t] += 1; __syncwarp(0xf); }"), ("mask", "error", "B", None),
    ),
    "stages: too few groups waited for": (stages(left=2), ("in-flight-read", "error", "R", "C")),
    "stages: no barrier after the wait": (stages(barrier=""), (RW, "error", "R", "C")),
    "stages: a stage refilled while others read it": (
        stages(2, 0).replace("int next = i + 2 - 1;", "int next = i + 2;"), (RW, "error", "R", "C"),
    ),
    "stages: no commit": (stages(commit=""), ("in-flight-read", "error", "R", "C")),
    "stages: epilogue reuses a buffer without a barrier": (stages(drain=""), (RW, "error", "R", "E")),
    "a tile is not a block": (fill(GROUPS, sync="tile.sync()", other=64), (RW, "error", "R", "W")),
}  # fmt: skip
RIGHT = {
    "reduction": fill(REDUCE, first=S, each=S),
    "warp reduction": fill(WARP_REDUCE, volatile="", sync="__syncwarp();"),
    "stencil": fill(STENCIL, middle=S, end=S),
    "producer and consumer": fill(ROLES, full=1, empty=EMPTY),
    "the last block": fill(LAST_BLOCK, fence="__threadfence();"),
    "the last block, fence in all threads": fill(LAST_BLOCK, fence="__threadfence(); __syncthreads();"),
    "three stages": stages(),
    "two stages": stages(2, 0),
    "four stages": stages(4, 2),
    "a block of a group": fill(GROUPS, sync="block.sync()", other=64),
    "a tile of a group": fill(GROUPS, sync="tile.sync()", other=5),
    "named barrier of all": fill(COUNT, body='asm volatile("bar.sync 1, 128;" ::: "memory");'),
    "barrier in a branch of the block": fill(COUNT, body="if (x[0] >= 0) { __syncthreads(); }"),
    "half a mask for half a warp": fill(
        COUNT, body="if (t % 32 < 16) out[t] = __shfl_down_sync(0xffff, out[t], 1, 16);"
    ),
    "histogram": (
        "__global__ void k(float* out, const float* x) { __shared__ int h[8]; int t = threadIdx.x;\n"
        "if (t < 8) h[t] = 0;\n __syncthreads();\n atomicAdd(&h[(int)x[t] & 7], 1);\n __syncthreads();\n"
        "if (t < 8) atomicAdd(&out[t], (float)h[t]); }"
    ),
}


@cache
def ptx(source):
    made = wmmadiag.compile_cuda(source, arch="sm_80")
    return made.ptx, made.entries[0].name


def run(source):
    checks = select("races,async,barriers")
    text, entry = ptx(source)
    kernel = emulator.load(text, entry, options=EmulatorOptions(threads=1, checks=native_names(checks)))
    arrays = (np.zeros(256, np.float32), np.arange(1024, dtype=np.float32) % 7)
    grid, block = 3 if "blockIdx" in source else 1, 32 if "s[t + 32]" in source else 128
    runs = CheckedRuns(checks)
    fault = None
    try:
        runs.launch(kernel, Launch((grid, 1, 1), (block, 1, 1), arrays, 0, ("out", "x")))
    except KernelFault as error:
        fault = error
    return runs.found, fault


def line(source, mark):
    lines = (source).split("\n")
    return next(n for n, text in enumerate(lines, 1) if text.rstrip().endswith("//" + mark))


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.corpus
def test_wrong(name):
    source, (kind, level, first, second) = WRONG[name]
    found, fault = run(source)
    if kind == "fault":
        assert fault is not None and (fault.kind, fault.place.line) == (level, line(source, first)), fault
        return
    assert fault is None
    lines = {line(source, mark) for mark in (first, second) if mark}
    assert any(
        (one.kind, one.level.value) == (kind, level)
        and lines <= {one.place.line, one.other.line if one.other else one.place.line}
        for one in found
    ), found


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.corpus
def test_right(name):
    assert run(RIGHT[name]) == ((), None)
