"""What a warp leaves in shared memory and no thread reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from wmmadiag import emulator
from wmmadiag.compile.driver import compile_text
from wmmadiag.compile.options import CompileOptions
from wmmadiag.diagnose.unread import unread
from wmmadiag.subject.binding import bind
from wmmadiag.subject.card_files.read import load_card

CARD = """format = 1
source = "k.cu"
entry = "sums"
launch = { grid = 1, block = 64 }
computes = { operation = "softmax" }
cases = [{ name = "one", M = 2, N = 32 }]
arguments = [{ role = "x", dtype = "f32" }, { role = "y", dtype = "f32" }]
"""
SOURCE = """__global__ void sums(const float* x, float* y) {
    __shared__ float part[2];
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = READ;
}
"""


@pytest.mark.parametrize(
    ("read", "left"),
    [("part[0] + part[1]", None), ("part[0]", 1), ("part[1]", 0), ("part[threadIdx.x % 2]", None)],
)
def test_a_read_at_a_constant_index_is_a_read(tmp_path: Path, read: str, left: int | None) -> None:
    (tmp_path / "k.toml").write_text(CARD, "utf-8")
    text = SOURCE.replace("READ", read)
    (tmp_path / "k.cu").write_text(text, "utf-8")
    card = load_card(tmp_path / "k.toml")
    made = compile_text(text, str(card.source), CompileOptions(arch="sm_90"))
    kernel = emulator.load(made.ptx, made.entry("sums").name, arch="sm_90")
    found = unread([(kernel, bind(card, card.cases[0], card.variants[0]))])
    assert (None if found is None else found.warp) == left
