"""Operations with extras: the right kernels pass; of the others evidence alone names the fault, and its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from operation_kernels import FOLDER, WRONG, right_card, wrong_evidence

from wmmadiag.diagnose.engine import failing_evidence
from wmmadiag.diagnose.search import ask, ordered


@pytest.mark.parametrize("base", sorted(path.stem for path in FOLDER.glob("*.toml")))
def test_a_right_kernel_passes(base: str) -> None:
    evidence = failing_evidence(right_card(base), passing=True)
    assert evidence is not None
    assert evidence.run.passed, evidence.run.result
    assert evidence.provenance is not None, evidence.provenance_problem
    assert evidence.provenance.disagreements == ()


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_kernel_is_explained_at_its_line(name: str, tmp_path: Path) -> None:
    wrong, evidence = WRONG[name], wrong_evidence(name, tmp_path)
    claims = ordered(ask(evidence), evidence)
    assert claims, "nothing is claimed"
    first = claims[0]
    assert (first.hypothesis, first.verdict) == (wrong.hypothesis, "reproduced"), first
    assert wrong.words in first.sentence
    assert first.place is not None
    assert wrong.line in evidence.line_text(first.place), first.place
