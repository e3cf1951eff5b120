"""The check `barriers`: what it must find, and look-alikes that it must not."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_checks import found

from wmmadiag.checks.finding import Level


def run(body, block=64):
    source = (
        f'extern "C" __global__ void k(float* out) {{ int t = threadIdx.x, lane = t % 32;\n(void)lane;\n{body}\n}}\n'
    )
    return found("barriers", source, np.zeros(256, np.float32), block=block, names=("out",))


FLAGGED = {
    "lanes at different barriers": (
        'if (lane < 16) { out[t] = 1;\n asm volatile("barrier.sync 0;" ::: "memory");\n out[t] = 2; } else {\n'
        'out[t] = 3;\n asm volatile("barrier.sync 0;" ::: "memory");\n out[t] = 4; }',
        "divergent", Level.ERROR,
    ),
    "warps at different barriers": (
        "if (t < 32) { out[t] = 1;\n __syncthreads();\n out[t + 64] = out[t + 32]; } else {\n out[t] = 3;\n"
        "__syncthreads();\n out[t + 64] = 2 * out[t - 32]; }",
        "places", Level.WARNING,
    ),
    "lanes have returned": ("if (t >= 40) return;\n __syncthreads();\n out[t] = 1;", "exited-lanes", Level.WARNING),
    "warps have returned": ("if (t >= 32) return;\n __syncthreads();\n out[t] = 1;", "exited-warps", Level.ADVICE),
    "a barrier in a branch": (
        "if (t < 32) {\n out[t] = 1;\n __syncthreads();\n out[t + 64] = out[31 - t];\n }\n out[t + 128] = out[t] * 2;",
        "conditional", Level.ERROR,
    ),
    "a barrier in a branch that parts a warp": (
        "if (t < 40) {\n out[t] = 1;\n __syncthreads();\n out[t + 64] = out[39 - t];\n }\n out[t + 128] = out[t] * 2;",
        "conditional", Level.ERROR,
    ),
    "warps that leave the loop at different times": (
        "#pragma unroll 1\n for (int i = 0; i < 2 + t / 32; ++i) {\n out[t] += i;\n __syncthreads();\n }\n"
        "out[t + 64] = out[63 - t];",
        "conditional", Level.ERROR,
    ),
    "warps that leave the loop and meet a later barrier": (
        "#pragma unroll 1\n for (int i = 0; i < 2 + t / 32; ++i) {\n out[t] += i;\n __syncthreads();\n }\n"
        "__syncthreads(); out[t + 64] = out[63 - t];",
        "trips", Level.ERROR,
    ),
    "a syncwarp whose mask does not name all who come": (
        "if (lane < 20) { out[t] = 1; __syncwarp(0xffff); out[t + 64] = out[t]; }", "mask", Level.ERROR,
    ),
    "an arrival that nobody waits for": (
        'asm volatile("bar.arrive 3, 96;" ::: "memory"); out[t] = 1;', "unfinished", Level.WARNING,
    ),
    "a shuffle with a mask without its lanes": (
        "out[t] = __shfl_sync(0xffff, (float)t, 0);", "mask", Level.ERROR,
    ),
}  # fmt: skip
LOOK_ALIKES = {
    "barrier": "__syncthreads(); out[t] = 1;",
    "guarded work": "if (t < 40) out[t] = 1;\n __syncthreads();\n if (t < 40) out[t + 64] = out[39 - t];",
    "returns after the last barrier": "__syncthreads(); if (t >= 40) return; out[t] = 1;",
    "a barrier in a branch that all take": "if (blockIdx.x == 0) { out[t] = 1; __syncthreads(); } out[t + 64] = 1;",
    "a loop": "for (int i = 0; i < 4; ++i) { out[t] = i; __syncthreads(); }",
    "named barriers": 'if (t < 32) asm volatile("bar.arrive 3, 64;"); else asm volatile("bar.sync 3, 64;");',
    "warps of two roles meet at a named barrier": (
        'if (t < 32) { out[t] = 1;\n asm volatile("bar.sync 1, 64;" ::: "memory"); } else {'
        'out[t] = 2;\n asm volatile("bar.sync 1, 64;" ::: "memory"); }'
    ),
    "half a warp synchronises": "if (lane < 16) { out[t] = 1; __syncwarp(0xffff); out[t + 64] = 2; }",
    "half a warp shuffles": "if (lane < 16) out[t] = __shfl_xor_sync(0xffff, (float)t, 1);",
    "active mask": "if (lane % 3 == 0) out[t] = __reduce_add_sync(__activemask(), t);",
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name):
    body, kind, level = FLAGGED[name]
    assert (kind, level) in {(f.kind, f.level) for f in run(body)}


def test_names_the_branch():
    (seen,) = [f for f in run(FLAGGED["a barrier in a branch"][0]) if f.kind == "conditional"]
    assert (seen.place.line, seen.other.line) == (8, 6) and "line 6" in seen.message


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_not_flagged(name):
    assert run(LOOK_ALIKES[name]) == ()


def test_partial_warps_are_no_finding():
    assert run("__syncthreads(); __syncwarp(); out[t] = 1;", block=40) == ()
