"""The file of a project that launches a kernel of another of its files: a header of kernels has its launches beside it.

Only files that include the kernel's own count, whatever else has a kernel of that name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.errors import WmmadiagError
from wmmadiag.hostcode.program import plain_name
from wmmadiag.subject.drafts.kernel import Kernel, read_kernel
from wmmadiag.subject.drafts.kernel_types import is_compiled

if TYPE_CHECKING:
    from wmmadiag.subject.open_subject import SubjectOptions

_ROOTS = (".git", "CMakeLists.txt", "Makefile", "setup.py", "pyproject.toml", "meson.build")
_ENDINGS = (".cu", ".cuh", ".cpp", ".cc", ".cxx", ".h", ".hpp")
_MOST_ABOVE, _MOST_BELOW = 3, 4  # folders between a source and what a project begins with
_MOST_FILES, _MOST_BYTES = 400, 1 << 20
_MOST_READ = 3


def launched_elsewhere(path: Path, kernel: Kernel, options: SubjectOptions) -> tuple[Path, Kernel] | None:
    """The kernel as the nearest file launches it that includes its own; None if no file does.

    Args:
        kernel: of the source `path`, that it does not launch itself.
    """
    from wmmadiag.compile.sources import read_text

    declared = kernel.declared
    if declared is None or kernel.launch is not None:
        return None
    name = plain_name(kernel.entry)
    launch = re.compile(rf"\b{re.escape(name)}\b[^;{{}}]*<<<".encode())
    read = 0
    for other in _files(path):
        try:
            if other.stat().st_size > _MOST_BYTES or not launch.search(other.read_bytes()):
                continue
            read += 1
            text = read_text(other)
            found = read_kernel(other, text, replace(options, entry=kernel.entry))
        except (WmmadiagError, OSError):
            continue
        if found.launch is None or found.declared is None or not _same(found.declared.source.name, path):
            continue
        if "{" in found.entry or is_compiled(found.entry, other, text, options):
            said = f"the kernel is taken as {other} launches it, which includes its file"
            return other, replace(found, remarks=(*found.remarks, said))
        if read == _MOST_READ:
            break
    return None


def _same(name: str, path: Path) -> bool:
    try:
        return path.samefile(name)
    except OSError:
        return False


def _files(path: Path) -> Iterator[Path]:
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
        if one != path.resolve() and one.is_file():
            yield Path(os.path.normpath(shown / os.path.relpath(one, own)))


def _sources(folder: Path, names: Sequence[str]) -> list[Path]:
    return [folder / one for one in sorted(names) if one.endswith(_ENDINGS)]
