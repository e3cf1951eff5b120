"""`check` with report files, `report` and `compare`: as a user would call them, mistakes included."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytestmark = pytest.mark.usefixtures("here")
ALL = ("--html", "page.html", "--markdown", "note.md", "--sarif", "log.sarif", "--junit", "tests.xml")


def test_every_report_of_a_check_and_the_same_later_without_sources(run):
    answer = run("check", "right.toml", "wrong.toml", "--json", "run.json", *ALL)
    assert answer.code == 1 and "2 checks: 1 ok, 1 wrong" in answer.out
    direct = {name: Path(name).read_text() for name in ALL[1::2]}
    assert ElementTree.fromstring(direct["tests.xml"]).get("failures") == "2"
    for name in ("gemm.cu", "wrong.cu", "right.toml", "wrong.toml", *direct):
        Path(name).unlink()
    answer = run("report", "run.json", *ALL)
    assert answer.code == 1 and not answer.out and not answer.err
    assert {name: Path(name).read_text() for name in direct} == direct
    shown = run("report", "run.json")
    assert "WRONG" in shown.out and "2 checks: 1 ok, 1 wrong" in shown.out
    made = json.loads(Path("run.json").read_text())
    assert made["command"] == "wmmadiag check right.toml wrong.toml"
    assert made["kernels"][0]["sources"][1]["text"].startswith("#include <mma.h>") and not made["kernels"][0]["maps"]
    assert len(made["kernels"][1]["maps"]) == 2 and made["rules"] and made["versions"]["wmmadiag"]


def test_standard_output_holds_one_report_and_nothing_else(run):
    answer = run("check", "wrong.toml", "--case", "one", "--json", "-")
    assert answer.code == 1 and json.loads(answer.out)["status"] == "failed" and not answer.err


def test_annotations_come_besides_the_text(run):
    answer = run("check", "wrong.toml", "--case", "one", "--github")
    assert "::error file=wrong.cu" in answer.out and "WRONG" in answer.out
    assert "::error" not in run("check", "right.toml", "--github").out


def test_a_card_that_cannot_be_checked_is_in_the_report(run):
    Path("broken.toml").write_text("format = 1\n")
    answer = run("check", "broken.toml", "right.toml", "--json", "run.json", "--junit", "tests.xml")
    assert answer.code == 2
    made = json.loads(Path("run.json").read_text())
    assert made["exit_code"] == 2 and made["unchecked"][0]["path"] == "broken.toml"
    assert ElementTree.parse("tests.xml").getroot().get("errors") == "1"


@pytest.mark.parametrize(("words", "message"), [
    (("--json", "gone/run.json"), "there is no folder gone"),
    (("--json", "a.json", "--html", "./a.json"), "both write to"),
    (("--json", "-", "--markdown", "-"), "both write to -"),
    (("--json", "-", "--github"), "writes to standard output"),
    (("--json", ""), "needs the name of a file"),
    (("--htlm", "page.html"), "did you mean '--html'"),
])  # fmt: skip
def test_mistakes_are_told_before_anything_runs(run, words, message):
    answer = run("check", "wrong.toml", *words)
    assert answer.code == 2 and message in answer.err and not answer.out


@pytest.mark.parametrize(("content", "message"), [
    ("", "run.json is empty"), ("{", "cut off"), ('{"format_version": 1}', "format version 1"),
])  # fmt: skip
def test_a_file_that_is_no_run(run, content, message):
    Path("run.json").write_text(content)
    answer = run("report", "run.json")
    assert answer.code == 2 and message in answer.err
    assert run("report", "gone.json").code == 2


def test_what_changed(run):
    run("check", "right.toml", "--json", "before.json")
    Path("gemm.cu").write_text(Path("wrong.cu").read_text())
    run("check", "right.toml", "--json", "after.json")
    answer = run("compare", "before.json", "after.json")
    assert answer.code == 1 and answer.out.startswith("new failures") and answer.out.endswith("2 new failures\n")
    assert run("compare", "after.json", "before.json").code == 0
    answer = run("compare", "before.json", "after.json", "--markdown", "-")
    assert answer.code == 1 and answer.out.startswith("### ❌") and "new failures" in answer.out
    assert run("compare", "before.json", "gone.json").code == 2


def test_an_interrupted_check_leaves_the_old_report(run, monkeypatch):
    Path("run.json").write_text("old")

    def interrupt(*_words, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("wmmadiag.gate.batch.run_task", interrupt)
    assert run("check", "right.toml", "--no-cache", "--json", "run.json").code == 130
    assert Path("run.json").read_text() == "old" and not list(Path().glob(".run*"))


@pytest.mark.slow
def test_why_it_fails_is_in_every_format(run):
    answer = run("check", "wrong.toml", "--case", "one", "--diagnose", "--json", "run.json", *ALL)
    assert answer.code == 1 and "diagnosis of wrong" in answer.out
    told = json.loads(Path("run.json").read_text())["kernels"][0]["diagnoses"][0]
    assert (told["variant"], told["case"]) == ("default", "one")
    for name in ("page.html", "note.md", "tests.xml"):
        assert told["symptoms"][0].split(":")[0] in Path(name).read_text()
