"""Whole files as people publish them, with their host code: right ones come out as right, with nothing said of them."""

from __future__ import annotations

from pathlib import Path

import pytest

import wmmadiag

HERE = Path(__file__).parent
CARDS = sorted(
    path
    for folder in ("public_style", "blind", "blind2", "blind3")
    for path in (HERE / folder).glob("*.toml")
    if not path.name.endswith(".bugs.toml")
)


@pytest.mark.parametrize("card", CARDS, ids=lambda path: path.stem)
def test_right_kernels_are_right(card: Path) -> None:
    report = wmmadiag.check(card)
    assert [(case.case, case.status) for case in report.cases if case.status != "passed"] == []
    errors = [finding for case in report.cases for finding in case.findings if finding.level == "error"]
    assert errors == []
