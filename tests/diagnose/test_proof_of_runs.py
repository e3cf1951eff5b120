"""What runs beside each other show against a proof: what is stored for nothing, in another order, or twice."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from wmmadiag.checks.run import emulator_of
from wmmadiag.diagnose.engine import case_bench
from wmmadiag.diagnose.frugal import overlaps, rearranged, repeats, strays, twice
from wmmadiag.diagnose.unread import unread
from wmmadiag.diagnose.watched import LineShift, watched
from wmmadiag.emulator.observer import AccessKind
from wmmadiag.subject.binding import bind
from wmmadiag.subject.card_files.read import load_card


def test_what_a_warp_stores_for_nothing_is_seen() -> None:
    """Half of the warps add up what nobody takes from them; the right kernel, ragged edges and all, has none such."""
    card = load_card(Path(__file__).parent / "blind3/gptq_linear.toml")
    bench = case_bench(card, card.variants[0].name, "sm_90", "emulator", "none", None, "", None)
    text = bench.source.read_text("utf-8")
    found = []
    for change in ("", " + partial[1][r][c]"):
        texts = {bench.source.resolve(): text.replace(change, "")} if change else {}
        run = bench.run(bench.cases()[0], texts)
        kernel = emulator_of(run.kernel) if run.kernel is not None else None
        assert kernel is not None
        found.append(unread((kernel, bind(card, case, bench.variant, seed=0, inputs="")) for case in bench.cases()))
    line = text[: text.index("store_matrix_sync(&partial")].count("\n") + 1
    assert found[0] is None and found[1] is not None and (found[1].place.line, found[1].warp) == (line, 2)


SUMS = """extern "C" __global__ void sums(const float* x, float* y, int n)
{
    volatile __shared__ float part[64];
    __shared__ float beside[64];
    part[threadIdx.x] = 0.0f;
    beside[threadIdx.x] = 0.0f;
    for (int i = threadIdx.x; i < n; i += 64) part[threadIdx.x] += x[i];
    for (int i = threadIdx.x; i < n / 2; i += 64) beside[threadIdx.x] += part[i % 64];
    y[threadIdx.x] = part[threadIdx.x] + beside[threadIdx.x];
}
"""


SUMS_CARD = """format = 1
name = "sums"
source = "sums.cu"
entry = "sums"
arguments = [
  { name = "x", role = "x", dtype = "f32", shape = ["N"] },
  { name = "y", role = "y", dtype = "f32", shape = [64], direction = "out" },
  { name = "n", dtype = "s32", value = "N" },
]
launch = { grid = 1, block = 64 }
computes = { python = "sums.py:sums" }
cases = [{ name = "small", N = 256 }]
"""


def both_watched(folder: Path, text: str, old: str, new: str) -> tuple[Any, Any, LineShift]:
    """What a kernel and the changed one do to memory, their arrays, and which line is which."""
    (folder / "sums.cu").write_text(text, "utf-8")
    (folder / "sums.toml").write_text(SUMS_CARD, "utf-8")
    (folder / "sums.py").write_text("def sums(inputs, symbols):\n    return inputs['x'][:64]\n", "utf-8")
    card = load_card(folder / "sums.toml")
    bench = case_bench(card, card.variants[0].name, "sm_90", "emulator", "none", None, "", None)
    assert text.count(old) == 1
    changed = text.replace(old, new)
    case = bench.cases()[0]
    watches, extents = [], []
    for made in (text, changed):
        run = bench.run(case, {bench.source.resolve(): made})
        kernel = emulator_of(run.kernel) if run.kernel is not None else None
        assert kernel is not None
        bound = bind(card, case, bench.variant, seed=0, inputs="")
        watches.append(watched(bound, kernel, [0]))
        extents.append(kernel.named_memory(bound.launch))
    return tuple(watches), tuple(extents), LineShift({str(bench.source.resolve()): (text, changed)})


STAGED = """extern "C" __global__ void sums(const float* x, float* y, int n) {
    __shared__ float part[64];
    part[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = part[63 - threadIdx.x];
}
"""


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("x[threadIdx.x]", "x[threadIdx.x ^ 1]", 3),
        ("x[threadIdx.x]", "x[threadIdx.x + 64]", 0),
        ("part[threadIdx.x] = x[threadIdx.x]", "part[threadIdx.x ^ 1] = x[threadIdx.x ^ 1]", 0),
        ("part[63 - threadIdx.x]", "part[threadIdx.x]", 0),
        ("[threadIdx.x] = x[threadIdx.x];", "[threadIdx.x] = x[threadIdx.x] + 1.0f;", 0),
    ],
    ids=["in another order", "other elements", "other places, too", "the reader", "nothing"],
)
def test_the_same_elements_in_another_order_are_between_who_fills_and_who_reads(
    tmp_path: Path, old: str, new: str, line: int
) -> None:
    (before, after), _, lines = both_watched(tmp_path, STAGED, old, new)
    found = rearranged(before, after, lines)
    assert (found.line if found is not None else 0) == line


TWO_WARPS = """extern "C" __global__ void sums(const float* x, float* y, int n) {
    __shared__ float part[128];
    for (int i = threadIdx.x; i < 128; i += 64) part[i] = x[i];
    __syncthreads();
    y[threadIdx.x] = part[127 - threadIdx.x];
}
"""


@pytest.mark.parametrize(
    ("new", "line"),
    [
        ("for (int i = threadIdx.x; i < 128; i += 64) part[i] = x[i] + 0.0f;", 0),
        ("for (int i = threadIdx.x % 32; i < 128; i += 32) part[i] = x[i];", 3),
        ("for (int i = threadIdx.x % 32; i < 96; i += 32) part[threadIdx.x + i] = x[i];", 0),  # in part
        ("part[0] = x[n];", 0),  # one number for all
    ],
    ids=["each its own", "both all", "both some", "one number"],
)
def test_what_two_warps_store_alike_one_would_do(tmp_path: Path, new: str, line: int) -> None:
    old = "for (int i = threadIdx.x; i < 128; i += 64) part[i] = x[i];"
    (_, after), _, _ = both_watched(tmp_path, TWO_WARPS, old, new)
    found = twice(after)
    assert (found.line if found is not None else 0) == line


def test_blocks_that_store_the_same_bytes_did_not_before() -> None:
    def stored(*first: int) -> Any:
        """One store of 32 numbers of each block, from these addresses on."""
        events = {
            block: {
                ("k.cu", 3): [
                    (0, 1, AccessKind.STORE, 2**32 - 1, 4, (start + 4 * np.arange(32, dtype=np.uint64)).tobytes())
                ]
            }
            for block, start in enumerate(np.array(first, np.uint64))
        }
        return SimpleNamespace(events=events, placed=lambda places: places)

    assert overlaps(stored(0, 128), stored(0, 96)) == 32
    assert overlaps(stored(0, 96), stored(0, 96)) == overlaps(stored(0, 96), stored(0, 128)) == 0


@pytest.mark.parametrize(
    ("old", "new", "again", "into"),
    [
        ("x[i];", "x[i / 2];", "", ""),
        ("i += 64) part", "i += 32) part", "global", ""),
        ("i < n / 2; i += 64", "i < n / 2; i += 32", "shared", ""),
        ("i < n; i += 64", "i < n / 2; i += 64", "", ""),
        ("part[threadIdx.x] = 0.0f", "part[2 * threadIdx.x] = 0.0f", "", "beside"),
    ],
    ids=["others", "all twice", "values twice", "fewer", "over the end"],
)
def test_a_kernel_that_does_more_than_it_must_was_meant_otherwise(
    tmp_path: Path, old: str, new: str, again: str, into: str
) -> None:
    (before, after), extents, lines = both_watched(tmp_path, SUMS, old, new)
    assert repeats(before, after) == again
    found = strays(before, after, lines, extents)
    assert (found[1] if found is not None else "") == into
    if found is not None:
        assert found[0].line == 5
