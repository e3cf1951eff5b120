"""What a program of trials reads before its source, so that the compiler keeps it precompiled.

A precompiled header ends at the first declaration, and before any condition that is still open there: a guard around
the whole source leaves nothing of its headers, nor does a change in one of the user's own. So a source's guard goes,
and headers that are nobody's to change are read first (FlashInfer's prefill: 0.7 s in place of 2.3 for each program).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from wmmadiag.compile.sources import SourceFile, SourceTree
from wmmadiag.csource.conditionals import Group, groups
from wmmadiag.csource.edits import ByteEdit
from wmmadiag.csource.lexical import blank, spans

PREAMBLE = "wmmadiag_preamble.h"
"""The name under which a program reads it."""
STOP = b"#pragma nv_hdrstop\n#line 1\n"
"""Before a source: what is precompiled ends here (NVRTC manual, "Precompiled Header (PCH)")."""


def preamble(tree: SourceTree, provided: Callable[[str], bool]) -> bytes:
    """Directives for the headers that a source and the user's headers include whatever holds, theirs aside.

    Args:
        provided: whether a CUDA header of a name, or what stands in for one, is there.
    """
    found: dict[bytes, None] = {}
    leading = _leading_to_own(tree)

    def read(file: SourceFile) -> None:
        opened = _conditions(file.data)
        for one in file.directives:
            if one.name != "include" or any(group.start < one.start < group.end for group in opened):
                continue
            key = tree.targets.get((file.key, one.start))
            if key is not None and key in tree.outside and key not in leading:
                found[b'"' + key.encode("utf-8", "surrogateescape") + b'"'] = None
            elif key is not None and key not in done:
                done.add(key)
                read(tree.headers.get(key) or tree.outside[key])
            elif key is None and one.argument[:1] in ("<", '"') and provided(one.argument[1:-1]):
                found[f"<{one.argument[1:-1]}>".encode()] = None

    done = {tree.root.key}
    read(tree.root)
    return b"".join(b"#include " + one + b"\n" for one in found)


def _leading_to_own(tree: SourceTree) -> set[str]:
    """The headers of search paths that include one of the user's, themselves or through others."""
    includers: dict[str, list[str]] = {}
    for (file, _), target in tree.targets.items():
        includers.setdefault(target, []).append(file)
    found, waiting = set[str](), list(tree.headers)
    while waiting:
        new = [one for one in includers.get(waiting.pop(), ()) if one not in found]
        found.update(new)
        waiting += new
    return found & tree.outside.keys()


def unguarded(tree: SourceTree) -> list[ByteEdit]:
    """Edits that take away the condition around a source, which nothing of it includes again; its macro stays."""
    if tree.root.key in tree.targets.values():
        return []
    data = tree.root.data
    return [ByteEdit(start, end, blank(data[start:end]).decode()) for start, end in list(_guard(data))[::2]]


def _conditions(data: bytes) -> list[Group]:
    """The conditional parts of a file, its guard aside."""
    guard = {start for start, _ in _guard(data)}
    return [one for one in groups(data, tuple(spans(data))) if one.start not in guard]


def _guard(data: bytes) -> Iterator[tuple[int, int]]:
    """The three directives of an `#ifndef` around all code of a file, or none."""
    known = tuple(spans(data))
    told = [one for one in known if one.kind == "directive"]
    around = next((one for one in groups(data, known) if told and one.end == told[-1].end), None)
    if around is None or len(around.heads) != 2 or around.heads[0][2] != "ifndef":
        return
    defined = next(one for one in told if one.start > around.start)
    words = data[defined.start : defined.end].lstrip(b"# \t").split()
    code = bytearray(data)
    for start, end in ((around.start, around.end), *((one.start, one.end) for one in known)):
        code[start:end] = b" " * (end - start)
    if words == [b"define", around.heads[0][3].encode()] and not code.strip():
        for start, end, *_ in (around.heads[0], (defined.start, defined.end), around.heads[-1]):
            yield start, end
