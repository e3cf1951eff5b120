"""Trials compile what a check compiles: host code is left out of a library's headers as well as of the user's own."""

from __future__ import annotations

from pathlib import Path

from wmmadiag.diagnose.engine import diagnose_card
from wmmadiag.subject.card_files.read import load_card

LIBRARY = """#pragma once
#include <sstream>
#include <string>
#include <cuda_runtime.h>

inline void checked(cudaError_t error, const std::string& where) {
    std::ostringstream said;
    if (error != cudaSuccess) said << where << cudaGetErrorString(error);
}
__host__ inline int blocks(int n) { return (n + 63) / 64; }
__device__ inline float half_of(float x) { return x * 0.25f; }
"""
SOURCE = """#include <library.h>

__global__ void halves(const float* x, float* y, int M) {
    int t = blockIdx.x * 32 + threadIdx.x;
    if (t < M) y[t] = 2.0f * half_of(x[t]) + x[0];
}
"""
CARD = """format = 1
source = "k.cu"
entry = "halves"
include_paths = ["include"]
tolerance = { atol = 1e-6, rtol = 1e-6 }
[computes]
python = "ref.py:half"
[[arguments]]
role = "x"
dtype = "f32"
direction = "in"
shape = ["M"]
[[arguments]]
role = "y"
dtype = "f32"
direction = "out"
shape = ["M"]
[[arguments]]
name = "M"
dtype = "s32"
value = "M"
[launch]
grid = ["ceil_div(M, 32)"]
block = ["32"]
[[cases]]
name = "one"
M = 48
"""


def test_a_librarys_host_code_is_left_out_of_trials(tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    (tmp_path / "include/library.h").write_text(LIBRARY, "utf-8")
    (tmp_path / "k.cu").write_text(SOURCE, "utf-8")
    (tmp_path / "k.toml").write_text(CARD, "utf-8")
    (tmp_path / "ref.py").write_text("def half(arrays, sizes):\n    return {'y': arrays['x'] / 2.0}\n", "utf-8")
    found = diagnose_card(load_card(tmp_path / "k.toml"), threads=1)
    assert found.causes[0].verdict != "undecided" and found.causes[0].place.endswith("k.cu:5")
    assert found.causes[0].fix is not None and found.causes[0].fix.wrong_after == 0
