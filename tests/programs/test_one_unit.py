"""The runtime's sources make one translation unit, as the wheel builds them: no two of them define the same."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from wmmadiag.compile.toolchain import toolchain
from wmmadiag.programs.runtime import NATIVE


def complaints(text, folder):
    """The errors of a text, each with its first line alone."""
    (folder / "unit.cpp").write_text(text)
    found = [f"-isystem{one}" for one in (NATIVE, NATIVE / "headers", *toolchain().includes)]
    words = [shutil.which("c++") or "g++", "-std=c++20", "-w", "-fsyntax-only", "-include", "runtime.hpp", *found]
    done = subprocess.run([*words, folder / "unit.cpp"], capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == ("error: " in done.stderr), done.stderr
    return [line for line in done.stderr.splitlines() if "error: " in line]


@pytest.mark.subprocess
@pytest.mark.parametrize("part", [".", "libraries"])
@pytest.mark.slow
def test_the_sources_of_a_part_go_together(part, tmp_path):
    sources = [path.resolve() for path in sorted((NATIVE / part).glob("*.cpp"))]
    assert sources
    text = "".join(f'#include "{path}"\n' for path in sources)
    # One that is defined twice is told, and nothing else is.
    (told,) = complaints(text + "namespace {\nint twice;\nint twice;\n}\n", tmp_path)
    assert "redefinition" in told and "twice" in told
