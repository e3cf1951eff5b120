"""Sessions for the tests: on shipped kernels and on a small one."""

from __future__ import annotations

from pathlib import Path

import wmmadiag
from wmmadiag.debugger import Session

KERNELS = Path(__file__).parents[2] / "kernels"
ATTENTION = KERNELS / "attention" / "kernel.toml"


def line_of(session: Session, text: str, nth: int = 0) -> int:
    """The n-th line of the main source that holds a text."""
    lines = [n for n, line in enumerate(session.lines.text(session.lines.main), 1) if text in line]
    return lines[nth]


def small(folder: Path, source: str, block: int = 64, n: int = 64, grid: int = 1) -> Session:
    """A session on a kernel (of one block) that gets `const float* x`, `float* out`, of n elements, and `int n`."""
    (folder / "small.cu").write_text(source)
    (folder / "reference.py").write_text("def reference(inputs, symbols):\n    return {'out': inputs['x']}\n")
    card = folder / "small.toml"
    card.write_text(
        f"""format = 1
name = "small"
source = "small.cu"
entry = "small"
arguments = [
    {{ name = "x", role = "x", dtype = "f32", direction = "in", shape = ["{n}"] }},
    {{ name = "out", role = "out", dtype = "f32", direction = "out", shape = ["{n}"] }},
    {{ name = "n", dtype = "s32", value = "{n}" }},
]
launch = {{ grid = {grid}, block = {block} }}
computes = {{ operation = "python", python = "reference.py:reference" }}
tolerance = {{ atol = 1e-6, rtol = 0 }}
cases = [{{ name = "one" }}]
"""
    )
    return wmmadiag.debug(card)
