"""Baselines: read, refused, written, and held against a run."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_kernels import RIGHT, write_card, write_right, write_wrong

from wmmadiag.compare.observation import Observation
from wmmadiag.errors import ConfigurationError
from wmmadiag.gate.known_failures import KnownFailures, failures_of, read_baseline, rendered
from wmmadiag.place import Place
from wmmadiag.results.model import CaseResult, Overwritten, Problem, ReportedFinding

ENTRY = """format = 1

[[known]]
card = "wrong.toml"
failures = ["wrong-output C"]
reason = "mended soon"
expires = 2999-01-31
"""
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20).map(str.strip).filter(bool)


def test_failures_have_stable_names():
    race = ReportedFinding("races", "read-write", "error", "line 3 …")
    advice = ReportedFinding("banks", "conflict", "advice", "slow")
    assert failures_of(CaseResult("v", "c", "passed", {}, findings=(advice,))) == ()
    case = CaseResult("v", "c", "failed", {}, findings=(race, advice), overwritten=(Overwritten("Q", "guard", 3, 0),))
    assert failures_of(case) == ("overwritten Q", "races/read-write")
    fault = Problem("out-of-bounds", "…")
    assert failures_of(CaseResult("v", "c", "failed", {}, problem=fault)) == ("fault out-of-bounds",)
    assert failures_of(CaseResult("v", "c", "undecided", {}, problem=Problem("unsupported", ""))) == (
        "undecided unsupported",
    )
    assert failures_of(CaseResult("v", "c", "error", {})) == ("error",)
    assert Observation  # the wrong outputs' names are seen below, in whole runs


@given(st.lists(st.tuples(TEXT, TEXT, st.lists(TEXT, max_size=3), st.lists(TEXT, min_size=1, max_size=3), TEXT)))
def test_what_is_written_is_read(tmp_path_factory, entries):
    path = tmp_path_factory.mktemp("baseline") / "known.toml"
    day = datetime.date(2030, 1, 31)
    made = [
        KnownFailures(card, arch, "", tuple(cases), tuple(failures), reason, day, Place(str(path), 1))
        for card, arch, cases, failures, reason in entries
    ]
    text = rendered(made)
    path.write_text(text, "utf-8")
    assert rendered(read_baseline(path)) == text
    assert len(read_baseline(path)) == len(made)


@pytest.mark.parametrize(
    ("change", "line", "message"),
    [
        (("format = 1", "format = 2"), 1, "format 1"),
        (("format = 1", "x = 1"), 1, "no baseline"),
        (('reason = "mended soon"\n', ""), 3, "lacks 'reason'"),
        (('reason = "mended soon"', 'reason = " "'), 6, "empty"),
        (("expires = 2999-01-31\n", ""), 3, "lacks 'expires'"),
        (("2999-01-31", "'soon'"), 7, "'soon' is no date"),
        (("2999-01-31", "7"), 7, "must be a date"),
        (('["wrong-output C"]', "[]"), 5, "empty"),
        (('["wrong-output C"]', "3"), 5, "must be a string"),
        (("reason", "raeson"), 6, "unknown key 'raeson'"),
        (("[[known]]", "[known]"), 3, "list of tables"),
    ],
)
def test_what_is_refused(tmp_path, change, line, message):
    path = tmp_path / "known.toml"
    path.write_text(ENTRY.replace(*change))
    with pytest.raises(ConfigurationError, match=message) as caught:
        read_baseline(path)
    assert caught.value.place.line == line


@pytest.mark.parametrize("data", [b"format = ", b"\xff", None])
def test_what_is_no_toml(tmp_path, data):
    path = tmp_path / "known.toml"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(ConfigurationError, match="baseline"):
        read_baseline(path)


WRITE = ("check", ".", "--write-baseline", "known.toml", "--reason", "mended soon")
CHECK = ("check", ".", "--baseline", "known.toml")


@pytest.fixture
def folder(here):
    write_right(here)
    write_wrong(here)
    return here


def test_known_failures_pass_and_are_told(folder, run):
    code, _, err = run(*WRITE, "--expires", "2999-01-31")
    assert code == 0 and "wrote known.toml: 1 entry" in err
    (known,) = read_baseline(Path("known.toml"))
    assert (known.card, known.cases, known.failures) == ("wrong.toml", ("one", "two"), ("wrong-output C",))
    code, out, err = run(*CHECK, "--junit", "tests.xml", "--sarif", "log.sarif", "--json", "run.json")
    assert code == 0 and "1 ok, 1 wrong as known" in out
    assert "accepted: mended soon (until 2999-01-31)" in out and "2 known failures accepted" in err
    junit = Path("tests.xml").read_text()
    assert 'failures="0"' in junit and "<skipped" in junit and "<failure" not in junit
    assert '"justification": "mended soon (until 2999-01-31)"' in Path("log.sarif").read_text()
    assert "accepted: mended soon" in run("report", "run.json")[1]
    assert "WRONG" not in run(*CHECK, "-q")[1]


def test_a_new_failure_fails(folder, run):
    run(*WRITE)
    Path("other.cu").write_text(RIGHT.replace("0.0f", "2.0f"))
    write_card(folder, "other", "other.cu")
    code, out, _ = run(*CHECK)
    assert code == 1 and "1 wrong as known" in out and "1 wrong," in out


def test_a_known_case_that_fails_in_another_way_is_new(folder, run):
    run(*WRITE)
    Path("wrong.cu").write_text(RIGHT.replace("C + r * N + c", "C + r * N + c + 4096"))
    code, _, err = run(*CHECK)
    assert code == 1 and "0 known failures accepted" in err and "no longer fails" in err


def test_expired_and_no_longer_needed(folder, run):
    run(*WRITE)
    path = Path("known.toml")
    path.write_text(path.read_text().replace(str(read_baseline(path)[0].expires), "2001-02-03"))
    code, _, err = run(*CHECK)
    assert code == 1 and "known.toml:4: expired on 2001-02-03: wrong.toml" in err
    run(*WRITE)  # a new reason and a new day
    assert run(*CHECK)[0] == 0
    write_right(folder)
    Path("wrong.cu").write_text(RIGHT)
    code, _, err = run(*CHECK)
    assert code == 0 and "no longer fails, remove the entry" in err
    run(*WRITE)
    assert read_baseline(path) == ()


def test_writing_again_keeps_reasons_and_what_did_not_run(folder, run):
    Path("known.toml").write_text(ENTRY + ENTRY.partition("\n\n")[2].replace("wrong.toml", "elsewhere.toml"))
    assert run(*WRITE[:-1], "another reason")[0] == 0
    cards = {known.card: known for known in read_baseline(Path("known.toml"))}
    assert set(cards) == {"wrong.toml", "elsewhere.toml"}
    assert cards["wrong.toml"].reason == "mended soon" and cards["wrong.toml"].expires.year == 2999


def test_a_baseline_in_another_folder(folder, run):
    Path("ci").mkdir()
    run(*WRITE[:3], "ci/known.toml", *WRITE[4:])
    assert read_baseline(Path("ci/known.toml"))[0].card == "../wrong.toml"
    assert run(*CHECK[:3], "ci/known.toml")[0] == 0


def test_a_card_that_cannot_be_read_is_never_accepted(folder, run):
    Path("wrong.toml").write_text(Path("wrong.toml").read_text().replace("format = 1", "format = 7"))
    code, _, err = run(*WRITE)
    assert code == 2 and "1 cards could not be checked" in err
    assert run(*CHECK)[0] == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--write-baseline", "k.toml"), "needs --reason"),
        (("--write-baseline", "gone/k.toml", "--reason", "x"), "no folder gone"),
        (("--write-baseline", "wrong.toml", "--reason", "x"), "unknown key"),
        (("--baseline", "gone.toml"), "cannot read the baseline"),
        (("--baseline", "k", "--write-baseline", "k", "--reason", "x"), "do not go together"),
        (("--reason", "x"), "are for --write-baseline"),
        (("--expires", "tomorrow"), "not a date"),
    ],
)
def test_options_that_make_no_sense(folder, run, words, message):
    code, out, err = run("check", ".", *words)
    assert code == 2 and message in err and not out
