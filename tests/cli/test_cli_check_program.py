"""What a source's own main says of its kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from wmmadiag.cli.check_program import ProgramCheck
from wmmadiag.programs.run import ProgramResult


@pytest.mark.parametrize(
    ("status", "launches", "code", "passed"), [(1, 0, 0, False), (1, 3, 1, False), (0, 3, 0, True)]
)
def test_a_program_that_launches_nothing_says_nothing_of_its_kernels(status, launches, code, passed):
    made = ProgramCheck(Path("k.cu"), ProgramResult(status, launches=launches))
    assert (made.code, made.passed) == (code, passed)
