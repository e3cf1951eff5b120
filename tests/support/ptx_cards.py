"""PTX of other compilers as files with cards, for tests."""

from __future__ import annotations

import re
from pathlib import Path

from wmmadiag.subject.drafts.derive import drafted_text
from wmmadiag.subject.open_subject import SubjectOptions

DIALECTS = Path(__file__).parents[1] / "ptx" / "dialects"


def copied(folder: Path, name: str) -> Path:
    """A dialect's file, with the Python that it was made from where its line table says that it is."""
    made_from = {"triton": "triton_kernels", "numba": "numba_kernels", "cute": "cute_kernels"}
    for stem in made_from.values():
        (folder / f"{stem}.py").write_text((DIALECTS / f"{stem}.py").read_text())
    path = folder / f"{name}.ptx"
    path.write_text((DIALECTS / f"{name}.ptx").read_text().replace("/src/kernels/", f"{folder}/"))
    return path


def filled(path: Path, values: list[str], options: SubjectOptions | None = None) -> Path:
    """A drafted card beside a PTX file, with its TODOs filled in, in their order."""
    card = path.with_suffix(".toml")
    text = drafted_text(path, card, options or SubjectOptions())
    left = iter(values)
    lines = [
        re.sub(r'"TODO"', lambda _: f'"{next(left)}"', line) if not line.startswith("#") else line
        for line in text.splitlines()
    ]
    assert next(left, None) is None, text
    card.write_text("\n".join(lines) + "\n")
    return card
