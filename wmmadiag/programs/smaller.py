"""A program at smaller sizes than its own, and called so that it launches a certain kernel.

A benchmark's `main` is made for a GPU, and picks one of many kernels by a number on its command line. Its own
comparison is as good at sizes at which it ends on a CPU: the integers that `main` begins with and sizes its arrays by
are made smaller, each by a power of two, and what only says how often the same is done again is once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.csource.declarations import declarations
from wmmadiag.csource.edits import ByteEdit, applied
from wmmadiag.csource.nodes import Node, arguments, called, descendants, field
from wmmadiag.csource.tree import Source, parse
from wmmadiag.csource.variables import Variable, declared
from wmmadiag.errors import WmmadiagError
from wmmadiag.hostcode.types import is_integer, plain
from wmmadiag.programs.kernel_names import base_name

if TYPE_CHECKING:
    from wmmadiag.compile.options import CompileOptions
    from wmmadiag.subject.drafts.host_read import HostRead

_ALLOCATES = re.compile(r"\b\w*(?:[aA]lloc|vector|make_)\w*\s*(?:<[^;()]*>\s*)?\w*\s*\(([^;]*)|\bnew\s+[^;]*")
_WORD = re.compile(r"[A-Za-z_]\w*")
_LARGE = 128  # from here on a number is a size of rows, columns or a sequence
_FEW = range(3, 17)  # batches and heads
_SETTINGS = ((64, True), (128, False), (64, False))
"""What large sizes become at least, and whether numbers of batches and heads become two."""
_MOST_ARGUMENTS = 3


@dataclass(frozen=True, slots=True)
class Smaller:
    """A program with some of its numbers changed."""

    text: bytes  # lines stay where they were
    sizes: tuple[tuple[str, int], ...]  # the new values, by name

    def said(self) -> str:
        """In words: "at smaller sizes than its own (B = 2, T = 64)"; "" for its own."""
        sizes = ", ".join(f"{name} = {value}" for name, value in self.sizes)
        return f"at smaller sizes than its own ({sizes})" if sizes else ""


def smaller(data: bytes, path: Path, *, host: HostRead | None = None, unchanged: bool = False) -> Iterator[Smaller]:
    """A source's program at smaller sizes, those first that are most of its shape; none where it has no such sizes.

    Args:
        path: of the source: it goes by that in messages.
        host: as read with its headers, whose functions may repeat what they time.
        unchanged: whether it comes first as it is.
    """
    head = f'#line 1 "{path.as_posix()}"\n'.encode()
    if unchanged:
        yield Smaller(head + data, ())
    source = parse(data)
    main = next((one for one in declarations(source).functions if one.name == "main" and one.body is not None), None)
    if main is None or main.body is None:
        return
    variables = list(_integers(source, main.body))
    wanted = _sizes(source, main.body)
    numbers = [(one, value) for one, value in variables if one.name in wanted]
    repeats = [(one, value) for one, value in variables if one.name in _repeats(source, main.body, host) - wanted]
    seen: set[tuple[tuple[str, int], ...]] = set()
    for least, few in _SETTINGS:
        changed = [(one, value, _reduced(value, least, few)) for one, value in numbers]
        sizes = tuple((one.name, new) for one, old, new in changed if new != old)
        if not (sizes or repeats) or sizes in seen:
            continue
        seen.add(sizes)
        changed += [(one, value, 1) for one, value in repeats]
        edits = []
        for one, old, new in changed:
            if new != old and one.value is not None:
                edits.append(ByteEdit(one.value.start_byte, one.value.end_byte, str(new)))
        yield Smaller(head + applied(data, sorted(edits, key=lambda one: one.start)), sizes)


def _reduced(value: int, least: int, few: bool) -> int:
    if value >= _LARGE:
        while value // 2 >= least:
            value //= 2
        return value
    return 2 if few and value in _FEW and value % 2 == 0 else value


def _integers(source: Source, body: Node) -> Iterator[tuple[Variable, int]]:
    """The integers that a body declares with a number."""
    for node in descendants(body, "declaration"):
        for one in declared(source, node):
            if one.value is None or one.pointers or one.dimensions or not is_integer(plain(one.type)):
                continue
            text = source.text(one.value)
            if re.fullmatch(r"\d+(?:\s*\*\s*\d+)*", text):
                yield one, math.prod(int(factor) for factor in text.split("*"))


def _sizes(source: Source, body: Node) -> set[str]:
    """The names in what a body's arrays are made of, and in what those are."""
    text = source.text(body)
    wanted = {word for found in _ALLOCATES.finditer(text) for word in _WORD.findall(found[0])}
    variables = [one for node in descendants(body, "declaration") for one in declared(source, node)]
    values = {one.name: set(_WORD.findall(source.text(one.value))) for one in variables if one.value is not None}
    while more := {word for name in wanted & values.keys() for word in values[name]} - wanted:
        wanted |= more
    return wanted


def _repeats(source: Source, body: Node, host: HostRead | None) -> set[str]:
    """The names of how often a body, or a function that it calls, does the same again."""
    found = set(_counts_of_loops(source, body))
    functions = host.program.functions if host is not None else {}
    for call in descendants(body, "call_expression"):
        for one in functions.get(called(call), ()):
            if one.function.body is None:
                continue
            counts = set(_counts_of_loops(one.source, one.function.body))
            for parameter, given in zip(one.function.parameters, arguments(call), strict=False):
                if parameter.name in counts:
                    found.add(source.text(given))
    return found


def _counts_of_loops(source: Source, body: Node) -> Iterator[str]:
    """The names that loops run up to whose own variable nothing in them uses."""
    for loop in descendants(body, "for_statement"):
        condition, inner = field(loop, "condition"), field(loop, "body")
        found = (
            re.fullmatch(r"\s*(\w+)\s*(?:<=?|!=)\s*(\w+)\s*", source.text(condition)) if condition is not None else None
        )
        if found is not None and inner is not None and found[1] not in _WORD.findall(source.text(inner)):
            yield found[2]


def arguments_for(kernel: str, host: HostRead) -> list[list[str]]:
    """What a program is called with, likely, that its `main` launches a kernel: the numbers that conditions ask for.

    Args:
        kernel: its plain name.
    """
    found: list[list[str]] = []
    for launch in chain.from_iterable(run.launches for run in host.runs):
        if launch.root != "main" or base_name(launch.kernel.name) != kernel:
            continue
        for condition, holds in launch.facts:
            if holds and condition.op == "==" and [one.op for one in condition.args] == ["symbol", "number"]:
                words = [str(condition.args[1].args[0])]
                if words not in found:
                    found.append(words)
    return [*found[:_MOST_ARGUMENTS], []]


def host_of(path: Path, options: CompileOptions, kernel: str) -> HostRead | None:
    """A source's host code as read, compiled so; None where it cannot be."""
    from wmmadiag.subject.drafts.derive import kernel_of
    from wmmadiag.subject.drafts.given_source import GivenSource
    from wmmadiag.subject.open_subject import SubjectOptions

    macros = {name: value or "" for name, value in options.macros.items()}
    asked = SubjectOptions(entry=kernel, include_paths=tuple(options.include_paths), macros=macros)
    try:
        return kernel_of(GivenSource(path, asked)).host
    except WmmadiagError:
        return None
