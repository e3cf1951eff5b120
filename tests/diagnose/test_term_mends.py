"""What undoes a fault of a bias, a scale or another term gives back the right source, letter by letter."""

from __future__ import annotations

from pathlib import Path

import pytest
from operation_kernels import FOLDER, WRONG, wrong_evidence

from wmmadiag.diagnose.edits import apply
from wmmadiag.diagnose.mends.terms import term_mends
from wmmadiag.diagnose.search import ask, ordered

MENDED = (
    "bias_by_row", "bias_in_tile", "bias_after_act", "bias_before_alpha", "scales_exchanged", "score_bias_scaled",
    "alibi_away", "lengths_of_first", "alibi_of_batch",
)  # fmt: skip
_MOST = 9


@pytest.mark.parametrize("name", MENDED)
def test_the_right_source_is_among_the_first_mends(name: str, tmp_path: Path) -> None:
    evidence = wrong_evidence(name, tmp_path)
    claim = ordered(ask(evidence), evidence)[0]
    assert claim.place is not None
    assert claim.told
    model = evidence.source_model(claim.place.file)
    assert model is not None
    lines = dict.fromkeys((claim.place.line, *claim.edit_lines))
    edits = list(term_mends(model, claim.model, claim.hypothesis, lines))[:_MOST]
    right = (FOLDER / f"{WRONG[name].base}.cu").read_text()
    assert right in [apply(model.text, edit) for edit in edits], [edit.summary for edit in edits]
    assert all(edit.hypothesis == WRONG[name].hypothesis for edit in edits)


def test_of_other_faults_nothing_is_made(tmp_path: Path) -> None:
    evidence = wrong_evidence("bias_in_tile", tmp_path)
    model = evidence.source_model(str(evidence.bench.source))
    assert model is not None
    assert not list(term_mends(model, "slice-dropped", "loop-extent", dict.fromkeys(range(1, 40))))
