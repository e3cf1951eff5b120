"""Host functions of the project's other files that may say what a kernel computes: a header of kernels has none itself.

A function counts whose name shares a word with the kernel's and whose arrays and numbers are the kernel's by name. A
kernel that is right by one is right; one that is not is no news, unless the user names the function.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from wmmadiag.errors import WmmadiagError
from wmmadiag.hostcode.program import HostProgram, read_program
from wmmadiag.subject.drafts.given_source import GivenSource
from wmmadiag.subject.drafts.guess import folded
from wmmadiag.subject.drafts.host_calls.candidates import (
    Candidate,
    by_names,
    kernel_words,
    may_refer,
    takes_what_calls_give,
    words_of,
)
from wmmadiag.subject.drafts.kernel import SourceKernel
from wmmadiag.subject.drafts.project import project_files

_DEFINED = re.compile(rb"\b([A-Za-z_]\w*)\s*\(([^;{}()]*)\)\s*\{")
_WORD = re.compile(r"[A-Za-z_]\w*")
_MOST_READ, _MOST = 6, 4  # files that are parsed, and candidates that are tried


@dataclass(frozen=True, slots=True)
class _Near:
    """A file and how much the names of its functions are like the kernel's, 1 for the same words."""

    likeness: float
    path: Path


def candidates_elsewhere(source: GivenSource, kernel: SourceKernel, named: str = "") -> Iterator[Candidate]:
    """The likeliest first, the nearest of equals; `named`: the function that the user names."""
    host = kernel.host
    if host is None or not takes_what_calls_give(kernel):
        return
    own = kernel_words(kernel)
    asked_for = named or " ".join(sorted(own))
    if asked_for not in host.near:
        nearest = sorted(_files(source.path, kernel, own, named), key=lambda one: -one.likeness)[:_MOST_READ]
        host.near[asked_for] = tuple(one.path for one in nearest)
    found = 0
    for other in host.near[asked_for]:
        if other not in host.others:
            host.others[other] = _program(GivenSource(other, source.options))
        program = host.others[other]
        for one in sorted(program.host_functions(), key=lambda one: -_likeness(words_of(one.function.name), own)):
            name = one.function.name
            if name != named if named else not words_of(name) & own:
                continue
            made = by_names(kernel, one, other) if may_refer(program, one) else None
            if made is not None:
                yield made
                found += 1
                if found == _MOST:
                    return


def _files(path: Path, kernel: SourceKernel, own: set[str], named: str) -> Iterator[_Near]:
    """The files that define a function of such a name that takes all that the kernel reads alone."""
    arrays = {folded(one.name) for one in kernel.parameters if one.pointer}
    read = {folded(one.name) for one in kernel.parameters if one.pointer and one.const}
    for other in project_files(path):
        try:
            found = _DEFINED.findall(other.read_bytes())
        except OSError:
            continue
        likeness = 0.0
        for encoded, taken in found:
            name = encoded.decode()
            alike = float(name == named) if named else _likeness(words_of(name), own)
            if alike > likeness and _takes(taken.decode("utf-8", "replace"), read, arrays):
                likeness = alike
        if likeness:
            yield _Near(likeness, other)


def _takes(parameters: str, read: set[str], arrays: set[str]) -> bool:
    """Whether a function's parameters have the names of all arrays that are read, and of one of all."""
    names = set(map(folded, _WORD.findall(parameters)))
    return read <= names and bool(arrays & names)


def _likeness(words: set[str], own: set[str]) -> float:
    """The part of all words of two names that they share."""
    return len(words & own) / max(1, len(words | own))


def _program(source: GivenSource) -> HostProgram:
    """A file as read; an empty program where it cannot be."""
    options = source.options
    try:
        return read_program(source.text, source.path.as_posix(), options.include_paths, options.defines)
    except (WmmadiagError, OSError):
        return HostProgram((), {})
