"""What is stored in shared memory for nothing, and what is read again that was stored for an earlier read."""

from __future__ import annotations

from pathlib import Path

import pytest

from wmmadiag import emulator
from wmmadiag.compile.driver import compile_text
from wmmadiag.compile.options import CompileOptions
from wmmadiag.diagnose.overwritten import more_overwritten, read_longer, shared_use
from wmmadiag.emulator import EmulatedKernel
from wmmadiag.subject.binding import BoundCase, bind
from wmmadiag.subject.card_files.read import load_card

CARD = """format = 1
source = "k.cu"
entry = "rows"
launch = { grid = 1, block = 32 }
computes = { operation = "softmax" }
cases = [{ name = "one", M = 8, N = 32 }]
arguments = [{ role = "x", dtype = "f32" }, { role = "y", dtype = "f32" }]
"""
SOURCE = """__global__ void rows(const float* x, float* y) {
    __shared__ float row[8][32];
    for (int r = 0; r < 8; ++r) {
        CLEAR
        __syncwarp();
        if (threadIdx.x < 24) row[r][threadIdx.x] = x[r * 32 + threadIdx.x];
        __syncwarp();
        y[r * 32 + threadIdx.x] = row[r][31 - threadIdx.x];
    }
}
"""
REST = "if (threadIdx.x >= 24) row[r][threadIdx.x] = 0.0f;"
WHOLE = "row[r][threadIdx.x] = 0.0f;"
FIRST = "if (r == 0 && threadIdx.x < 8) row[r][threadIdx.x] = 0.0f;"


def kernel_of(folder: Path, clear: str, source: str = SOURCE) -> tuple[BoundCase, EmulatedKernel]:
    (folder / "k.toml").write_text(CARD, "utf-8")
    text = source.replace("CLEAR", clear)
    (folder / "k.cu").write_text(text, "utf-8")
    card = load_card(folder / "k.toml")
    made = compile_text(text, str(card.source), CompileOptions(arch="sm_90"))
    kernel = emulator.load(made.ptx, made.entry("rows").name, arch="sm_90")
    return bind(card, card.cases[0], card.variants[0]), kernel


@pytest.mark.parametrize(
    ("clear", "lost", "more"),
    [(REST, 0, 0), (WHOLE, 8 * 24 * 4, 8 * 24 * 4), (FIRST, 32, 0)],
    ids=["the rest of a row", "a whole row", "a few numbers"],
)
def test_a_row_that_is_cleared_before_it_is_filled_is_stored_for_nothing(
    tmp_path: Path, clear: str, lost: int, more: int
) -> None:
    used = shared_use(*kernel_of(tmp_path, clear))
    assert used.lost == lost
    assert more_overwritten(shared_use(*kernel_of(tmp_path, "")), used) == more


ROUNDS = """__global__ void rows(const float* x, float* y) {
    __shared__ float row[32];
    for (int r = 0; r < 8; ++r) {
        if (STORED) row[threadIdx.x] = x[r * 32 + threadIdx.x];
        __syncwarp();
        y[r * 32 + threadIdx.x] = row[31 - threadIdx.x];
        __syncwarp();
        BEHIND
    }
}
"""


@pytest.mark.parametrize(
    ("before", "after", "longer"),
    [
        (("true", ""), ("r < 7 || threadIdx.x < 16", ""), 16 * 4),  # what the last round reads is of the one before
        (("true", ""), ("threadIdx.x < 31 || r < 7", ""), 0),  # a number alone
        (("true", "row[threadIdx.x] = 0.0f;"), ("true", ""), 0),  # that was stored for nothing
        (("r == 0", ""), ("true", ""), 0),  # it is stored more often
    ],
)
def test_what_a_change_leaves_unstored_is_read_longer(
    tmp_path: Path, before: tuple[str, str], after: tuple[str, str], longer: int
) -> None:
    uses = [
        shared_use(*kernel_of(tmp_path, "", ROUNDS.replace("STORED", stored).replace("BEHIND", behind)))
        for stored, behind in (before, after)
    ]
    assert read_longer(*uses) == longer
