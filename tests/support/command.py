"""`wmmadiag` as users call it, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any


def wmmadiag(folder: Path, *words: str, **how: Any) -> subprocess.CompletedProcess[str]:
    """The command in a folder; what it wrote and its exit code."""
    command = [sys.executable, "-m", "wmmadiag", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, **how)


def run_program(folder: Path, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    """`wmmadiag run` of one source, which is `program.cu` there."""
    (folder / "program.cu").write_text(text, "utf-8")
    return wmmadiag(folder, "run", "program.cu", *words)
