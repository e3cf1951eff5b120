"""Changes of a source's text: an edit on a node is an edit of its bytes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True, order=True)
class ByteEdit:
    """Bytes from `start` to `end` of a source are replaced by `text`; an insertion where both are one."""

    start: int
    end: int
    text: str


def overlaps(edits: Iterable[ByteEdit]) -> bool:
    """Whether two of the edits change the same byte, or insert inside what another replaces."""
    ordered = sorted(edits)
    return any(one.end > other.start for one, other in itertools.pairwise(ordered))


def applied(data: bytes, edits: Sequence[ByteEdit]) -> bytes:
    """The source with all edits made; insertions at one place in the order given.

    Raises:
        ValueError: two edits overlap, or one lies outside the source.
    """
    ordered = sorted(edits, key=lambda one: (one.start, one.end))
    if overlaps(ordered):
        raise ValueError("edits overlap")
    if ordered and (ordered[0].start < 0 or ordered[-1].end > len(data)):
        raise ValueError("an edit lies outside the source")
    pieces: list[bytes] = []
    position = 0
    for one in ordered:
        pieces += [data[position : one.start], one.text.encode("utf-8", "surrogateescape")]
        position = one.end
    pieces.append(data[position:])
    return b"".join(pieces)
