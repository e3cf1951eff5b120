"""Kernels that a card describes by a function of the user's: what can be said of them, and what cannot."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import wmmadiag
from wmmadiag.diagnose import engine
from wmmadiag.diagnose.engine import diagnose_card, failing_evidence
from wmmadiag.diagnose.search import ask
from wmmadiag.emulator import Budget
from wmmadiag.subject import bench
from wmmadiag.subject.card_files.read import load_card

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "unseen")]

from expand import expand  # noqa: E402 - not a package


@pytest.fixture(scope="session")
def public(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("public")
    expand(folder, HERE / "public_style")
    return folder


def test_what_no_product_shows_is_not_ruled_out(public: Path) -> None:
    evidence = failing_evidence(load_card(public / "conv_igemm" / "wrong" / "filter_columns.toml"))
    assert evidence is not None
    answers = ask(evidence)
    for name in ("index-arithmetic", "tensor-strides", "loop-extent", "stale-tile", "accumulator-init", "reduction"):
        one = answers[name]
        assert isinstance(one, tuple) or one.verdict == "undecided", name


@pytest.mark.parametrize("name", ["grouped_gather", "rotary_scores", "sparse_blocks"])
def test_right_kernels_are_right(name: str) -> None:
    report = wmmadiag.check(HERE / "unseen" / f"{name}.toml")
    assert [case.status for case in report.cases] == ["passed"] * len(report.cases)
    assert [finding for case in report.cases for finding in case.findings if finding.level == "error"] == []


def never_ends(public: Path, tmp_path: Path) -> Path:
    source = (public / "imma_dequant" / "kernel.cu").read_text()
    assert source.count("k0 += kTileK") == 1
    (tmp_path / "kernel.cu").write_text(source.replace("k0 += kTileK", "k0 -= k0"))
    for name in ("kernel.toml", "imma_dequant_reference.py"):
        (tmp_path / name).write_text((public / "imma_dequant" / name).read_text())
    return tmp_path / "kernel.toml"


def test_a_kernel_that_never_ends(public: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "_USUAL", Budget(5_000_000))
    found = diagnose_card(load_card(never_ends(public, tmp_path)), seconds=3)
    assert found.outcome != "right"
    assert found.seconds < 20
    assert any("does not come to its end" in cause.sentence for cause in found.causes)


def test_time_for_trials_is_theirs_alone() -> None:
    from wmmadiag.diagnose.trials.trial import Budget as Trials

    budget = Trials(2.0, 10)
    budget.started -= 5.0
    assert budget.spent
    budget.excuse(4.0)
    assert not budget.spent
    assert 0 < budget.left <= 1.0


@pytest.mark.parametrize(
    ("bug", "hypothesis", "line"),
    [
        ("paged_decode/wrong/logical_page", "index-arithmetic", "const int64_t physical"),
        ("paged_decode/wrong/merge_without_weight", "rescale-missing", "den +="),
        ("conv_igemm/wrong/filter_columns", "index-arithmetic", "const int fs"),
        ("varlen_fwd/wrong/window_off_by_one", "guard-condition", "k_pos <= q_pos"),
    ],
)
def test_the_cause_is_found(
    public: Path, bug: str, hypothesis: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "MAX_TRIALS", 40)
    found = diagnose_card(load_card(public / f"{bug}.toml"), seconds=1000.0)
    text = (public / f"{bug}.cu").read_text().split("\n")
    cause = found.causes[0]
    assert (cause.verdict, cause.hypothesis) == ("proven", hypothesis)
    assert line in text[int(cause.place.rpartition(".cu:")[2].partition(":")[0]) - 1]


def test_a_table_that_nothing_reads(public: Path) -> None:
    evidence = failing_evidence(load_card(public / "paged_decode" / "wrong" / "logical_page.toml"))
    assert evidence is not None
    assert evidence.reading is not None
    assert evidence.reading.unread == {"block_tables"}
    claims = ask(evidence)["index-arithmetic"]
    assert isinstance(claims, tuple)
    unread = next(one for one in claims if one.sentence.startswith("nothing reads block_tables"))
    assert unread.verdict == "proven"
    assert unread.place is not None
    assert "const int* table" in evidence.line_text(unread.place)


def test_an_input_that_does_not_vary(public: Path) -> None:
    evidence = failing_evidence(load_card(public / "imma_dequant" / "wrong" / "scale_of_row.toml"))
    assert evidence is not None
    assert [(one.roles, one.axis) for one in evidence.levelled] == [(("x_scale",), 0)]


def test_an_operand_read_transposed_is_mended_where_it_is_multiplied(public: Path) -> None:
    card = load_card(public / "linear_relu" / "wrong" / "w_untransposed.toml")
    evidence = failing_evidence(card)
    assert evidence is not None
    assert {place.line for place in evidence.multiplying_lines} == {48, 52, 53}
    found = diagnose_card(card, seconds=1000.0)
    assert found.causes[0].hypothesis == "operand-layout"
    assert found.causes[0].fix is not None
    assert found.causes[0].fix.status == "verified"
