"""Which failing case changes are tried on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from wmmadiag.diagnose import telling
from wmmadiag.diagnose.telling import most_telling

SMALL, EDGES, LARGE = (SimpleNamespace(name=name) for name in ("small", "edges", "large"))


def chosen(
    monkeypatch: pytest.MonkeyPatch, works: dict[str, int], lines: dict[str, set[int]], *, ended: bool = True
) -> str:
    """The case that is taken of three that fail, of so many warp instructions and with accesses in such lines."""
    verdict = object() if ended else None
    runs: dict[str, Any] = {
        name: SimpleNamespace(name=name, verdict=verdict, result=SimpleNamespace(warp_instructions=work))
        for name, work in works.items()
    }
    monkeypatch.setattr(telling, "_lines", lambda run: frozenset(("k.cu", line) for line in lines[run.name]))
    cases: list[Any] = [SMALL, EDGES, LARGE]
    return most_telling(cases, runs).name


def test_a_case_that_reaches_what_the_smallest_does_not_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    works = {"small": 1_000, "edges": 9_000, "large": 12_000}
    assert chosen(monkeypatch, works, {"small": {3, 4}, "edges": {3, 4, 7}, "large": {3, 4, 7}}) == "edges"


@pytest.mark.parametrize(
    ("works", "lines"),
    [
        ({"small": 1_000, "edges": 9_000, "large": 12_000}, {"small": {3, 7}, "edges": {3, 7}, "large": {3}}),
        ({"small": 10_000, "edges": 900_000, "large": 900_000}, {"small": {3}, "edges": {3, 7}, "large": {3, 7}}),
        ({"small": 1_000, "edges": 9_000, "large": 12_000}, {"small": {3}, "edges": {4}, "large": {5}}),  # none has all
    ],
)
def test_otherwise_the_smallest_is(
    monkeypatch: pytest.MonkeyPatch, works: dict[str, int], lines: dict[str, set[int]]
) -> None:
    assert chosen(monkeypatch, works, lines) == "small"


def test_cases_that_did_not_end_are_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    works = {"small": 0, "edges": 0, "large": 0}
    lines = {"small": {3}, "edges": {3, 7}, "large": {3, 7}}
    assert chosen(monkeypatch, works, lines) == "edges"
    assert chosen(monkeypatch, works, lines, ended=False) == "small"
