"""Sources of the runtime of whole programs, compiled together and no further than their syntax."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from wmmadiag.compile.toolchain import toolchain
from wmmadiag.programs.runtime import NATIVE


def included(part: str) -> str:
    """The text that has all sources of a part: `.`, the runtime, or `libraries`."""
    sources = [path.resolve() for path in sorted((NATIVE / part).glob("*.cpp"))]
    assert sources
    return "".join(f'#include "{path}"\n' for path in sources)


def complaints(text: str, folder: Path) -> list[str]:
    """The errors of a text, each with its first line alone."""
    (folder / "unit.cpp").write_text(text, "utf-8")
    found = [f"-isystem{one}" for one in (NATIVE, NATIVE / "headers", *toolchain().includes)]
    words = [shutil.which("c++") or "g++", "-std=c++20", "-w", "-fsyntax-only", *found, str(folder / "unit.cpp")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == ("error: " in done.stderr), done.stderr
    return [line for line in done.stderr.splitlines() if "error: " in line]
