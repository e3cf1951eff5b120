"""A program at smaller sizes than its own, and called so that it launches a certain kernel.

A benchmark's `main` is made for a GPU, and picks one of many kernels by a number on its command line. Its own
comparison is as good at sizes at which it ends on a CPU: the integers by which host code sizes its arrays are made
smaller, each by a power of two, constants and macros of the file and what its functions are called with among them, and
what only says how often the same is done again is once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.csource.declarations import Function, declarations
from wmmadiag.csource.edits import ByteEdit, applied
from wmmadiag.csource.nodes import Node, arguments, called, descendants, field
from wmmadiag.csource.tree import Source, parse
from wmmadiag.csource.variables import declared
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
_SETTINGS = ((64, True, False), (128, False, False), (64, False, False), (64, True, True))
"""What large sizes become at least, whether numbers of batches and heads become two, and whether constants of the file
that device code names are changed, too: they may be its tiles."""
_FACTOR = r"\d+[uUlLzZ]*"
_INTEGER = re.compile(rf"\(*\s*{_FACTOR}(?:\s*(?:\*|<<)\s*{_FACTOR})*\s*\)*")
_MOST_ARGUMENTS = 3


@dataclass(frozen=True, slots=True)
class Smaller:
    """A program with some of its numbers changed."""

    text: str  # lines stay where they were
    sizes: tuple[tuple[str, int], ...]  # the new values, by name
    host_only: bool  # whether device code is what it was, in every byte: only numbers of host functions are others

    def said(self) -> str:
        """In words: "at smaller sizes than its own (B = 2, T = 64)"; "" for its own."""
        sizes = ", ".join(f"{name} = {value}" for name, value in self.sizes)
        return f"at smaller sizes than its own ({sizes})" if sizes else ""


def smaller(data: bytes, *, host: HostRead | None = None, unchanged: bool = False, kept: str = "") -> Iterator[Smaller]:
    """A source's program at smaller sizes, those first that are most of its shape; none where it has no such sizes.

    Args:
        host: as read with its headers, whose functions may repeat what they time.
        unchanged: whether it comes first as it is.
        kept: the name of a number that stays as large as it is.
    """
    if unchanged:
        yield Smaller(data.decode("utf-8", "surrogateescape"), (), host_only=True)
    source = parse(data)
    functions = declarations(source).functions
    main = next((one for one in functions if one.name == "main" and one.body is not None), None)
    if main is None or main.body is None:
        return
    hosts = [one for one in functions if one.body is not None and not one.words & {"__global__", "__device__"}]
    wanted = _sizes(source, [one.body for one in hosts if one.body is not None])
    numbers = [one for one in _numbers(source, hosts) if one.name in wanted]
    often = _repeats(source, main.body, host) - wanted
    repeats = [one for one in _declared(source, main.body) if one.name in often]
    device = _words_of_device_code(source, functions)
    lambdas = any("__device__" in source.text(one) for one in descendants(source.root, "lambda_expression"))
    seen: set[tuple[tuple[str, int], ...]] = set()
    for least, few, shared in _SETTINGS:
        chosen = [one for one in numbers if shared or not one.whole or one.name not in device]
        chosen = [one for one in chosen if one.name != kept]
        changed = [(one, _reduced(one.value, least, few)) for one in chosen]
        sizes = tuple(dict.fromkeys((one.name, new) for one, new in changed if new != one.value))
        if not (sizes or repeats) or sizes in seen:
            continue
        seen.add(sizes)
        changed += [(one, 1) for one in repeats]
        edits = {(one.start, one.end): str(new) for one, new in changed if new != one.value}
        made = applied(data, [ByteEdit(start, end, text) for (start, end), text in sorted(edits.items())])
        host_only = not lambdas and not any(one.whole and new != one.value for one, new in changed)
        yield Smaller(made.decode("utf-8", "surrogateescape" if host_only else "replace"), sizes, host_only)


@dataclass(frozen=True, slots=True)
class _Number:
    """A number in a source, and what it is called; `whole`: by a constant of the file, which device code may name."""

    name: str
    value: int
    start: int
    end: int
    whole: bool = False


def _reduced(value: int, least: int, few: bool) -> int:
    if value >= _LARGE:
        while value // 2 >= least:
            value //= 2
        return value
    return 2 if few and value in _FEW and value % 2 == 0 else value


def _numbers(source: Source, hosts: Sequence[Function]) -> Iterator[_Number]:
    """The integers that host code, constants and macros of the file are given, and that functions are called with."""
    for node in source.root.children:
        if node.type == "preproc_def":
            name, value = field(node, "name"), field(node, "value")
            if name is not None and value is not None:
                yield from _literals(source, source.text(name), value, whole=True)
    bodies = [one.body for one in hosts if one.body is not None]
    for body in bodies:
        yield from _declared(source, body)
    for one in declarations(source).variables:
        if one.value is not None and is_integer(plain(one.type)) and not one.pointers and not one.dimensions:
            yield from _literals(source, one.name, one.value, whole=True)
    by_name = {one.name: one.parameters for one in hosts}
    for body in bodies:
        for call in descendants(body, "call_expression"):
            for parameter, given in zip(by_name.get(called(call), ()), arguments(call), strict=False):
                if is_integer(plain(parameter.type)) and not parameter.pointers:
                    yield from _literals(source, parameter.name, given)


def _declared(source: Source, body: Node) -> Iterator[_Number]:
    """The integers that a body declares with a number, or with one where the command line gives none."""
    for node in descendants(body, "declaration"):
        for one in declared(source, node):
            if one.value is not None and not one.pointers and not one.dimensions and is_integer(plain(one.type)):
                yield from _literals(source, one.name, one.value)


def _literals(source: Source, name: str, node: Node, *, whole: bool = False) -> Iterator[_Number]:
    """The number that a node is, or that it is in one of two cases."""
    text = source.text(node).strip()
    if _INTEGER.fullmatch(text):
        value = 1
        for sign, factor in re.findall(r"(\*|<<|^[\s(]*)\s*(\d+)", text):
            value = value << int(factor) if sign == "<<" else value * int(factor)
        yield _Number(name, value, node.start_byte, node.end_byte, whole)
    elif node.type == "conditional_expression":
        for branch in ("consequence", "alternative"):
            if (inner := field(node, branch)) is not None:
                yield from _literals(source, name, inner, whole=whole)


def _words_of_device_code(source: Source, functions: Sequence[Function]) -> set[str]:
    """The names in device code, and in how it is launched."""
    texts = [source.text(one.node) for one in functions if one.words & {"__global__", "__device__"}]
    texts += [source.text(one) for one in descendants(source.root, "kernel_call_syntax", "template_argument_list")]
    return {word for text in texts for word in _WORD.findall(text)}


def _sizes(source: Source, bodies: Sequence[Node]) -> set[str]:
    """The names in what the arrays of bodies are made of, and in what those are."""
    found = (one for body in bodies for one in _ALLOCATES.finditer(source.text(body)))
    wanted = {word for one in found for word in _WORD.findall(one[0])}
    variables = [one for body in bodies for node in descendants(body, "declaration") for one in declared(source, node)]
    variables += declarations(source).variables
    values = {one.name: set(_WORD.findall(source.text(one.value))) for one in variables if one.value is not None}
    for node in descendants(source.root, "preproc_def"):
        name, value = field(node, "name"), field(node, "value")
        if name is not None and value is not None:
            values.setdefault(source.text(name), set()).update(_WORD.findall(source.text(value)))
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


def host_of(path: Path, options: CompileOptions) -> HostRead | None:
    """A source's host code as read, compiled so; None where it cannot be."""
    from wmmadiag.subject.drafts.given_source import GivenSource
    from wmmadiag.subject.drafts.host_read import read_host
    from wmmadiag.subject.open_subject import SubjectOptions

    macros = {name: value or "" for name, value in options.macros.items()}
    asked = SubjectOptions(include_paths=tuple(options.include_paths), macros=macros)
    try:
        return read_host(GivenSource(path, asked))
    except WmmadiagError:
        return None
