"""Where a statement that is put in is needed, of all the places where it makes the case right."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from wmmadiag.diagnose.changes import Change, TextEdit, applied
from wmmadiag.diagnose.effort import EFFORTS
from wmmadiag.diagnose.ranking import Ranked
from wmmadiag.diagnose.search import Ledger, Tried
from wmmadiag.diagnose.sliding import slid
from wmmadiag.diagnose.trials.outcomes import Outcome

SOURCE = b"""__global__ void k(float* out, const float* a, int n) {
    float sum = 0;
    for (int t = 0; t < n; ++t) {
        __syncthreads();
        int row = t * 16;
        for (int d = 0; d < 16; ++d) {
            sum += a[row + d];
        }
        out[t] = sum;
        __syncthreads();
    }
    out[n] = 1;
    out[n + 1] = sum;
}
"""
CLEARED = "sum = 0;"


class _Trials:
    """Right is what is put in before certain lines."""

    def __init__(self, lines: set[int]) -> None:
        self.texts, self.lines = {"k.cu": SOURCE}, lines

    def try_batch(self, changes: Sequence[Change], *, looks: int = 1, defers: bool = False) -> list[Outcome]:
        del looks
        return [Outcome(one, "right" if _line(one) in self.lines else "same", 8) for one in changes]


def _line(change: Change) -> int:
    return SOURCE.count(b"\n", 0, change.edits[0].start) + 1


def _moved(first: int, lines: set[int], text: str = CLEARED) -> Tried:
    start = len(b"\n".join(SOURCE.split(b"\n")[: first - 1])) + 1
    change = Change("cleared", (TextEdit("k.cu", start, start, f"{text}\n"),), "insertion", "initial value", "cleared")
    tried = Tried(Ranked(change, ("k.cu", first), 0.0), Outcome(change, "right", 8))
    (moved,) = slid(_Trials(lines), "k", [tried], Ledger(EFFORTS["normal"]))
    made = applied({"k.cu": SOURCE}, [moved.ranked.change])["k.cu"].split(b"\n")
    assert made[moved.ranked.line[1] - 1].strip() == text.encode()  # it stands where it is said to
    return moved


@pytest.mark.parametrize("first", [4, 6, 10])
def test_what_a_round_needs_is_put_before_its_use_and_not_behind_it(first: int) -> None:
    """What clears a sum at the end of a round clears it for the next one, which needs it where it adds up."""
    moved = _moved(first, {4, 5, 6, 10})
    assert moved.ranked.line == ("k.cu", 6) and moved.also is not None
    assert {line for _, line in moved.also} | {6} == {4, 5, 6, 10}


def test_what_only_the_end_of_a_round_takes_stays_there() -> None:
    assert _moved(10, {10}).ranked.line == ("k.cu", 10)


def test_it_is_put_outside_of_a_loop_that_need_not_have_it() -> None:
    assert _moved(7, {7, 12, 13}).ranked.line == ("k.cu", 13)
    assert _moved(2, {3, 13}).ranked.line == ("k.cu", 3)


@pytest.mark.parametrize("text", ["++sum;", "sum--;", "sum *= 2;", "sum = sum + a[t];"])
def test_what_steps_on_stays_where_it_was_found(text: str) -> None:
    moved = _moved(6, {10, 12}, text)
    assert moved.ranked.line == ("k.cu", 6)
    assert moved.also == (("k.cu", 10), ("k.cu", 12))
    assert _moved(6, {10, 12}, "sum = n;").ranked.line != ("k.cu", 6)
