"""Results kept from run to run: what is found again, what must not be, damage, parallel use."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from small_kernels import HANG, RIGHT, write_card, write_right, write_wrong

from wmmadiag.api import open_card
from wmmadiag.gate import result_cache
from wmmadiag.gate.batch import check_all
from wmmadiag.gate.task import Task

pytestmark = pytest.mark.usefixtures("here")


def outcome(card: Path, **changes):
    (found,) = check_all([replace(Task(card, "sm_80"), **changes)])
    return found


@pytest.mark.parametrize("write", [write_right, write_wrong])
def test_the_second_run_is_the_first(here, write):
    card = write(Path())
    first, second = (outcome(card, record=True, diagnose=False) for _ in range(2))
    assert (first.cached, second.cached) == (False, True)
    assert second == replace(first, cached=True)
    assert first.recorded is not None and bool(first.recorded.maps) == (write is write_wrong)


def test_nothing_runs_the_second_time(here, monkeypatch):
    card = write_right(Path())
    outcome(card)
    monkeypatch.setattr("wmmadiag.api.check", lambda *_, **__: pytest.fail("it ran"))
    assert outcome(card).report.status == "passed"


def change_source():
    Path("gemm.cu").write_text(RIGHT.replace("FILL 0.0f", "FILL 0.5f"))


def change_header():
    Path("tile.h").write_text("#define TILE 16 // changed\n")


def change_card():
    path = Path("right.toml")
    path.write_text(path.read_text().replace("K = 32", "K = 48"))


@pytest.mark.parametrize("change", [change_source, change_header, change_card])
def test_a_changed_file_runs_again(here, change):
    card = write_right(Path())
    Path("tile.h").write_text("#define TILE 16\n")
    Path("gemm.cu").write_text('#include "tile.h"\n' + RIGHT)
    assert not outcome(card).cached and outcome(card).cached
    change()
    again = outcome(card)
    assert not again.cached
    assert again.report.status == ("failed" if change is change_source else "passed")


def test_a_header_that_appears_first_in_the_search_runs_again(here):
    card = write_right(Path())
    Path("a").mkdir()
    Path("b").mkdir()
    Path("b/fill.h").write_text("#define FILL 0.0f\n")
    Path("gemm.cu").write_text("#include <fill.h>\n" + RIGHT)
    card.write_text('include_paths = ["a", "b"]\n' + card.read_text())
    assert not outcome(card).cached and outcome(card).cached
    Path("a/fill.h").write_text("#define FILL 1.0f\n")
    assert outcome(card).report.status == "failed"


@pytest.mark.parametrize(
    "changes",
    [
        {"arch": "sm_90"}, {"cases": ("one",)}, {"record": True}, {"diagnose": True},
        {"options": {"seed": 3}}, {"options": {"checks": "none"}}, {"options": {"macros": {"FILL": "0.0f"}}},
    ],
    ids=str,
)  # fmt: skip
def test_other_options_are_another_result(here, changes):
    card = write_right(Path())
    outcome(card)
    assert not outcome(card, **changes).cached
    assert outcome(card, **changes).cached


def test_another_version_of_the_tool_runs_again(here, monkeypatch):
    card = write_right(Path())
    outcome(card)
    monkeypatch.setattr(result_cache, "tool_fingerprint", lambda: "newer")
    assert not outcome(card).cached


@pytest.mark.parametrize(
    "options", [{"use_cache": False}, {"against": "right.toml"}, {"backend": "gpu"}, {"backend": "both"}], ids=str
)
def test_what_has_no_key(here, options):
    assert result_cache.result_key(Task(write_right(Path()), None, options=options)) is None


def test_a_reference_in_python_is_not_kept(here):
    card = write_right(Path())
    Path("ref.py").write_text("def gemm(A, B):\n    return {'C': (A @ B, 1e-3)}\n")
    text = card.read_text().replace('operation = "gemm"', 'operation = "python", python = "ref.py:gemm"')
    card.write_text(text.replace('role = "d"', 'role = "d", direction = "out", shape = ["M", "N"]'))
    assert open_card(card).computes.operation == "python"
    assert result_cache.result_key(Task(card, None)) is None


def test_a_run_out_of_time_and_an_error_are_not_kept(here, own_cache):
    from wmmadiag.backends import RunLimits

    Path("hang.cu").write_text(HANG.replace("hang(", "gemm("))
    card = write_card(Path(), "hang", "hang.cu")
    for _ in range(2):
        found = outcome(card, options={"limits": RunLimits(instructions=10_000)})
        assert found.report.status == "undecided" and not found.cached
    Path("hang.cu").write_text(RIGHT.replace("int r", "itn r"))
    for _ in range(2):
        found = outcome(card)
        assert found.report.status == "error" and not found.cached


def test_a_file_that_changes_while_it_is_checked_is_not_kept(here, monkeypatch):
    card = write_right(Path())
    keep = result_cache.keep_outcome

    def late(outcome, key):
        change_source()
        keep(outcome, key)

    monkeypatch.setattr(result_cache, "keep_outcome", late)
    assert outcome(card).report.status == "passed"
    monkeypatch.setattr(result_cache, "keep_outcome", keep)
    assert outcome(card).report.status == "failed"
    Path("gemm.cu").write_text(RIGHT)
    assert not outcome(card).cached


@pytest.mark.parametrize("damage", [b"", b"{}", b"wmmadiag 1 0\n{}"])
def test_a_damaged_file_is_not_believed(here, own_cache, damage):
    card = write_right(Path())
    outcome(card)
    (kept,) = (own_cache / "results-1").iterdir()
    kept.write_bytes(damage)
    assert not outcome(card).cached and outcome(card).cached


@pytest.mark.subprocess
@pytest.mark.slow
def test_processes_share_it_and_keep_the_order(here):
    cards = [write_right(Path()), write_wrong(Path())]
    tasks = [Task(card, arch) for card in cards for arch in ("sm_80", "sm_90")]
    outcome(cards[1], arch="sm_90")
    told = []
    first = list(check_all(tasks, jobs=2, progress=lambda task, done, of, what: told.append((done, of))))
    assert [(one.task, one.code) for one in first] == list(zip(tasks, (0, 0, 1, 1), strict=True))
    assert [one.cached for one in first] == [False, False, False, True]
    assert told and all(done < of == 3 for done, of in told)
    assert all(one.cached for one in check_all(tasks, jobs=2))


def test_the_command_says_how_many_were_unchanged(here, run):
    write_right(Path())
    write_wrong(Path())
    words = ("check", ".", "--case", "one")
    code, out, _ = run(*words)
    assert code == 1 and out.endswith("2 checks: 1 ok, 1 wrong\n")
    code, again, _ = run(*words)
    assert code == 1 and again == out.replace("1 wrong\n", "1 wrong (2 unchanged since an earlier run)\n")
    assert "unchanged" not in run(*words, "--no-cache")[1]
