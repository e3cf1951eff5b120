"""What a verdict rests on and nobody said stands in every report that people read."""

from __future__ import annotations

from dataclasses import replace

import pytest
from example_runs import diagnosis, full

from wmmadiag.report import html, markdown, terminal, terminal_diagnosis
from wmmadiag.results.model import Problem

TAKEN = "taken as gemm, because its arrays say so; --computes says otherwise"


def assumed():
    run = full()
    kernels = [replace(one, report=replace(one.report, assumed=(TAKEN,))) for one in run.kernels]
    return replace(run, kernels=tuple(kernels))


@pytest.mark.parametrize("render", [html.render, markdown.render, terminal.render_run])
def test_reports_of_a_failure_say_what_it_rests_on(render):
    assert TAKEN in " ".join(render(assumed()).split())
    assert TAKEN not in " ".join(render(full()).split())


def test_a_wrong_verdict_is_said_to_depend_on_it():
    text = terminal.render(assumed().kernels[0].report)
    assert text.rstrip().endswith("which holds only if what was assumed above does: nobody said so")


def test_what_is_undecided_holds_under_no_assumption():
    report = assumed().kernels[0].report
    cases = tuple(replace(one, status="undecided") for one in report.cases)
    text = terminal.render(replace(report, cases=cases))
    assert TAKEN in " ".join(text.split()) and "which holds only if" not in text


@pytest.mark.parametrize(("status", "word"), [("failed", "WRONG"), ("undecided", "UNDECIDED"), ("error", "ERROR")])
def test_a_report_of_what_is_not_right_leads_with_what_matters(status, word):
    report = assumed().kernels[0].report
    told = Problem("undecided", "it fits no reading", place="k.cu:3:4", hint="is it a gemm? If so, --computes gemm")
    cases = tuple(replace(one, status=status, problem=told, accepted="") for one in report.cases)
    lines = terminal.render(replace(report, cases=cases)).splitlines()
    name = f"{cases[0].variant} / {cases[0].case}"
    assert lines[0] == f"{word}: k.cu:3:4: it fits no reading ({name})"
    assert (lines[1] == "next: is it a gemm? If so, --computes gemm") == (status == "undecided")


def test_a_diagnosis_says_it_before_its_causes():
    text = " ".join(terminal_diagnosis.render(replace(diagnosis(), assumed=(TAKEN,))).split())
    assert text.index(TAKEN) < text.index(diagnosis().causes[0].name)
