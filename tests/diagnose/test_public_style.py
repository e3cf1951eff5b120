"""Whole files as people publish them, with their host code: right ones come out as right, with nothing said of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import wmmadiag

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "unseen")]

from expand import expand, expand_pairs  # noqa: E402

SETS = ("public_style", "blind", *(f"blind{number}" for number in range(2, 11)))
CARDS = sorted(
    path for folder in SETS for path in (HERE / folder).glob("*.toml") if not path.name.endswith(".bugs.toml")
)


@pytest.mark.parametrize("card", CARDS, ids=lambda path: path.stem)
@pytest.mark.corpus
def test_right_kernels_are_right(card: Path) -> None:
    report = wmmadiag.check(card)
    assert [(case.case, case.status) for case in report.cases if case.status != "passed"] == []
    errors = [finding for case in report.cases for finding in case.findings if finding.level == "error"]
    assert errors == []


@pytest.mark.parametrize("name", SETS)
def test_bugs_are_written_out_with_their_truth(name: str, tmp_path: Path) -> None:
    files = sorted((HERE / name).glob("*.bugs.toml"))
    bugs = [(file.name.removesuffix(".bugs.toml"), bug) for file in files for bug in tomllib.loads(file.read_text())]
    expand(tmp_path / "single", HERE / name)
    expand_pairs(tmp_path / "pairs", HERE / name)
    truths = sorted((tmp_path / "single").rglob("*.truth.toml"))
    assert len(truths) == len(bugs)
    assert len(list((tmp_path / "pairs").rglob("*.truth.toml"))) == len(files)
    for truth in (*truths, *(tmp_path / "pairs").rglob("*.truth.toml")):
        wrong = truth.with_name(truth.name.replace(".truth.toml", ".cu")).read_text()
        what = tomllib.loads(truth.read_text())
        lines = [*what["lines"], *what.get("second", {}).get("lines", ())]
        assert lines and min(lines) >= 1 and max(lines) <= wrong.count("\n") + 1, truth


def test_two_bugs_of_several_places_are_both_there(tmp_path: Path) -> None:
    expand_pairs(tmp_path, HERE / "blind3", most=3)
    found = {truth.name.removesuffix(".truth.toml"): truth for truth in tmp_path.rglob("*.truth.toml")}
    bugs = {
        bug: what
        for file in (HERE / "blind3").glob("*.bugs.toml")
        for bug, what in tomllib.loads(file.read_text()).items()
    }
    for both, truth in found.items():
        wrong = truth.with_name(f"{both}.cu").read_text()
        for bug in both.split("_and_"):
            for edit in bugs[bug].get("edits", [bugs[bug]]):
                assert edit["new"] in wrong, (both, bug)
