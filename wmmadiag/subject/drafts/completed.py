"""Kernels with what their sources leave open: the arguments of templates, numbers that host code counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.subject.drafts.draft import draft
from wmmadiag.subject.drafts.instantiated import instantiations
from wmmadiag.subject.drafts.kernel import Kernel
from wmmadiag.subject.drafts.model import Wishes

if TYPE_CHECKING:
    from wmmadiag.subject.open_subject import SubjectOptions

_SYMBOL, _COUNTS, _MOST_COUNTED = "--symbol ", (2, 4, 1), 2


def completed(path: Path, kernel: Kernel, operation: str, options: SubjectOptions) -> Iterator[tuple[str, Kernel]]:
    """The kernel with what the source leaves open of it: template arguments, numbers that host code counts."""
    from wmmadiag.compile.sources import read_text

    if kernel.uninstantiated:
        before: list[str] = []  # a kernel that is wrong with most arguments is not hidden by one with which it is right
        for said, one in instantiations(path, read_text(path), kernel, operation, options):
            yield f"{said} (and not right with {'; '.join(before)})" if before else said, one
            before.append(said)
    else:
        yield from _counted(kernel, operation, options)


def _counted(kernel: Kernel, operation: str, options: SubjectOptions) -> Iterator[tuple[str, Kernel]]:
    """The kernel; then with numbers for what host code counts and nobody says, in words: parts of a sum, processors."""
    yield "", kernel
    machine = kernel.machine
    marks = [one.option for one in draft(kernel, operation, wishes_of(options)).open if one.option.startswith(_SYMBOL)]
    names = [one.removeprefix(_SYMBOL).rstrip("=") for one in marks]
    names = [one for one in names if machine is not None and one in machine.names and one not in machine.usual]
    if machine is None or not names or len(names) > _MOST_COUNTED:
        return
    for count in _COUNTS:
        usual = {**machine.usual, **dict.fromkeys(names, count)}
        said = ", ".join(f"{name} = {count}" for name in names)
        yield said, replace(kernel, machine=replace(machine, usual=usual), counted=tuple(names))


def wishes_of(options: SubjectOptions) -> Wishes:
    """What the user says of a draft."""
    return Wishes(options.grid, options.block, options.shared, options.symbols)
