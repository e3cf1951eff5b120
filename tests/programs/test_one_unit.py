"""The runtime's sources make one translation unit, as the wheel builds them: no two of them define the same."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from wmmadiag.compile.toolchain import toolchain
from wmmadiag.programs.runtime import NATIVE


def complaints(text, folder):
    (folder / "unit.cpp").write_text(text)
    found = [f"-isystem{one}" for one in (NATIVE, NATIVE / "headers", *toolchain().includes)]
    words = [shutil.which("c++") or "g++", "-std=c++20", "-w", "-fsyntax-only", "-include", "runtime.hpp", *found]
    done = subprocess.run([*words, folder / "unit.cpp"], capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


@pytest.mark.subprocess
@pytest.mark.parametrize("part", [".", "libraries"])
def test_the_sources_of_a_part_go_together(part, tmp_path):
    sources = [path.resolve() for path in sorted((NATIVE / part).glob("*.cpp"))]
    assert sources
    text = "".join(f'#include "{path}"\n' for path in sources)
    assert complaints(text, tmp_path) == ""
    if part == ".":
        assert "redefinition" in complaints(text + "namespace {\nint twice;\nint twice;\n}\n", tmp_path)
