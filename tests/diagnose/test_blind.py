"""What kernels that were judged blind showed to be wrong with the diagnosis itself."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from wmmadiag.diagnose.engine import _verify, diagnose_card, failing_evidence
from wmmadiag.subject.card_files.read import load_card

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "unseen")]

from expand import expand  # noqa: E402 - not a package


@pytest.fixture(scope="module")
def blind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("blind")
    expand(folder, HERE / "blind")
    return folder


def test_a_stage_that_nothing_fills_is_not_an_unfinished_fill(blind: Path) -> None:
    """The stage is read through a helper; the copy goes into the other stage, which is in use."""
    found = diagnose_card(load_card(blind / "fa_regs" / "wrong" / "stage.toml"), seconds=0.0)
    assert found.causes[0].hypothesis == "stale-tile" and "stage 1 of sk" in found.causes[0].sentence
    assert "line 90" in found.causes[0].sentence


def test_a_copy_from_a_wrong_address_is_a_copy(blind: Path) -> None:
    found = diagnose_card(load_card(blind / "hgemm_swz" / "wrong" / "tile_off_by_one.toml"), seconds=0.0)
    assert "async-copy-size" not in [cause.hypothesis for cause in found.causes]
    assert any(":57" in cause.place for cause in found.causes)


def test_a_change_that_takes_the_running_maximum_away_is_no_fix(blind: Path) -> None:
    card = load_card(blind / "flash_wmma" / "wrong" / "l_no_rescale.toml")
    evidence = failing_evidence(card)
    assert evidence is not None
    source = card.source
    text = source.read_text("utf-8")
    no_maximum = text.replace("m_new = fmaxf(m_new, s);", "m_new = (s <= -1e29f) ? fmaxf(m_new, s) : 0.0f;")
    right = text.replace("float l = row_l[tid];", "float l = row_l[tid] * alpha;")
    assert text != no_maximum and text != right
    bench = evidence.bench
    for changed, mended in ((no_maximum, False), (right, True)):
        runs = _verify(bench, bench.cases(), {source: changed})
        assert all(run.passed for run in runs[: len(bench.cases())])
        assert all(run.passed for run in runs) == mended
