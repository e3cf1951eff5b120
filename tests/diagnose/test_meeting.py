"""Places in a source: where threads leave, where a barrier comes between accesses, what each round stores to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from wmmadiag.checks.finding import Finding
from wmmadiag.diagnose.claim import Claim
from wmmadiag.diagnose.edits import apply, edits
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.search import _once
from wmmadiag.diagnose.source.meeting import early_exits, given_by_thread, meeting_lines
from wmmadiag.diagnose.source.read import read_source
from wmmadiag.diagnose.symptoms.rounds import stored_to_one_place
from wmmadiag.diagnose.symptoms.unwritten import UnwrittenRead, _stage, overwritten_by
from wmmadiag.emulator.extents import Part
from wmmadiag.place import Place

SHARED = """__global__ void k(const float* in, float* out, int n) {
  __shared__ float s[64];
  const int row = threadIdx.x / 2;
  if (n <= 0) return;
  if (row >= n) return;
  for (int t = 0; t < n; t++) {
    s[threadIdx.x] = in[t * 64 + threadIdx.x];
    __syncwarp();
    for (int j = 0; j < 4; j++)
      out[t * 4 + j] += s[63 - threadIdx.x + j];
  }
}
"""


def test_threads_leave_where_the_condition_differs_between_them():
    model = read_source(SHARED)
    assert early_exits(model, 10) == (5,)  # all threads leave at line 4, or none
    assert early_exits(model, 5) == ()


def test_a_barrier_between_two_accesses_of_one_round_stands_inside_their_loop():
    model = read_source(SHARED)
    lines = meeting_lines(model, [(Place("k.cu", 10), Place("k.cu", 7))])
    assert lines == (8, 9, 10)  # the warp's barrier, before the inner loop, before the access


def test_the_place_that_orders_most_accesses_comes_first():
    model = read_source(SHARED)
    one, other = (Place("k.cu", 10), Place("k.cu", 7)), (Place("k.cu", 10), Place("k.cu", 9))
    assert meeting_lines(model, [one, other])[0] == 10


def test_an_inlined_access_is_looked_at_where_it_was_called():
    model = read_source(SHARED)
    read = Place("k.cu", 40, inlined_at=Place("k.cu", 10))
    assert meeting_lines(model, [(read, Place("k.cu", 7))]) == (8, 9, 10)


ROUNDS = """#include <mma.h>
using namespace nvcuda;
__global__ void k(const half* q, const half* kt, float* out) {{
  __shared__ float s[16][68];
  float* p = &s[0][0];
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> kept;
  wmma::fill_fragment(kept, 0.f);
  for (int n = 0; n < 64; n += 16) {{
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    const int col = n;
    wmma::fill_fragment(acc, 0.f);
    wmma::store_matrix_sync({address}, {fragment}, 68, wmma::mem_row_major);
    {more}
  }}
}}
"""


@pytest.mark.parametrize(
    ("address", "fragment", "more", "same"),
    [
        ("&s[0][0]", "acc", "", True),
        ("p", "acc", "", True),
        ("&s[0][n]", "acc", "", False),
        ("&s[0][col]", "acc", "", False),  # it holds the loop's variable
        ("p", "acc", "p += 16;", False),
        ("&s[0][0]", "kept", "", False),  # a running sum is stored again on purpose
    ],
)
def test_a_store_that_no_round_moves(address, fragment, more, same):
    text = ROUNDS.format(address=address, fragment=fragment, more=more)
    found = list(stored_to_one_place(read_source(text)))
    assert [(one.variable, one.loop) for one in found] == [("n", 8)] * same


@pytest.mark.parametrize(("line", "overwritten"), [(14, False), (16, True)])
def test_what_is_read_in_each_round_is_stored_anew_in_each_round(line, overwritten):
    model = read_source(ROUNDS.format(address="&s[0][0]", fragment="acc", more="out[n] = s[0][n % 16];"))
    evidence = cast(Evidence, SimpleNamespace(files=("k.cu",), source_model=lambda file: model))
    here = Place("k.cu", line)
    read = UnwrittenRead(
        cast(Finding, None), here, here, "shared", "s", "", "", (Place("k.cu", 13),), "fragments", False, 0
    )
    assert (overwritten_by(evidence, read) is not None) is overwritten


@pytest.mark.parametrize(
    ("address", "wanted"), [("&s[0][0]", "&s[0][n]"), ("&s[0][8]", "&s[0][8 + n]"), ("p", "p + n"), ("p", "p + n * 68")]
)
def test_a_store_is_moved_by_the_round(address, wanted):
    text = ROUNDS.format(address=address, fragment="acc", more="")
    offered = edits(read_source(text), hypotheses=["index-arithmetic"], lines=[13])
    assert any(f"store_matrix_sync({wanted}, acc" in apply(text, edit) for edit in offered[:6])


@pytest.mark.parametrize(
    ("offset", "holes", "stage"),
    [
        (200, [(128, 256)], 1),
        (64, [(128, 256)], -1),  # what is read has been filled
        (200, [(0, 256)], -1),  # nothing at all is filled
        (200, [(192, 256)], -1),  # the stage is filled in part
    ],
)
def test_a_stage_that_nothing_fills(offset, holes, stage):
    part = Part("tile", 0, 2, (2, 8, 8), (128, 16, 2))
    assert _stage(part, offset, holes) == stage
    assert _stage(Part("tile", 0, 2, (2, 64), (128, 2)), offset, holes) == -1  # rows, not matrices


def test_what_an_unrolled_loop_repeats_is_one_claim():
    said = Claim("partial-fill", "proven", "not filled", Place("k.cu", 3, 1))
    again = Claim("partial-fill", "proven", "not filled", Place("k.cu", 3, 9))
    other = Claim("partial-fill", "proven", "not filled", Place("k.cu", 4))
    assert _once([said, again, other]) == [said, other]
    parts = [Claim("partial-fill", "proven", "not filled", Place("k.cu", 3), reach={"o": None}) for _ in range(2)]  # type: ignore[dict-item]
    assert len(_once(parts)) == 2


def test_the_line_that_gives_each_thread_its_part():
    model = read_source(SHARED.replace("s[63 - threadIdx.x + j]", "s[row + n + j]"))
    assert given_by_thread(model, 10) == 3
    assert given_by_thread(model, 9) == 0  # the loop's own variable is the same for all


JOINED = """__global__ void k(const float* in, float* out, int M, int N) {
  const int row = blockIdx.x * 16, col = blockIdx.y * 16 + threadIdx.x;
  if (row >= M JOIN col >= N) return;
  out[row * N + col] = in[row * N + col];
}
"""


@pytest.mark.parametrize(("join", "offered"), [("&&", True), ("||", False)])
def test_a_guard_that_joins_wrongly_is_mended_before_another_is_added(join, offered):
    text = JOINED.replace("JOIN", join)
    changed = [apply(text, edit) for edit in edits(read_source(text), hypotheses=["out-of-bounds"], lines=[4])]
    wanted = JOINED.replace("JOIN", "||")
    assert (wanted in changed) is offered
    if offered:
        assert changed.index(wanted) < min(at for at, one in enumerate(changed) if one.count("return") == 2)
