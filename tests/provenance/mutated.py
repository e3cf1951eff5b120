"""Shipped kernels with a mistake put in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from traced import KERNELS, traced_card

from wmmadiag.provenance import ProvenanceRun

Edit = tuple[str, str]


def mutated(
    folder: Path, card: str, edits: Sequence[Edit], case: str, variant: str = "", *, marker: str = ""
) -> tuple[ProvenanceRun, int]:
    """Trace a shipped card whose source has each text of `edits` replaced everywhere; also the line of `marker`."""
    path = KERNELS / card
    source = (path.parent / "kernel.cu").read_text()
    for old, new in edits:
        assert old in source, old
        source = source.replace(old, new)
    (folder / "kernel.cu").write_text(source)
    (folder / "kernel.toml").write_text(path.read_text())
    lines = [number for number, line in enumerate(source.splitlines(), 1) if marker in line] if marker else [0]
    assert len(lines) == 1, (marker, lines)
    return traced_card(folder / "kernel.toml", case, variant), lines[0]
