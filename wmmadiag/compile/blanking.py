"""Host code taken out of a source without moving a line or a column of what stays.

Preprocessor lines always stay, so that conditionals keep their balance.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from wmmadiag.compile.host_only import Declaration
from wmmadiag.csource.lexical import blank
from wmmadiag.csource.prepare import LAMBDA_SPACE
from wmmadiag.csource.tree import Source


def without_host_code(
    source: Source,
    parts: Iterable[Declaration],
    refused: Collection[tuple[int, int]] = (),
    kept: Collection[tuple[int, int]] = (),
) -> bytes:
    """The source's bytes, as many, with its host code blanked.

    Args:
        parts: its declarations.
        refused: the extents of unsure ones that the compiler did not take; they go too.
        kept: the extents of host code that stays all the same.
    """
    gone: list[tuple[int, int]] = []
    staying: list[tuple[int, int]] = []
    for part in parts:
        goes = part.extent in refused or (part.verdict == "host" and part.extent not in kept)
        (gone if goes else staying).append(part.extent)
    gone += _other_branches(source, gone, staying)
    text = bytearray(source.data)
    for start, end in _without_directives(source, gone):
        text[start:end] = blank(source.data[start:end])
    # NVRTC refuses the execution space of a lambda; in device code it says nothing.
    for match in LAMBDA_SPACE.finditer(source.code.code):
        text[match.start() : match.end()] = blank(match[0])
    return bytes(text)


def _other_branches(
    source: Source, gone: Sequence[tuple[int, int]], staying: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """The conditionals of which the tree holds one branch, where that branch is host code: the others are too."""
    for group in source.chosen:
        around = (group.start, group.end)
        if any(_meet(one, around) for one in gone) and not any(_meet(one, around) for one in staying):
            yield around


def _meet(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _without_directives(source: Source, extents: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The parts of some extents between the preprocessor directives in them, each byte once."""
    directives = [span for span in source.code.spans if span.kind == "directive"]
    position = at = 0
    for start, end in sorted(extents):
        start = max(start, position)
        while at < len(directives) and directives[at].end <= start:
            at += 1
        number = at
        while number < len(directives) and directives[number].start < end:
            yield start, max(start, directives[number].start)
            start = max(start, directives[number].end)
            number += 1
        if start < end:
            yield start, end
        position = max(position, end)
