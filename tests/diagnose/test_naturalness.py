"""What right code looks like, and how natural a change makes a text."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmmadiag.csource.tree import parse
from wmmadiag.diagnose.changes import Change, TextEdit
from wmmadiag.diagnose.corpus import KINDS, Corpus, corpus, counted, counted_in, runs_of, tokens_in, vocabulary
from wmmadiag.diagnose.naturalness import Naturalness

SOURCE = """__global__ void k(float* out, const half* rows, int pitch_of_rows, int n) {
    int warp = threadIdx.x / 32; // int warp = threadIdx.x / 48;
    int lane = threadIdx.x % 32;
    for (int row = warp; row < n; row += 4) {
        out[row * pitch_of_rows + lane] = rows[row * pitch_of_rows + lane];
        out[row * pitch_of_rows + lane + 32] = rows[row * pitch_of_rows + lane + 32];
    }
}
"""
WORDS = st.lists(st.sampled_from([b"a", b"b", b"for", b"(", b"1", b"kTile", b"TILE", b"Type"]), min_size=1, max_size=30)


def steps(old: str, new: str, source: str = SOURCE) -> dict[str, int]:
    """How much more natural the text becomes where `old` is `new`, by the model's name."""
    start = source.index(old)
    edit = TextEdit("k.cu", start, start + len(old), new)
    change = Change("number", (edit,), "expression", "divisor", "")
    words = Naturalness({"k.cu": parse(source, "k.cu")}).words([change])[0]
    return {name: int(step) for name, _, step in (word.partition(":") for word in words)}


def test_what_kernels_write_is_natural_and_what_they_do_not_is_not() -> None:
    assert steps("x / 32;", "x / 48;")["natural"] < -2
    assert steps("x / 32;", "x % 32;")["natural"] < 0  # no `warp` is made so
    assert steps("x / 32;", "x / 48;", SOURCE)["natural same"] == steps("x / 32;", "x / 48;")["natural"]


def test_what_a_source_calls_its_own_is_learnt_from_it() -> None:
    found = steps("out[row * pitch_of_rows + lane]", "out[row * n + lane]")
    assert found["natural here"] < found["natural"]


def test_what_a_place_says_now_says_nothing_of_it() -> None:
    told = SOURCE.replace("x / 32;", "x / 48;")
    assert steps("x / 48;", "x / 32;", told)["natural here"] > 2


@given(st.sampled_from([" 32;", "lane +", "row *", "pitch_of_rows +", "< n"]), st.sampled_from(["n", "8", "-", "warp"]))
def test_there_is_as_much_as_back(old: str, new: str) -> None:
    start = SOURCE.index(old)
    other = SOURCE[:start] + new + SOURCE[start + len(old) :]
    there = Naturalness({"k.cu": parse(SOURCE, "k.cu")}).words([_at(start, old, new)])[0]
    back = Naturalness({"k.cu": parse(other, "k.cu")}).words([_at(start, new, old)])[0]
    assert int(there[0].partition(":")[2]) == -int(back[0].partition(":")[2])


def _at(start: int, old: str, new: str) -> Change:
    return Change("number", (TextEdit("k.cu", start, start + len(old), new),), "expression", "divisor", "")


def test_a_change_of_several_places_is_told_as_a_whole() -> None:
    first, second = SOURCE.index("/ 32"), SOURCE.index("% 32")
    edits = (TextEdit("k.cu", first + 2, first + 4, "48"), TextEdit("k.cu", second + 2, second + 4, "48"))
    words = Naturalness({"k.cu": parse(SOURCE, "k.cu")}).words([Change("number", edits, "static", "divisor", "")])[0]
    assert int(words[0].partition(":")[2]) <= steps("x / 32;", "x / 48;")["natural"]


@given(st.integers(0, len(SOURCE)), st.integers(0, 40), st.text(alphabet="ab1 +([;\n/*", max_size=12))
def test_any_edit_is_told(at: int, length: int, text: str) -> None:
    edit = TextEdit("k.cu", at, min(len(SOURCE), at + length), text)
    words = Naturalness({"k.cu": parse(SOURCE, "k.cu")}).words([Change("donor", (edit,), "expression", "value", "")])
    assert len(words) == 1 and len(words[0]) == 8


@given(WORDS, WORDS)
def test_what_is_taken_away_again_was_never_counted(first: list[bytes], second: list[bytes]) -> None:
    words = vocabulary([first, second], 1)
    left = counted_in([first, second], words).without(counted_in([second], words))
    alone = counted_in([first], words)
    assert left.tokens == alone.tokens
    assert np.array_equal(left.runs, alone.runs) and np.array_equal(left.counts, alone.counts)


@given(WORDS)
def test_runs_are_told_apart_by_their_tokens_alone(tokens: list[bytes]) -> None:
    numbers = np.array(counted_in([tokens], vocabulary([tokens], 1)).numbers(tokens), np.uint64)
    pairs = runs_of(numbers, 2)[1][1:].tolist()
    texts = list(itertools.pairwise(tokens))
    assert [pairs.index(one) for one in pairs] == [texts.index(one) for one in texts]


def test_names_that_few_share_are_known_by_their_kind() -> None:
    held = Corpus(
        {kind: number for number, kind in enumerate(KINDS, 1)}, np.zeros(0, np.uint64), np.zeros(0, np.int64), 0
    )
    assert held.numbers([b"48", b"TILE", b"kTile", b"Type", b"lane"]) == [1, 2, 2, 3, 4]


def test_comments_are_no_tokens() -> None:
    assert tokens_in(b"a /* b\n c */ <<= d; // e") == [b"a", b"<<", b"=", b"d", b";"]


@pytest.mark.parametrize("text", [b"threadIdx.x / 32", b"__syncthreads();", b"wmma::mma_sync("])
def test_the_shipped_counts_know_what_every_kernel_writes(text: bytes) -> None:
    known = corpus()
    numbers = np.array(known.numbers(tokens_in(text)), np.uint64)
    longest = runs_of(numbers, len(numbers))[-1][-1:]
    assert counted(known.runs, known.counts, longest)[0] > 20
    assert known.tokens > 500_000
