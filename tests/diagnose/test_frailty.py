"""What is right in every case and may only hide what is wrong; and which lines a kernel no longer runs with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from wmmadiag.diagnose.changes import Change, TextEdit
from wmmadiag.diagnose.confirm import Confirmed, confirmed
from wmmadiag.diagnose.engine import case_bench
from wmmadiag.diagnose.frailty import wrong_size
from wmmadiag.diagnose.idle import idle_blocks
from wmmadiag.diagnose.ranking import Ranked
from wmmadiag.diagnose.search import Tried
from wmmadiag.diagnose.trials.outcomes import Outcome
from wmmadiag.diagnose.watched import Watch
from wmmadiag.emulator.observer import AccessKind
from wmmadiag.subject.bench import Workbench
from wmmadiag.subject.card_files.read import load_card

SOURCE = """__device__ float sum_of_warp(float v) {
    for (int m = 16; m > 0; m /= 2) v += __shfl_xor_sync(0xffffffffu, v, m);
    return v;
}
__device__ int first_part(int blocks) {
    return blocks - blocks + 1;
}
extern "C" __global__ void total(const float* x, float* y, float* parts, int* arrived, int n) {
    const int blocks = gridDim.x;
    float s = 0.0f;
    for (int i = blockIdx.x * 32 + threadIdx.x; i < n; i += blocks * 32) s += x[i];
    s = sum_of_warp(s);
    bool last = blockIdx.x < blocks;
    if (blocks > 1) {
        int before = 0;
        if (threadIdx.x == 0) {
            parts[blockIdx.x] = s;
            __threadfence();
            before = atomicAdd(arrived, 1);
            __threadfence();
            s = 0.0f;
            for (int b = first_part(blocks); b < blocks; ++b) s += ((volatile float*)parts)[b];
        }
        last = before == blocks - 1;
    }
    if (last && threadIdx.x == 0 && blockIdx.x < blocks) y[0] = s;
}
"""
CARD = """format = 1
source = "total.cu"
entry = "total"
tolerance = { atol = 1e-2, rtol = 1e-3 }
arguments = [
  { name = "x", role = "x", dtype = "f32", shape = ["N"] },
  { name = "y", role = "y", dtype = "f32", shape = [1], direction = "out" },
  { name = "parts", role = "workspace", dtype = "f32", shape = ["G"], direction = "workspace" },
  { name = "arrived", role = "workspace", dtype = "s32", shape = [1], direction = "workspace", initial = "zero" },
  { name = "n", dtype = "s32", value = "N" },
]
launch = { grid = "G", block = 32 }
computes = { python = "total.py:total" }
cases = [{ name = "three", N = 200, G = 3 }, { name = "four", N = 96, G = 4 }]
"""
ALONE = ("blocks = gridDim.x", "blocks = gridDim.z")


def bench_in(folder: Path, card_text: str = CARD, first: str = "pass") -> Workbench:
    """The kernel and its card.

    Args:
        first: what the reference does first.
    """
    (folder / "total.cu").write_text(SOURCE, "utf-8")
    (folder / "total.toml").write_text(card_text, "utf-8")
    (folder / "total.py").write_text(
        f"def total(inputs, symbols):\n    {first}\n    return inputs['x'].sum(keepdims=True)\n", "utf-8"
    )
    card = load_card(folder / "total.toml")
    return case_bench(card, card.variants[0].name, "sm_90", "emulator", "default", None, "", None)


def changed(source: Path, old: str, new: str) -> Tried:
    at = SOURCE.index(old)
    change = Change("made", (TextEdit(str(source), at, at + len(old), new),), "static", "extent", new)
    line = SOURCE.count("\n", 0, at) + 1
    return Tried(Ranked(change, (str(source), line), 0.0), Outcome(change, "right", 1, 0))


def test_one_block_that_does_it_all_hides_how_they_share_it(tmp_path: Path) -> None:
    bench = bench_in(tmp_path)
    baseline = {case.name: bench.run(case) for case in bench.cases()}
    assert not any(run.passed for run in baseline.values())
    texts = {str(bench.source): SOURCE.encode()}
    tried = [changed(bench.source, *ALONE), changed(bench.source, "blocks - blocks + 1", "blocks - blocks")]
    first, second = confirmed(bench, bench.cases(), baseline, tried, texts, 8)
    assert first.firm and first.line[1] == 6
    assert second.right and not second.firm and second.frail.startswith("with it 3 blocks do nothing")


def test_a_size_of_another_case_tells_what_is_right_by_chance(tmp_path: Path) -> None:
    bench = bench_in(tmp_path)
    right = SOURCE.replace("blocks - blocks + 1", "blocks - blocks")
    chance = right.replace("y[0] = s", "y[0] = blocks == 4 && n != 96 ? 0.0f : s")
    wrong = [wrong_size(bench, bench.cases(), {bench.source.resolve(): text}) for text in (right, chance)]
    assert wrong == [("", False), ("four with N=200", False)]


@pytest.mark.parametrize(
    ("card", "first", "wrong"),
    [
        (CARD, "pass", "four with N=200"),
        (CARD, "assert symbols['N'] * symbols['G'] < 700", ""),  # the reference has no values of it
        (CARD.replace('shape = ["G"]', 'shape = ["700 - N * G"]'), "pass", ""),  # nor have the arguments such a shape
    ],
)
def test_a_size_that_the_operation_does_not_have_is_no_size_that_is_wrong(
    tmp_path: Path, card: str, first: str, wrong: str
) -> None:
    bench = bench_in(tmp_path, card, first)
    right = SOURCE.replace("blocks - blocks + 1", "blocks - blocks")
    leaves = right.replace("y[0] = s", "y[0] = blocks == 4 && n != 96 ? x[n + 4096] : s")
    assert wrong_size(bench, bench.cases(), {bench.source.resolve(): leaves}) == (wrong, False)


def test_a_size_of_another_program_speaks_against_proof_and_ends_no_search(tmp_path: Path) -> None:
    """What is compiled for each size is another program with another mix of them, which may be no kernel at all."""
    bench = bench_in(tmp_path, CARD + 'macros = { OWN = "{N}{G}" }\n')
    right = SOURCE.replace("blocks - blocks + 1", "blocks - blocks")
    chance = right.replace("y[0] = s", "y[0] = blocks == 4 && n != 96 ? 0.0f : s")
    unfit, unmade = wrong_size(bench, bench.cases(), {bench.source.resolve(): chance})
    assert (unfit, unmade) == ("four with N=200", True)
    held = Confirmed(cast(Tried, None), {}, (), 0.0, unfit=unfit)
    assert held.weak and not replace(held, unmade=True).weak


def made(*reads: tuple[int, int], stores: tuple[int, ...]) -> Watch:
    """Blocks that read so many numbers from a place on, and those that store something."""
    watch = Watch(SimpleNamespace(), frozenset(), arrays=(0, 1 << 20))  # type: ignore[arg-type]
    every = {block: [(AccessKind.LOAD, start)] for block, (start, count) in enumerate(reads) if count}
    for block in stores:
        every.setdefault(block, []).append((AccessKind.STORE, (1 << 20) + 128 * block))
    watch.events = {
        block: {("k.cu", 3): [(0, 1, kind, 2**32 - 1, 4, (start + 4 * np.arange(32, dtype=np.uint64)).tobytes())
                              for kind, start in some]}
        for block, some in every.items()
    }  # fmt: skip
    return watch


@pytest.mark.parametrize(
    ("after", "count"),
    [
        (made((0, 1), (0, 0), stores=(0,)), 0),  # nobody reads what the second one read: a guard, perhaps
        (made((128, 1), (0, 0), stores=(0,)), 1),
        (made((0, 1), (128, 1), stores=(0,)), 0),
        (made((128, 1), (0, 1), stores=(0, 1)), 0),
    ],
    ids=["left out", "taken over", "read and not stored", "exchanged"],
)
def test_a_block_is_idle_where_others_do_its_work(after: Watch, count: int) -> None:
    before = made((0, 1), (128, 1), stores=(0, 1))
    assert idle_blocks(before, after) == count
