"""The debugger on PTX of another compiler: it stops at lines of the Python source."""

from __future__ import annotations

from pathlib import Path

import pytest
from ptx_cards import DIALECTS, copied, filled

import wmmadiag
from wmmadiag.errors import ConfigurationError


def test_breakpoints_are_at_python_lines(tmp_path: Path) -> None:
    card = filled(copied(tmp_path, "triton_softmax"), ["N", "N", "M", "16"])
    lines = (DIALECTS / "triton_kernels.py").read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "den = tl.sum" in text)
    session = wmmadiag.debug(card)
    assert session.run_to(line=line).line == line
    place = session.where()[-1]
    assert (place.file, place.line) == (str(tmp_path / "triton_kernels.py"), line)
    assert session.lines.source_line(place).strip() == "den = tl.sum(num, axis=0)"
    with pytest.raises(ConfigurationError, match=r"no instruction belongs to line 3 of triton_kernels\.py"):
        session.run_to(line=3)
