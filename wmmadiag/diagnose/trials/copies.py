"""Several texts of one kernel in a program: its definition copied under other names, each copy with a change.

What cannot hang on a value needs a text of its own, but not a compilation of its own: reading headers and starting the
compiler is most of that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from wmmadiag.compile import ptx_scan
from wmmadiag.compile.diagnostics import Diagnostic
from wmmadiag.csource.declarations import Function
from wmmadiag.csource.edits import ByteEdit
from wmmadiag.csource.edits import applied as edited
from wmmadiag.diagnose.changes import Change, Texts

_BEHIND = re.compile(r'at line (\d+) of "?([^"\s]+)')
"""Of a message about a header: where in another file it was used ("detected during instantiation of … at line …")."""
_LABEL = re.compile(r"\$L__BB\d+_")
_OF_OTHERS = re.compile(r"\b(previous|previously|already)\b")


@dataclass(frozen=True, slots=True)
class Definition:
    """Where a kernel is defined.

    Attributes:
        start, end: bytes of it in its file, template head and linkage included; `name_start`: of its name.
    """

    file: str
    name: str
    start: int
    end: int
    name_start: int

    def holds(self, change: Change) -> bool:
        """Whether a change is of nothing but this definition, and not of its name."""
        name_end = self.name_start + len(self.name.encode())
        return bool(change.edits) and all(
            one.file == self.file
            and self.start <= one.start <= one.end <= self.end
            and one.start < self.end
            and not (one.start < name_end and one.end > self.name_start)
            for one in change.edits
        )


@dataclass(frozen=True, slots=True)
class Copies:
    """A source with copies of its kernel.

    Attributes:
        edit: of the definition's file.
        names: change → the copy's name.
        lines: change → its first line and its last one, in that file as it is compiled.
    """

    edit: ByteEdit
    names: Mapping[Change, str]
    lines: Mapping[Change, tuple[int, int]]


def definition_of(file: str, text: bytes, function: Function) -> Definition | None:
    """Where a kernel of a file is defined; None where its name is not found in the head."""
    if function.body is None:
        return None
    start, end = min(function.outer.start_byte, function.start), function.outer.end_byte
    found = list(re.finditer(rf"\b{re.escape(function.name)}\b".encode(), text[start : function.body.start_byte]))
    if not found or text[start + found[-1].end() :].lstrip()[:1] != b"(":
        return None
    return Definition(file, function.name, start, end, start + found[-1].start())


def copied(texts: Texts, definition: Definition, changes: Sequence[Change]) -> Copies:
    """A source with one copy of the kernel per change, behind the kernel itself.

    Args:
        changes: the definition holds each.

    Raises:
        ValueError: the edits of one overlap.
    """
    text, base = texts[definition.file], definition.start
    body = text[definition.start : definition.end]
    line = text.count(b"\n", 0, definition.end) + 1
    parts: list[str] = []
    names: dict[Change, str] = {}
    lines: dict[Change, tuple[int, int]] = {}
    for number, change in enumerate(changes, 1):
        names[change] = f"{definition.name}_wmmadiag_{number}"
        end = definition.name_start - base + len(definition.name.encode())
        own = [ByteEdit(one.start - base, one.end - base, one.text) for one in change.edits]
        part = edited(body, [ByteEdit(definition.name_start - base, end, names[change]), *own])
        line += 1
        last = line + part.count(b"\n")
        lines[change] = line, last
        line = last
        parts.append("\n" + part.decode("utf-8", "surrogateescape"))
    return Copies(ByteEdit(definition.end, definition.end, "".join(parts)), names, lines)


def refused_copies(errors: Sequence[Diagnostic], definition: Definition, copies: Copies) -> dict[Change, str | None]:
    """The changes whose copies errors are about, each with the first message; None where that may be about the other
    copies, such as a declaration unlike theirs."""
    found: dict[Change, str | None] = {}
    for error in errors:
        for line in _lines(error, definition.file):
            for change, (first, last) in copies.lines.items():
                if first <= line <= last:
                    found.setdefault(change, None if _OF_OTHERS.search(error.message) else error.message)
    return found


def own_texts(ptx: str, entries: Mapping[str, str]) -> dict[str, str]:
    """What a program says of each of some kernels, in words that do not depend on the kernel's name.

    Args:
        entries: name → mangled name.
    """
    bodies = dict(ptx_scan.bodies(ptx))
    outside = ptx.partition(".entry")[0].split("\n")  # variables of kernels may stand before all of them
    found = {}
    for name, mangled in entries.items():
        if mangled in bodies:
            said = "\n".join([*(row for row in outside if name in row), bodies[mangled].strip()])
            found[name] = _LABEL.sub("$L_", re.sub(rf"\d*{re.escape(name)}(?!\d)", "", said.replace(mangled, "")))
    return found


def _lines(error: Diagnostic, file: str) -> Iterator[int]:
    """The lines of a file that an error is about."""
    if error.place.file == file:
        yield error.place.line
        return
    for row in error.lines:
        yield from (int(one[1]) for one in _BEHIND.finditer(row) if one[2] == file)
