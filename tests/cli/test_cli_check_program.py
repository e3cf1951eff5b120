"""What a source's own main says of its kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from wmmadiag.batch import Outcome, Task
from wmmadiag.cli.check_program import ProgramCheck
from wmmadiag.programs.run import Found, ProgramResult
from wmmadiag.report.model import CaseResult, KernelReport, ReportedFinding


@pytest.mark.parametrize(
    ("status", "launches", "code", "passed"), [(1, 0, 0, False), (1, 3, 1, False), (0, 3, 0, True)]
)
def test_a_program_that_launches_nothing_says_nothing_of_its_kernels(status, launches, code, passed):
    made = ProgramCheck(Path("k.cu"), ProgramResult(status, launches=launches))
    assert (made.code, made.passed) == (code, passed)


@pytest.mark.parametrize(("check", "code"), [("uninitialised", 0), ("races", 1)])
def test_arrays_that_a_main_never_fills_make_no_right_kernel_wrong(check, code):
    task = Task(Path("k.cu"), None)
    case = CaseResult("default", "small", "passed", {})
    right = Outcome(task, KernelReport("k", "k.cu", "k.cu", "gemm", "sm_90", "emulator", (), (case,)))
    found = Found(ReportedFinding(check, "read", "error", "da is read, which nothing has written"), 1)
    made = ProgramCheck(task.path, ProgramResult(0, [found], launches=1))
    assert made.code == 1
    assert made.code_beside(right) == code
    assert made.code_beside(Outcome(task, error="nothing tells", code=2)) == 1


def test_a_comparison_that_fails_makes_no_right_kernel_wrong():
    task = Task(Path("k.cu"), None)
    case = CaseResult("default", "small", "passed", {})
    right = Outcome(task, KernelReport("k", "k.cu", "k.cu", "gemm", "sm_90", "emulator", (), (case,)))
    made = ProgramCheck(task.path, ProgramResult(1, launches=3))
    assert made.code_beside(right) == 0
    assert made.code_beside(Outcome(task, error="nothing tells", code=2)) == 1
