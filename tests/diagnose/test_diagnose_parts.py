"""Symptoms, slices, holes, and the order of claims, on their own."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from wmmadiag.diagnose import search
from wmmadiag.diagnose.claim import Claim, NotSo, Roots
from wmmadiag.diagnose.describe import _explains, _without_proof
from wmmadiag.diagnose.edits import Change, Edit, diff
from wmmadiag.diagnose.evidence import mask_of, union
from wmmadiag.diagnose.hypotheses.illegal_shape import _REFUSED
from wmmadiag.diagnose.mends.nature import nature
from wmmadiag.diagnose.registry import all_hypotheses
from wmmadiag.diagnose.search import _agreed
from wmmadiag.diagnose.source.read import read_source
from wmmadiag.diagnose.source.slices import Slicer
from wmmadiag.diagnose.symptoms.shape import _along, common_factor
from wmmadiag.diagnose.symptoms.sharing import shared_axes
from wmmadiag.diagnose.symptoms.unwritten import _pitch, _times
from wmmadiag.diagnose.trials.launches import speaks_of_launch
from wmmadiag.diagnose.trials.trial import Budget
from wmmadiag.place import Place

SOURCE = """__device__ int twice(int x) {
  return x * 2;
}
__global__ void k(float* out, const float* in, int n) {
  int unrelated = n + 1;
  int base = blockIdx.x * n;
  int i = twice(threadIdx.x);
  if (i < n) {
    out[base + i] = in[i];
  }
}
"""


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([1, 1, 1, 1, 0, 0, 0, 0], "only 0 to 3 of 8 are wrong; the rest is right"),
        ([0, 0, 0, 0, 0, 1, 1, 1], "wrong from 5 to the end (of 8)"),
        ([0, 0, 1, 1, 0, 0, 0, 0], "wrong from 2 to 3 (of 8)"),
        ([0, 1, 0, 1, 0, 1, 0, 1], "wrong in 1 to 1 of every 2"),
        ([0, 0, 1, 1, 0, 0, 1, 1], "wrong in 2 to 3 of every 4"),
        ([1, 0, 0, 0, 1, 1, 0, 0], "3 of 8 hold wrong elements"),
        ([1] * 8, ""),
        ([0] * 8, ""),
    ],
)
def test_where_along_an_axis(rows, words):
    assert _along(np.array(rows, bool)[:, None] & np.ones((1, 3), bool), 0) == words


def test_a_common_factor():
    expected = np.linspace(1.0, 2.0, 64)
    everywhere = np.ones(64, bool)
    assert common_factor(expected * 8, expected, everywhere) == pytest.approx(8)
    assert common_factor(expected + 1, expected, everywhere) is None
    assert common_factor(expected * 1.01, expected, everywhere) is None
    assert common_factor(np.where(np.arange(64) == 3, np.nan, expected * 8), expected, everywhere) is None
    assert common_factor(expected * 8, expected, np.arange(64) < 5) is None


def test_what_a_line_depends_on():
    away = Slicer(read_source(SOURCE, entry="k")).distances([9])
    assert away[9] == 0
    assert away[8] == away[6] == away[7] == 1
    assert 5 not in away


STRIDED = """__device__ void patch(float* out, int at) {
  const int lane = threadIdx.x % 32;
  for (int i = lane; i < 256; i += 32)
    out[at + i] = 1.0f;
}
__global__ void k(float* out, int n) {
  const int step = gridDim.x * blockDim.x / 32;
  const int tiles = n / 256;
  const int pitch = 256;
  for (int w = blockIdx.x * 4 + threadIdx.x / 32; w < tiles; w += step) {
    if (n < 0) out[0] = 0;
    patch(out, w * pitch);
  }
}
"""


def test_what_decides_how_often_a_line_runs():
    model = read_source(STRIDED)
    found = Slicer(model).governing(4)
    assert {3, 10, 7, 8} <= found  # both loops, one of them the caller's, and what the step and the bound are made of
    assert not {4, 9, 11, 12} & found  # where it writes, and a condition that is beside it


def test_work_that_is_shared_out_over_the_launch():
    assert shared_axes(read_source(STRIDED)) == {"x", "threads"}
    by_blocks = STRIDED.replace("gridDim.x * blockDim.x / 32", "gridDim.x * 4")
    assert shared_axes(read_source(by_blocks)) == {"x"}
    split = "__global__ void k(float* out, int n) { int mine = (n + gridDim.z - 1) / gridDim.z; out[mine] = 0; }"
    assert shared_axes(read_source(split)) == {"z"}
    assert shared_axes(read_source(STRIDED.replace("gridDim.x", "2"))) == frozenset()
    last_first = "__global__ void k(float* out) { int tile = gridDim.x - 1 - blockIdx.x; out[tile] = 0; }"
    assert shared_axes(read_source(last_first)) == frozenset()


def test_which_claims_are_about_the_launch():
    unwritten = Claim("unwritten-output", "proven", "64 of 128 elements of O are never written")
    missing = Claim("loop-extent", "proven", "the sum lacks terms", edit_hypotheses=("loop-extent", "too-few-warps"))
    assert speaks_of_launch(unwritten)
    assert not speaks_of_launch(missing)
    assert speaks_of_launch(Claim("out-of-bounds", "proven", "write of 4 bytes past the end of shared memory"))
    assert not speaks_of_launch(Claim("out-of-bounds", "proven", "write of 4 bytes out of bounds of global memory"))


def test_nothing_depends_on_a_line_that_is_none():
    assert Slicer(read_source(SOURCE, entry="k")).distances([99]) == {}
    assert Slicer(read_source("", entry="k")).distances([1]) == {}


@pytest.mark.parametrize(
    ("holes", "pitch"),
    [
        ([(32 + 36 * r, 36 + 36 * r) for r in range(32)], 36),
        ([(32 + 36 * r, 36 + 36 * r) for r in range(3)], 0),  # too few to be a pattern
        ([(16 + 32 * r, 32 + 32 * r) for r in range(32)], 0),  # as wide as a tile: one that no warp computes
        ([(64 + 72 * r, 72 + 72 * r) for r in range(16)], 72),  # four tiles, and what is over
        ([(64 + 80 * r, 80 + 80 * r) for r in range(16)], 0),  # may be the last tile of each row
        ([(8 + 32 * r, 16 + 32 * r) for r in range(16)], 0),
        ([(32 + 36 * r + (r == 5), 36 + 36 * r) for r in range(32)], 0),
        ([(512, 1024)], 0),
        ([], 0),
    ],
)
def test_holes_that_are_padding(holes, pitch):
    assert _pitch(holes) == pitch


@pytest.mark.parametrize(
    ("size", "holes", "times"),
    [
        (1280, [(32, 40), (632, 1280)], 2),  # 16 of 32 rows, each padded
        (1024, [(256, 1024)], 4),
        (1024, [(256, 512)], 0),
        (1024, [(700, 1024)], 0),
        (1024, [(0, 1024)], 0),
        (1024, [(1016, 1024)], 0),  # padding alone
        (1024, [], 0),
    ],
)
def test_how_many_times_what_is_filled_an_array_is(size, holes, times):
    assert _times(size, holes) == times


def claim(hypothesis="index-arithmetic", verdict="proven", *, rank=Roots.OPERAND, **rest):
    return Claim(hypothesis, verdict, "s", Place("k.cu", 9), rank=rank, **rest)


LINE = claim(edit_hypotheses=("index-arithmetic", "fragment-map"), exact=False, seen=False)


def test_a_line_and_a_model_that_agree_are_one_claim():
    model = claim("fragment-map", "reproduced", rank=Roots.MODEL, residual=0.3, exact=False)
    one = _agreed(LINE, [LINE, model])
    assert (one.hypothesis, one.verdict, one.residual) == ("fragment-map", "proven", 0.3)
    assert one.rank < LINE.rank


def test_a_model_of_another_fault_comes_before_a_guess_at_a_line():
    model = claim("exp-base", "reproduced", rank=Roots.MODEL, residual=0.3, exact=False)
    assert _agreed(LINE, [LINE, model]).rank > model.rank
    assert _agreed(LINE, [LINE]) == LINE
    certain = claim(rank=Roots.OPERAND)
    assert _agreed(certain, [certain, model]) == certain


def test_a_guess_at_a_fault_is_not_called_proven():
    assert _without_proof(LINE).verdict == "undecided"
    assert _without_proof(claim(exact=True)).verdict == "proven"
    seen = claim(edit_hypotheses=("partial-fill", "index-arithmetic"), exact=False)
    assert _without_proof(seen).verdict == "proven"
    assert _without_proof(replace(seen, at_most=3)).verdict == "undecided"
    assert _without_proof(claim(exact=False, edit_hypotheses=("a", "b"), residual=0.2)).verdict == "proven"


def test_what_is_behind_few_elements_is_not_said_to_explain_all():
    evidence = SimpleNamespace(wrong={"o": np.ones((4, 8), bool)})
    assert _explains(claim(), evidence) == 32
    assert _explains(claim(at_most=5), evidence) == 5
    assert _explains(claim(at_most=50), evidence) == 32


@pytest.mark.parametrize(
    ("message", "refused"),
    [
        ('incomplete type "nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 8, 16>" is not allowed', True),
        ('no instance of overloaded function "nvcuda::wmma::mma_sync" matches the argument list', True),
        ('identifier "sun" is undefined', False),
        ('namespace "nvcuda::wmma" has no member "loadmatrix_sync"', False),
        ('expected a ";"', False),
    ],
)
def test_what_the_compiler_says_of_fragments(message, refused):
    assert bool(_REFUSED.search(message)) == refused


def test_masks():
    wrong = {"o": np.array([True, True, False])}
    assert mask_of(None, wrong) == 2
    assert mask_of({"o": np.array([True, False, True])}, wrong) == 1
    assert mask_of({"scores": np.array([True])}, wrong) == 0
    assert union([wrong, {"o": np.array([False, False, True])}])["o"].all()


def test_a_budget_of_trials():
    assert Budget(0.0, 10).spent
    assert Budget(float("inf"), 0).spent
    assert not Budget(float("inf"), 1).spent


def test_a_diff_of_the_last_line_without_end():
    edit = Edit("k", "h", 1, "s", (Change(0, 1, "b"),), 0.0)
    assert diff("k.cu", "a", edit).splitlines()[-4:] == [
        "-a",
        "\\ No newline at end of file",
        "+b",
        "\\ No newline at end of file",
    ]


def test_ids_are_words():
    assert all(name == name.lower() and " " not in name for name in all_hypotheses())
    assert isinstance(NotSo("refuted", "r").reason, str)


GUARDED = """__global__ void k(float* c, const float* a, int m, int n) {
  int row = blockIdx.y, col = threadIdx.x;
  if (row < n && col < m) c[row * n + col] = a[col];
}
"""


def test_what_a_mend_speaks_for_is_told_by_where_it_changes_the_source():
    model = read_source(GUARDED)
    first, second = GUARDED.index("n && col"), GUARDED.index("m) c[")
    exchanged = (Change(first, first + 1, "m"), Change(second, second + 1, "n"))
    assert nature(model, Edit("indices", "index-arithmetic", 3, "", exchanged, 0.1)) == "guard-condition"
    elsewhere = (exchanged[0], Change(GUARDED.index("n + col"), GUARDED.index("n + col") + 1, "m"))
    assert nature(model, Edit("indices", "index-arithmetic", 3, "", elsewhere, 0.1)) == "index-arithmetic"
    at = GUARDED.index("c[row")
    added = (Change(at, at + 1, "atomicAdd"),)
    assert nature(model, Edit("atomics", "loop-extent", 3, "", added, 0.1)) == "write-conflict"


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("x[c] -", "x[c] * scale -", "softmax-scale"),
        ("c", "c * n", "index-arithmetic"),
        ("m)", "n)", "index-arithmetic"),
    ],
)
def test_a_factor_of_an_exponent_is_a_scale_and_no_index(old: str, new: str, name: str):
    text = "__global__ void k(float* y, float* x, int n, float scale, float m, int c) { y[c] = expf(x[c] - m); }"
    at = text.index(old, text.index("expf"))
    model = read_source(text)
    assert nature(model, Edit("siblings", "index-arithmetic", 1, "", (Change(at, at + len(old), new),), 0.1)) == name


def test_a_number_in_an_address_is_a_register_only_where_registers_were_seen_to_be_exchanged():
    text = "__global__ void k(float* c, int n) { float r[2]; r[1] = 1; c[(threadIdx.x + 4) * n] = r[1]; }"
    model = read_source(text)
    address, register = text.index("4) * n"), text.index("1]; }")
    for at, claimed, name in (
        (address, "tensor-strides", "index-arithmetic"),
        (address, "fragment-map", "fragment-map"),
        (address, "", "fragment-map"),
        (register, "tensor-strides", "fragment-map"),
    ):
        edit = Edit("registers", "index-arithmetic", 1, "", (Change(at, at + 1, "8"),), 0.1)
        assert nature(model, edit, claimed=claimed) == name


@pytest.mark.parametrize(
    ("before", "after", "errors", "beside", "progress"),
    [
        ([1, 1, 0, 0], [1, 1, 0, 0], (), True, True),
        ([1, 1, 0, 0], [1, 0, 0, 0], (), False, True),
        ([1, 1, 0, 0], [0, 0, 1, 0], (), False, False),
        ([1, 1, 0, 0], [1, 1, 0, 0], (("races", "read-write"),), False, True),
        (None, [1, 1, 0, 0], (), False, True),
        (None, [1, 1, 1, 1], (), False, False),
        (None, [1, 1, 1, 0], (), False, False),
        (None, [1, 1, 0, 0], (("coverage", "unwritten"),), False, False),
    ],
)
def test_what_a_change_that_does_not_mend_everything_shows(monkeypatch, before, after, errors, beside, progress):
    """Right numbers that a change makes wrong, or elements that nobody writes any more, are no cause removed."""

    def run(mask, seen):
        wrong = {} if mask is None else {"o": np.array(mask, bool)}
        count = sum(int(one.sum()) for one in wrong.values())
        verdict = None if mask is None else True
        return SimpleNamespace(verdict=verdict, wrong=wrong, wrong_count=count, errors=lambda: frozenset(seen))

    monkeypatch.setattr(search, "with_room", lambda _: None)
    seen = (("races", "read-write"),)
    evidence = SimpleNamespace(run=run(before, seen), wrong_count=0 if before is None else sum(before))
    one = search._Search(evidence, Budget(1, 1), lambda _: (0, 0))
    trial = SimpleNamespace(run=run(after, errors))
    assert (one._same_numbers(trial), one._is_progress(trial)) == (beside, progress)
