"""The other files of the project that a source stands in: they launch its kernels, and say what these compute."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

_ROOTS = (".git", "CMakeLists.txt", "Makefile", "setup.py", "pyproject.toml", "meson.build")
_ENDINGS = (".cu", ".cuh", ".c", ".cpp", ".cc", ".cxx", ".h", ".hpp")
_MOST_ABOVE, _MOST_BELOW = 3, 4  # folders between a source and what a project begins with
_MOST_FILES, _MOST_BYTES = 400, 1 << 20


def project_files(path: Path) -> Iterator[Path]:
    """The sources of a file's project but itself, the nearest first; those of its folder alone without a project."""
    own = path.resolve().parent
    above = [own, *own.parents][: _MOST_ABOVE + 1]
    root = next((one for one in above if any((one / mark).exists() for mark in _ROOTS)), own)
    found = [
        one
        for folder in above[: above.index(root) + 1]
        for one in _sources(folder, [each.name for each in folder.iterdir()])
    ]
    for folder, below, names in os.walk(root):
        deep = len(Path(folder).relative_to(root).parts)
        below[:] = sorted(one for one in below if not one.startswith(".")) if root != own and deep < _MOST_BELOW else []
        found += _sources(Path(folder), names)
        if len(found) > _MOST_FILES:
            break
    shown = path.parent
    for one in dict.fromkeys(found[:_MOST_FILES]):
        if one != path.resolve() and one.is_file() and one.stat().st_size <= _MOST_BYTES:
            yield Path(os.path.normpath(shown / os.path.relpath(one, own)))


def _sources(folder: Path, names: Sequence[str]) -> list[Path]:
    return [folder / one for one in sorted(names) if one.endswith(_ENDINGS)]
