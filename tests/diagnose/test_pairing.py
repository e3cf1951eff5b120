"""The likeliest pairs of many changes are those that one by one would be found."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from wmmadiag.diagnose import pairing
from wmmadiag.diagnose.changes import Change, TextEdit
from wmmadiag.diagnose.pairing import Pool, likeliest
from wmmadiag.diagnose.ranking import Ranked


def some(count: int, seed: int) -> list[Ranked]:
    """Changes of lines of two files: some compiled on their own, some of two places."""
    chance = random.Random(seed)
    made = []
    for number in range(count):
        file, start = chance.choice("ab"), chance.randrange(200)
        edits = [TextEdit(file, start, start + chance.randrange(4), f"{number}")]
        if chance.random() < 0.3:
            edits.append(TextEdit(file, start + 10, start + 10 + chance.randrange(20), "second"))
        kind = "static" if chance.random() < 0.2 else "expression"
        change = Change("made", tuple(edits), kind, "value", "")  # type: ignore[arg-type]
        made.append(Ranked(change, (file, 1 + start // 8), chance.gauss(0, 2)))
    return made


def score(one: Ranked, other: Ranked, less: float) -> float:
    (file, line), (other_file, other_line) = one.line, other.line
    far = max(1, abs(line - other_line)) if file == other_file else max(line, other_line)
    return one.score + other.score - math.log(far) - less


def apart(one: Change, other: Change) -> bool:
    return all(
        a.file != b.file or a.end < b.start or b.end < a.start for a, b in itertools.product(one.edits, other.edits)
    )


def place(one: Ranked) -> tuple[tuple[str, int], int]:
    return one.line, one.change.edits[0].start


def told(one: Ranked, other: Ranked, score: float) -> tuple[str, ...]:
    return (*sorted(each.change.edits[0].text for each in (one, other)), f"{score:.9f}")


@pytest.mark.parametrize("at_once", [7, 1 << 20])
@pytest.mark.parametrize("most", [0, 1, 40, 200, 100_000])
def test_they_are_those_that_one_by_one_would_be_found(
    monkeypatch: pytest.MonkeyPatch, at_once: int, most: int
) -> None:
    monkeypatch.setattr(pairing, "_AT_ONCE", at_once)
    first, second, third = some(40, 1), some(30, 2), some(12, 3)
    every = [(a, b, score(a, b, 0.5)) for a, b in itertools.combinations(first, 2) if apart(a.change, b.change)]
    every += [(a, b, score(a, b, 0.0)) for a, b in itertools.product(second, third) if apart(a.change, b.change)]
    every.sort(key=lambda one: -one[2])
    alone = [one for one in every if "static" in (one[0].change.kind, one[1].change.kind)][: most // 32]
    others = [one for one in every if "static" not in (one[0].change.kind, one[1].change.kind)][: most - len(alone)]
    found = likeliest([Pool(first, less=0.5), Pool(second, third)], most)
    assert sorted(told(one.first, one.second, one.score) for one in found) == sorted(
        told(*one) for one in alone + others
    )
    assert [pair.score for pair in found] == sorted((pair.score for pair in found), reverse=True)
    assert all(place(pair.first) <= place(pair.second) for pair in found)


def test_of_no_changes_or_one_there_is_no_pair() -> None:
    assert likeliest([], 10) == []
    assert likeliest([Pool([]), Pool(some(1, 4))], 10) == []
    assert likeliest([Pool(some(2, 5), [])], 10) == []
