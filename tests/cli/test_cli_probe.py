"""`wmmadiag probe`: names, cards, what is wrong with them, JSON and exit codes."""

from __future__ import annotations

import json

from wmmadiag.probes.machine import Platform


def test_list(run):
    answer = run("probe", "--list")
    assert answer.code == 0 and "\ntranspose " in answer.out
    assert set(json.loads(run("probe", "--list", "--json", "-").out)) == {"format_version", "platform"}


def test_one_probe_on_two_architectures(run):
    answer = run("probe", "transpose", "--arch", "sm_80,sm_90", "-v")
    assert answer.code == 0
    assert answer.out.startswith("transpose: which ways") and "ok on sm_80, sm_90" in answer.out
    assert "K staged as it lies, row_major: Q·K" in answer.out


def test_json(run):
    data = json.loads(run("probe", "coverage", "--json", "-").out)
    (one,) = data["answers"]
    assert (one["probe"], one["arch"], one["verdict"]) == ("coverage", "sm_90", "right")


def test_a_table_of_architectures(run):
    answer = run("probe", "shapes", "--arch", "75,90")
    row = next(line for line in answer.out.splitlines() if "bf16 f32" in line)
    assert answer.code == 0 and row.split()[-2:] == ["-", "yes"]


def test_a_wrong_answer_exits_1(run, monkeypatch):
    monkeypatch.setattr(Platform, "run", lambda *arguments, **options: "")
    answer = run("probe", "coverage")
    assert answer.code == 1 and "WRONG on sm_90" in answer.out


def test_mistakes(run, here):
    for words, message in (
        (("layuots",), "did you mean 'layouts'?"),
        (("layouts", "--arch", "sm_91"), "unknown architecture 'sm_91'"),
        (("layouts", "--backend", "gpux"), "unknown backend 'gpux'"),
        (("missing.toml",), "missing.toml"),
    ):
        answer = run("probe", *words)
        assert answer.code in (2, 3) and message in answer.err, (words, answer)
