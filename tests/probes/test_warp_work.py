"""Which warp stores what of an output, and how many of its elements are wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from wmmadiag import emulator
from wmmadiag.compile import CompileOptions, compile_source
from wmmadiag.probes.subject.warp_work import WarpWork, named, shared_tiles, warp_work
from wmmadiag.subject.binding import bind
from wmmadiag.subject.card_files.read import load_card

CARD = """format = 1
source = "k.cu"
entry = "k"
[computes]
operation = "gemm"
[[arguments]]
name = "A"
role = "a"
dtype = "f32"
[[arguments]]
name = "B"
role = "b"
dtype = "f32"
[[arguments]]
name = "D"
role = "d"
dtype = "f32"
[launch]
grid = 1
block = 128
[[cases]]
name = "one"
M = 4
N = 32
K = 32
"""
KERNEL = """extern "C" __global__ void k(const float* A, const float* B, float* D) {{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float sum = 0.0f;
    const int row = {row};
    for (int i = 0; i < 32; i++) sum += A[row * 32 + i] * B[i * 32 + lane];
    {barrier}
    D[row * 32 + lane] = {value};
}}
"""


def work(folder: Path, row: str = "warp", value: str = "sum", barrier: str = "") -> WarpWork | None:
    """Of a kernel in which each of four warps computes one row of 32 elements."""
    (folder / "k.cu").write_text(KERNEL.format(row=row, value=value, barrier=barrier))
    (folder / "k.toml").write_text(CARD)
    card = load_card(folder / "k.toml")
    made = compile_source(folder / "k.cu", CompileOptions(arch="sm_80"))
    kernel = emulator.load(made.ptx, "k", arch="sm_80")
    bound = bind(card, card.cases[0], card.variants[0])
    right = bound.inputs()["a"].astype(np.float64) @ bound.inputs()["b"].astype(np.float64)
    kernel.launch(bound.launch)
    seen = bound.outputs()["d"].astype(np.float64)
    found = warp_work(bound, kernel, {"d": ~(np.abs(seen - right) < 1e-3)})
    assert (bound.outputs()["d"].astype(np.float64) == seen)[~np.isnan(seen)].all()
    return found


@pytest.mark.parametrize(
    ("kernel", "stored", "wrong", "nobody", "contested", "holders"),
    [
        ({}, (32, 32, 32, 32), (0, 0, 0, 0), 0, 0, ()),
        ({"value": "warp == 2 ? 0.5f : sum"}, (32, 32, 32, 32), (0, 0, 32, 0), 0, 0, ()),
        ({"row": "warp == 3 ? 1 : warp"}, (32, 0, 32, 32), (0, 0, 0, 0), 32, 32, ((1, 3),)),
        ({"barrier": "if (warp == 3) return;"}, (32, 32, 32, 0), (0, 0, 0, 0), 32, 0, ()),
        # A row that is cleared by one warp and, behind a barrier, filled by another is nobody else's.
        ({"barrier": "D[(3 - row) * 32 + lane] = 0.0f; __syncthreads();"}, (32,) * 4, (0,) * 4, 0, 0, ()),
    ],
    ids=["right", "one-warp-wrong", "two-on-one-row", "one-leaves", "cleared-by-another"],
)
def test_what_each_warp_stores(tmp_path, kernel, stored, wrong, nobody, contested, holders):
    assert work(tmp_path, **kernel) == WarpWork(4, stored, wrong, nobody, contested, holders)


def test_words():
    assert [named([3]), named([0, 1, 2]), named([0, 2, 5])] == ["warp 3", "warps 0 to 2", "warps 0, 2 and 5"]
    found = WarpWork(4, (32, 0, 32, 32), (0, 0, 4, 0), 64, 32, ((1, 3),))
    assert (found.guilty, found.innocent, found.idle) == ((2,), (0, 3), (1,))
    assert shared_tiles(found) == "32 elements are stored by two warps (1 and 3), and 64 are stored by none"
    assert shared_tiles(WarpWork(4, (32,) * 4, (0,) * 4, 64, 0, ())) == ""
