"""The place of a missing barrier: found, in words and as data, and right when it is tried."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from barrier_trial import Outcome, try_barrier
from run_checks import run_checks

from wmmadiag import emulator
from wmmadiag.checks import native_names, select
from wmmadiag.checks.barrier_place import missing_barriers
from wmmadiag.checks.run import reported
from wmmadiag.compile.driver import compile_source
from wmmadiag.compile.options import CompileOptions
from wmmadiag.emulator import EmulatorOptions
from wmmadiag.launch import Launch

HEAD = """#include <mma.h>
#include <cuda_fp16.h>
using namespace nvcuda;
__device__ __noinline__ void touch(float* p) { *p += 1; }
__device__ void fill(float* s, const float* x) {
    s[threadIdx.x] = x[threadIdx.x];
}
__device__ float use(const float* s) {
    return s[blockDim.x - 1 - threadIdx.x];
}
extern "C" __global__ void k(float* out, const float* x, int n) {
    int t = threadIdx.x, warp = t / 32, lane = t % 32;
    (void)warp; (void)lane; (void)n;
"""
CASES = {
    "between a write and a read": (
        """
    __shared__ float s[64];
    s[t] = x[t];
    out[t] = s[63 - t]; //here
""",
        "__syncthreads();", False,
    ),
    "behind the loop that writes, before the loop that reads": (
        """
    __shared__ float s[256];
    for (int i = t; i < 256; i += 64) {
        s[i] = x[i % 64] + i;
    }
    float sum = 0;
    #pragma unroll 1 //here
    for (int i = 0; i < n; ++i) {
        sum += s[(i * 67 + t) % 256];
    }
    out[t] = sum;
""",
        "__syncthreads();", False,
    ),
    "at the end of a loop": (
        """
    __shared__ float s[64];
    float sum = 0;
    #pragma unroll 1
    for (int i = 0; i < n; ++i) {
        s[t] = x[t] + i;
        __syncthreads();
        sum += s[63 - t];
    } //here
    out[t] = sum;
""",
        "__syncthreads();", True,
    ),
    "at the end of a loop that was unrolled": (
        """
    __shared__ float s[64];
    float sum = 0;
    for (int i = 0; i < 3; ++i) {
        s[t] = x[t] + i;
        __syncthreads();
        sum += s[63 - t];
    } //here
    out[t] = sum;
""",
        "__syncthreads();", True,
    ),
    "outside of the branch that writes": (
        """
    __shared__ float s[64];
    if (t < 20) {
        s[t] = x[t] * 2;
        s[t + 20] = x[t];
    }
    if (t < 40) //here
        out[t] = s[39 - t];
""",
        "__syncthreads();", False,
    ),
    "between two calls": (
        """
    __shared__ float s[64];
    fill(s, x);
    out[t] = use(s); //here
""",
        "__syncthreads();", False,
    ),
    "behind an early return": (
        """
    __shared__ float s[64];
    if (t >= n * 32) return;
    s[t] = x[t];
    out[t] = s[63 - t]; //here
""",
        "__syncthreads();", False,
    ),
    "a warp's own lanes, in a branch that its warp takes": (
        """
    __shared__ float s[64];
    if (warp == 0) {
        s[lane] = x[lane];
        out[lane] = s[31 - lane]; //here
    }
""",
        "__syncwarp();", False,
    ),
    "a fragment store that is read back": (
        """
    __shared__ __align__(32) float tile[256];
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, x[0]);
    if (warp == 0) {
        wmma::store_matrix_sync(tile, c, 16, wmma::mem_row_major);
    }
    #pragma unroll //here
    for (int i = 0; i < 4; ++i) {
        out[t + 64 * i] = tile[(t + 64 * i) ^ 32];
    }
""",
        "__syncthreads();", False,
    ),
}  # fmt: skip


@cache
def compiled(path: Path):
    return compile_source(path, CompileOptions(arch="sm_80"))


def run(path: Path, check: str = "races"):
    checks = select(check)
    kernel = emulator.load(compiled(path).ptx, "k", options=EmulatorOptions(threads=1, checks=native_names(checks)))
    launch = Launch((1, 1, 1), (64, 1, 1), (np.zeros(256, np.float32), np.arange(1, 65, dtype=np.float32), 5),
                    0, ("out", "x", "n"))  # fmt: skip
    return kernel, launch, run_checks(kernel, launch, checks)


@pytest.mark.parametrize("name", CASES)
def test_place(name, tmp_path):
    body, text, at_end = CASES[name]
    source = HEAD + body + "}\n"
    path = tmp_path / "kernel.cu"
    path.write_text(source)
    kernel, launch, found = run(path)
    assert found
    here = next(n for n, line in enumerate(source.split("\n"), 1) if line.endswith("//here"))
    seen = found[0]
    assert seen.suggested is not None, seen
    assert (seen.suggested.line, seen.suggested.where, seen.suggested.text) == (here, "before", text), seen
    assert ("end of the loop" in seen.hint) == at_end
    shown = reported(seen).suggested
    assert shown is not None and (shown.line, shown.text) == (here, text)
    # The place is right: compiled with it, the kernel has no race.
    lines = source.split("\n")
    mended = tmp_path / "mended.cu"
    mended.write_text("\n".join([*lines[: here - 1], text, *lines[here - 1 :]]))
    assert run(mended)[2] == ()
    # And so it is in the PTX.
    trial = try_barrier(compiled(path).ptx, "k", launch, seen, missing_barriers(kernel.kernel, seen))
    assert trial.outcome is Outcome.GONE, trial
    assert dict(trial.changed).keys() == {"out", "x"}


NO_PLACE = {
    "two warps store the same elements": "__shared__ float s[32]; s[lane] = t; __syncthreads(); out[t] = s[lane];",
    "both sides in code of some threads": """
    __shared__ float s[64];
    if (t % 3 == 0) {
        s[t] = x[t];
        out[t] = s[63 - t];
    }
    __syncthreads();
    out[64 + t] = 1;
""",
}


@pytest.mark.parametrize("name", NO_PLACE)
def test_no_place(name, tmp_path):
    path = tmp_path / "kernel.cu"
    path.write_text(HEAD + NO_PLACE[name] + "}\n")
    kernel, _, found = run(path)
    errors = [one for one in found if one.level.value == "error"]
    assert errors
    for one in errors:
        assert not missing_barriers(kernel.kernel, one) and one.suggested is None
        assert "put __syncthreads() after" not in one.hint


APART = {
    "branches that the compiler joins where no barrier parts them": (
        """
    __shared__ float s[64];
    if (t % 3 == 0) {
        s[t] = x[t];
        touch(out + t); //here
    }
    if (t % 3 != 0) {
        out[t] = s[t - t % 3];
        touch(out + t);
    }
""",
        "put __syncthreads() after line {0}, before line ", True,
    ),
    "the sides of one branch": (
        """
    __shared__ float s[64];
    if (t % 3 == 0) {
        s[t] = x[t];
        touch(out + t); //here
    } else {
        out[t] = s[t - t % 3];
        touch(out + t);
    }
""",
        "the two stand in code that only some threads reach", False,
    ),
    "a branch that holds both, and that nobody leaves": (
        """
    __shared__ float s[64];
    if (t < 48) {
        s[t] = x[t]; //here
        out[t] = s[47 - t];
    }
""",
        "the `if` of line {0} may be entered by some threads alone", False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", APART)
def test_hints_that_the_source_decides(name, tmp_path):
    text, hint, placed = APART[name]
    path = tmp_path / "kernel.cu"
    path.write_text(HEAD + text + "}\n")
    here = next(i for i, line in enumerate(path.read_text().splitlines(), 1) if "//here" in line)
    _, _, found = run(path)
    (seen,) = (one for one in found if one.level.value == "error" and one.check == "races")
    assert seen.hint.startswith(re.sub(r"\{(-?\d+)\}", lambda one: str(here - 1 + int(one[1])), hint)), seen.hint
    assert (seen.suggested is not None) == placed


def test_two_places_where_a_loop_has_no_barrier(tmp_path):
    path = tmp_path / "kernel.cu"
    path.write_text(HEAD + """
    __shared__ float s[64];
    #pragma unroll 1
    for (int i = 0; i < n; ++i) {
        s[t] = x[t] + i;
        out[t] += s[63 - t]; // A
    } // B
}
""")  # fmt: skip
    kernel, launch, (seen,) = run(path)
    needed = missing_barriers(kernel.kernel, seen)
    assert [one.at_loop_end for one in needed] == [False, True]
    ptx, before = compiled(path).ptx, launch.arguments[0].copy()
    assert try_barrier(ptx, "k", launch, seen, needed[:1]).outcome is Outcome.REMAINS
    whole = try_barrier(ptx, "k", launch, seen, needed)
    assert whole.outcome is Outcome.GONE
    assert launch.arguments[0].tobytes() == before.tobytes()  # a trial leaves the launch as it was


def test_a_trial_that_cannot_run(tmp_path):
    from dataclasses import replace

    path = tmp_path / "kernel.cu"
    path.write_text(HEAD + CASES["between a write and a read"][0] + "}\n")
    kernel, launch, (seen,) = run(path)
    place = missing_barriers(kernel.kernel, seen)[0]
    assert place is not None
    for ptx in ("no such instruction;", "trap;"):
        trial = try_barrier(compiled(path).ptx, "k", launch, seen, [replace(place, ptx=(ptx,))])
        assert trial.outcome is Outcome.FAILED and trial.problem
