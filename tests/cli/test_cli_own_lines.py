"""What a program of several kernels says of one of them, at sizes at which it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from wmmadiag.cli.check_program import ProgramCheck
from wmmadiag.cli.own_lines import _speaks_of
from wmmadiag.cli.program_words import lines
from wmmadiag.compile.options import CompileOptions
from wmmadiag.gate.task import Task, TaskOutcome
from wmmadiag.programs import run
from wmmadiag.programs.own_words import lines_for_wrong
from wmmadiag.programs.run import ProgramResult
from wmmadiag.programs.spec import ProgramSpec

_FIRST, _SECOND, _THIRD = (
    "one: mismatch at 5: 1.0 vs 2.0\n",
    "two: mismatch at 0: 3.0 vs 4.0\n",
    "three: mismatch at 0\n",
)


def says(monkeypatch, own, without, kernel="one"):
    """Whether a program speaks of a kernel; `without`: what it prints where each of its kernels does nothing."""
    monkeypatch.setattr(
        run, "run_program", lambda _program, spec, *_, **__: ProgramResult(1, output=without[spec.idle])
    )
    result = ProgramResult(1, launches=3, output=own, captured=[{"kernel": one} for one in without])
    return _speaks_of(None, ProgramSpec(CompileOptions()), "k", [], result, kernel, 30.0)


@pytest.mark.parametrize(
    ("own", "without", "speaks"),
    [
        # its lines are others without it, and stay without a kernel that is right
        (_FIRST, {"one": "one: mismatch at 0: 0.0 vs 2.0\n", "two": _FIRST + _SECOND}, True),
        # two of three are wrong
        (_FIRST + _SECOND, {"one": _SECOND, "two": _FIRST, "three": _FIRST + _SECOND + _THIRD}, True),
        # no other one is compared
        (_FIRST, {"one": "one: mismatch at 0: 0.0 vs 2.0\n", "two": _FIRST}, False),
        # what another one makes it computes with
        (_FIRST, {"one": _SECOND, "two": "one: mismatch at 5: 0.0 vs 2.0\n" + _SECOND}, False),
        # it is compared nowhere, and another one is wrong
        (_SECOND, {"one": _SECOND, "two": "two: mismatch at 0: 0.0 vs 4.0\n", "three": _SECOND + _THIRD}, False),
        # nobody can say which of them
        ("FAILED\n", {"one": "FAILED\n", "two": "FAILED\n"}, False),
        ("", {"one": _FIRST, "two": _SECOND}, False),
        (_FIRST, {"one": ""}, False),
    ],
)
def test_lines_for_wrong_speak_of_the_kernel_that_they_hang_on_alone(monkeypatch, own, without, speaks):
    assert says(monkeypatch, own, without) == speaks


def test_lines_for_wrong_are_those_with_a_word_for_it():
    assert list(lines_for_wrong(f"one: PASSED\n0 mismatches\n{_FIRST}time 3 ms\n")) == [_FIRST.strip()]


@pytest.mark.parametrize(("refuted", "code"), [(("at a", "at b"), 1), ((), 2)])
def test_what_a_program_says_of_a_kernel_at_smaller_sizes_makes_it_wrong(refuted, code):
    made = ProgramCheck(
        Path("k.cu"), ProgramResult(-9, launches=1, ended="it took too long"), compared="one", refuted=refuted
    )
    asked = TaskOutcome(Task(made.path, None), error="nothing tells", code=2)
    assert made.code_with(asked) == code
    told = lines(made, asked, verbose=False)
    assert any("at a and at b, by lines that hang on this kernel alone" in one for one in told) == bool(refuted)
    assert any("diagnose k.cu --entry one" in one for one in told) == bool(refuted)
