"""Several texts of one kernel in a program: its definition copied under other names, each copy with a change.

What cannot hang on a value needs a text of its own, but not a compilation of its own: reading headers and starting the
compiler is most of that. A change of the kernel alone is made in a copy of it; one of what stands before it, its
constants, types and functions, in a copy of all that, in a namespace of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from wmmadiag.compile import ptx_scan
from wmmadiag.compile.diagnostics import Diagnostic
from wmmadiag.csource.declarations import Function
from wmmadiag.csource.edits import ByteEdit
from wmmadiag.csource.edits import applied as edited
from wmmadiag.csource.lexical import blank
from wmmadiag.csource.nodes import ancestors, descendants
from wmmadiag.csource.tree import Source
from wmmadiag.csource.variables import declared
from wmmadiag.diagnose.changes import Change, Texts

_BEHIND = re.compile(r'at line (\d+) of "?([^"\s]+)')
"""Of a message about a header: where in another file it was used ("detected during instantiation of … at line …")."""
_WRAPPER = "wmmadiag_copy_"
_IN_WRAPPER = re.compile(rf"N?\d+{_WRAPPER}\d+")
_DEFINED = re.compile(rb"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_FIRST = re.compile(r"(?<![\w:])[A-Za-z_]\w*")
# What an instantiation may name that is no copy's own.
_BUILT_IN = frozenset(
    {"true", "false", "bool", "char", "signed", "unsigned", "short", "int", "long", "float", "double", "half", "__half",
     "half2", "__half2", "__nv_bfloat16", "nv_bfloat16", "__nv_fp8_e4m3", "__nv_fp8_e5m2", "int8_t", "uint8_t",
     "int16_t", "uint16_t", "int32_t", "uint32_t", "int64_t", "uint64_t", "size_t"}
)  # fmt: skip
_GLOBALS = frozenset({"__device__", "__constant__", "__managed__"})
_LABEL = re.compile(r"\$L__BB\d+_")
_OF_OTHERS = re.compile(r"\b(previous|previously|already)\b")


@dataclass(frozen=True, slots=True)
class Definition:
    """Where a kernel is defined, or with it what stands before it."""

    file: str
    name: str
    # start, end: bytes of it in its file, template head and linkage included; `name_start`: of its name
    start: int
    end: int
    name_start: int
    # whether these are all of the file behind its last `#include`; `others`: bytes of other kernels there, and of
    # instantiations, which copies do without
    whole: bool = False
    others: tuple[tuple[int, int], ...] = ()

    def holds(self, change: Change) -> bool:
        """Whether a change is of nothing but this definition, and not of its name."""
        name_end = self.name_start + len(self.name.encode())
        return bool(change.edits) and all(
            one.file == self.file
            and self.start <= one.start <= one.end <= self.end
            and one.start < self.end
            and not (one.start < name_end and one.end > self.name_start)
            and not any(one.start < end and start < one.end for start, end in self.others)
            for one in change.edits
        )


@dataclass(frozen=True, slots=True)
class Copies:
    """A source with copies of its kernel."""

    edit: ByteEdit  # of the definition's file
    names: Mapping[Change, str]  # change → the copy's name
    lines: Mapping[Change, tuple[int, int]]  # change → its first line and its last one, in that file as it is compiled


def definition_of(file: str, text: bytes, function: Function) -> Definition | None:
    """Where a kernel of a file is defined; None where its name is not found in the head."""
    if function.body is None:
        return None
    start, end = _span(function)
    found = list(re.finditer(rf"\b{re.escape(function.name)}\b".encode(), text[start : function.body.start_byte]))
    if not found or text[start + found[-1].end() :].lstrip()[:1] != b"(":
        return None
    return Definition(file, function.name, start, end, start + found[-1].start())


def whole_of(kernel: Definition, source: Source, kernels: Iterable[Function]) -> Definition | None:
    """What a copy of all that a kernel's file defines for it is made of; None where copies would not be alike.

    Args:
        kernel: its definition; source: its file; kernels: all that are defined there.
    """
    includes = list(descendants(source.root, "preproc_include"))
    after = max((one.end_byte for one in includes if one.start_byte < kernel.start), default=0)
    before = min((one.start_byte for one in includes if one.start_byte >= kernel.end), default=len(source.data))
    # What stands behind the kernel may name what stands before it.
    inside = [one for one in source.root.children if after <= one.start_byte < before and one.type != "comment"]
    if not inside:
        return None
    start, end = inside[0].start_byte, max(kernel.end, inside[-1].end_byte)
    for one in inside:
        for found in descendants(one, "declaration"):  # what a card sets by name, or one launch leaves to the next
            outside = not any(around.type == "compound_statement" for around in ancestors(found))
            if outside and any(_GLOBALS & variable.words for variable in declared(source, found)):
                return None
    spans = [_span(one) for one in kernels if one.body is not None and one.name != kernel.name]
    spans += [(one.start_byte, one.end_byte) for one in descendants(source.root, "template_instantiation")]
    others = tuple(one for one in spans if start <= one[0] and one[1] <= end)
    return replace(kernel, start=start, end=end, whole=True, others=others)


def _span(one: Function) -> tuple[int, int]:
    return min(one.outer.start_byte, one.start), one.outer.end_byte


def copied(texts: Texts, definition: Definition, changes: Sequence[Change]) -> Copies:
    """A source with one copy of the kernel per change: behind the kernel itself, or instead of all that is copied.

    Args:
        changes: the definition holds each.

    Raises:
        ValueError: the edits of one overlap.
    """
    text, base = texts[definition.file], definition.start
    body = text[definition.start : definition.end]
    for start, end in definition.others:
        body = body[: start - base] + blank(body[start - base : end - base]) + body[end - base :]
    # A function of the original's would be found by its arguments beside a copy's own one.
    place = definition.start if definition.whole else definition.end
    line = text.count(b"\n", 0, place) + 1
    parts: list[str] = []
    names: dict[Change, str] = {}
    lines: dict[Change, tuple[int, int]] = {}
    undefined = dict.fromkeys(_DEFINED.findall(body)) if definition.whole else {}
    for number, change in enumerate(changes, 1):
        names[change] = f"{definition.name}_wmmadiag_{number}"
        end = definition.name_start - base + len(definition.name.encode())
        own = [ByteEdit(one.start - base, one.end - base, one.text) for one in change.edits]
        part = edited(body, [ByteEdit(definition.name_start - base, end, names[change]), *own])
        if definition.whole:
            head = [*(b"#undef " + name for name in undefined), f"namespace {wrapper_of(number)} {{".encode()]
            part = b"\n".join([*head, part, b"}"])
        line += 1
        last = line + part.count(b"\n")
        lines[change] = line, last
        line = last
        parts.append("\n" + part.decode("utf-8", "surrogateescape"))
    return Copies(ByteEdit(place, definition.end, "".join(parts)), names, lines)


def wrapper_of(number: int) -> str:
    """The namespace of a copy of a whole file."""
    return f"{_WRAPPER}{number}"


def in_wrapper(expression: str, number: int) -> str:
    """What instantiates the kernel of a copy of a whole file: what the file defines is the copy's."""
    own = f"{wrapper_of(number)}::"
    return _FIRST.sub(lambda found: found[0] if found[0] in _BUILT_IN else own + found[0], expression)


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
    calls = ".func" in ptx  # a function that is not inlined is another one in each namespace
    found = {}
    for name, mangled in entries.items():
        if mangled in bodies:
            wrapper = _IN_WRAPPER.search(mangled)
            own = [re.compile(rf"{re.escape(one)}(?!\d)") for one in (name, wrapper[0] if wrapper else name)]
            said = "\n".join(
                [*(row for row in outside if any(one.search(row) for one in own)), bodies[mangled].strip()]
            )
            plain = re.sub(rf"\d*{re.escape(name)}(?!\d)", "", said.replace(mangled, ""))
            found[name] = _LABEL.sub("$L_", plain if calls else _IN_WRAPPER.sub("", plain))
    return found


def _lines(error: Diagnostic, file: str) -> Iterator[int]:
    """The lines of a file that an error is about."""
    if error.place.file == file:
        yield error.place.line
        return
    for row in error.lines:
        yield from (int(one[1]) for one in _BEHIND.finditer(row) if one[2] == file)
