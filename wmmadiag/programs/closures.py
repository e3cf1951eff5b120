"""Extended lambdas in a program's host half: each is an object of a class that the device half knows, too."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence

from wmmadiag.csource.edits import ByteEdit
from wmmadiag.csource.lambdas import Functor, functors
from wmmadiag.csource.outline import outline
from wmmadiag.csource.tree import Source

_TRAP = "{ __builtin_trap(); }"


def closure_edits(
    source: Source, left: Sequence[tuple[int, int]], *, called: bool
) -> list[tuple[Functor, list[ByteEdit]]]:
    """The lambdas of a file outside of `left`, which is no host code, each with what makes it an object of a class.

    Args:
        called: whether the host calls those that are the device's alone.
    """
    found = []
    starts: list[int] | None = None
    for one in functors(source):
        if any(start <= one.node.start_byte < end for start, end in left):
            continue
        if starts is None:
            starts = sorted(item.start for item in outline(source) if item.parent is None)
        at = bisect.bisect_right(starts, one.node.start_byte) - 1
        if at >= 0:
            found.append((one, list(_edits(source, one, starts[at], called))))
    return found


def _edits(source: Source, one: Functor, start: int, called: bool) -> Iterator[ByteEdit]:
    name = source.name.replace("\\", "\\\\").replace('"', '\\"')
    kept = called or not one.device_only
    body = f'\n#line {source.place(one.body).line} "{name}"\n{one.text(source)}' if kept else _TRAP
    back = f'\n#line {source.place_at(start).line} "{name}"\n'
    yield ByteEdit(start, start, f'\nextern "C++" {{ {one.head}{body} }}; }}{back}')
    lines = source.data.count(b"\n", one.node.start_byte, one.node.end_byte)
    yield ByteEdit(one.node.start_byte, one.node.end_byte, one.made() + "\n" * lines)
