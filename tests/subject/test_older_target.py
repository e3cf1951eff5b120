"""What a header chooses for a target that nobody asked for, and is not emulated, is checked for an older one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wmmadiag.results.model import CaseResult, KernelReport, Problem
from wmmadiag.subject.older_target import OLDER, emulated

REFUSED = Problem("unsupported", "TMA is not emulated")


def report(arch, *statuses, problem=None):
    cases = tuple(CaseResult("default", f"c{at}", one, {}, problem=problem) for at, one in enumerate(statuses))
    return KernelReport("k", "k.cu", "k.cu", "gemm", arch, "emulator", (), cases)


@pytest.mark.parametrize("status", ["passed", "failed"])
def test_the_verdict_for_the_older_target_is_taken_and_said(status):
    asked = []

    def check(arch):
        asked.append(arch)
        return report(arch, status)

    found = emulated(report("sm_90", "undecided", "undecided", problem=REFUSED), check)
    assert asked == [OLDER] == [found.arch]
    assert found.status == status
    assert "TMA is not emulated" in found.assumed[-1] and "--arch" in found.assumed[-1]


def test_what_no_target_can_run_stays_refused():
    refused = report("sm_90", "undecided", problem=REFUSED)
    assert emulated(refused, lambda arch: report(arch, "undecided", problem=REFUSED)) is refused
    assert emulated(refused, lambda arch: report(arch, "error", problem=Problem("compile", "no"))) is refused


def test_what_ran_is_not_tried_again():
    refused = report("sm_90", "undecided", problem=REFUSED).cases[0]
    for one in (
        report("sm_90", "failed"),
        report("sm_90", "undecided", problem=Problem("undecided", "which?")),
        replace(report("sm_90", "passed"), cases=(refused, report("sm_90", "passed").cases[0])),
    ):
        assert emulated(one, lambda _: pytest.fail("tried")) is one
