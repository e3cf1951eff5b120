"""Which lines of a source a line depends on: where its names get their values, and what decides whether it runs.

By name, within a function and through calls to functions of the source; the order of statements is not looked at, so
that a name has all of its definitions. Good enough to say what is near, not what is so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from wmmadiag.csource.declarations import Function, declarations
from wmmadiag.csource.nodes import arguments, bare, outermost, walk
from wmmadiag.csource.nodes import field as child
from wmmadiag.csource.tree import Source

if TYPE_CHECKING:
    from tree_sitter import Node

Line: TypeAlias = tuple[str, int]

_STATEMENTS = frozenset(
    {
        "declaration", "expression_statement", "return_statement", "for_statement", "if_statement", "while_statement",
        "do_statement", "switch_statement", "for_range_loop", "field_declaration", "alias_declaration",
    }
)  # fmt: skip
_WITHIN = 3
"""Loops and conditions around a statement that it depends on, the innermost ones."""
_BODIES = ("body", "consequence", "alternative")
_NAMES = ("identifier", "field_identifier", "type_identifier", "namespace_identifier")


@dataclass(slots=True)
class _Unit:
    """One statement, or the head of one that holds others."""

    file: str
    lines: tuple[int, ...]
    defines: frozenset[str]
    uses: frozenset[str]
    within: tuple[int, ...]
    function: str
    returns: bool = False


@dataclass
class Dependences:
    """The dependences between the lines of some files."""

    sources: Mapping[str, Source]
    _units: list[_Unit] = field(default_factory=list)
    _passed: dict[tuple[str, str], set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        functions = {name: declarations(source) for name, source in self.sources.items()}
        known = {one.name: one for found in functions.values() for one in found.functions if one.body is not None}
        for name, source in self.sources.items():
            for one in functions[name].functions:
                if one.body is not None:
                    self._function(name, source, one, known)
            self._outside(name, source)

    def distances(self, marks: Iterable[Line], most: int = 8) -> dict[Line, int]:
        """Line → how many dependences it is behind the nearest of some lines, which are at 0 themselves."""
        found: dict[Line, int] = {}
        front = {number for mark in marks for number in self._by_line.get(mark, ())}
        seen = set(front)
        for step in range(most + 1):
            for number in front:
                unit = self._units[number]
                for line in unit.lines:
                    found.setdefault((unit.file, line), step)
            front = {behind for number in front for behind in self._behind(number)} - seen
            seen |= front
        return found

    @cached_property
    def _by_line(self) -> dict[Line, list[int]]:
        made: dict[Line, list[int]] = {}
        for number, unit in enumerate(self._units):
            for line in unit.lines:
                made.setdefault((unit.file, line), []).append(number)
        return made

    @cached_property
    def _by_name(self) -> dict[tuple[str, str], list[int]]:
        made: dict[tuple[str, str], list[int]] = {}
        for number, unit in enumerate(self._units):
            for name in unit.defines:
                made.setdefault((unit.function, name), []).append(number)
        return made

    def _behind(self, number: int) -> Iterator[int]:
        unit = self._units[number]
        yield from unit.within
        for name in unit.uses:
            yield from self._results.get(name, ())
            yield from self._by_name.get((unit.function, name), ())
            yield from self._by_name.get(("", name), ())
            # A parameter is what callers give, an array what other functions store into it.
            for caller in self._passed.get((unit.function, name), ()):
                yield from self._calls.get((caller, unit.function), ())

    @cached_property
    def _results(self) -> dict[str, list[int]]:
        """Function → the statements that give its callers something: returns, and what stores through parameters."""
        made: dict[str, list[int]] = {}
        for number, unit in enumerate(self._units):
            stores = any((unit.function, name) in self._passed for name in unit.defines)
            if unit.function and (unit.returns or stores):
                made.setdefault(unit.function, []).append(number)
        return made

    @cached_property
    def _calls(self) -> dict[tuple[str, str], list[int]]:
        made: dict[tuple[str, str], list[int]] = {}
        for number, unit in enumerate(self._units):
            for name in unit.uses:
                made.setdefault((unit.function, name), []).append(number)
        return made

    def _function(self, file: str, source: Source, one: Function, known: Mapping[str, Function]) -> None:
        assert one.body is not None
        for parameter in one.parameters:
            self._passed.setdefault((one.name, parameter.name), set())
        self._block(file, source, one.body.named_children, (), one.name)
        for call in outermost_calls(one.body):
            called = child(call, "function")
            name = source.text(called).split("<")[0].rpartition("::")[2] if called is not None else ""
            if name in known:
                for parameter in known[name].parameters:
                    self._passed.setdefault((name, parameter.name), set()).add(one.name)

    def _block(self, file: str, source: Source, nodes: Sequence[Node], within: tuple[int, ...], function: str) -> None:
        for one in nodes:
            if one.type in _STATEMENTS:
                self._statement(file, source, one, within, function)
            else:
                self._block(file, source, one.named_children, within, function)

    def _statement(self, file: str, source: Source, node: Node, within: tuple[int, ...], function: str) -> None:
        bodies = [one for name in _BODIES for one in node.children_by_field_name(name)]
        skipped = {(one.start_byte, one.end_byte) for one in bodies}
        defines, uses, lines = set(), set(), set()
        open_ones = [node]
        while open_ones:
            one = open_ones.pop()
            if (one.start_byte, one.end_byte) in skipped and one is not node:
                continue
            if not one.children:
                lines.add(source.place(one).line)
            open_ones.extend(one.children)
            if one.type in _NAMES:
                uses.add(source.text(one))
            defines |= set(_defined(source, one))
        number = len(self._units)
        ordered = tuple(sorted(lines))
        returns = node.type == "return_statement"
        self._units.append(_Unit(file, ordered, frozenset(defines), frozenset(uses), within, function, returns))
        for body in bodies:
            inner = body.named_children if body.type == "compound_statement" else [body]
            self._block(file, source, inner, (*within[-_WITHIN:], number), function)

    def _outside(self, file: str, source: Source) -> None:
        """Constants at namespace and class scope, and macros."""
        for one in outermost(
            source.root, "function_definition", "declaration", "field_declaration", "alias_declaration"
        ):
            if one.type != "function_definition":
                self._statement(file, source, one, (), "")
        for name, macro in source.code.macros.items():
            if macro.end <= len(source.data) and source.data[macro.start : macro.end].lstrip().startswith(b"#"):
                first, last = source.place_at(macro.start).line, source.place_at(macro.end).line
                used = frozenset(word for word in macro.body.replace("(", " ").split() if word.isidentifier())
                lines = tuple(range(first, last + 1))
                self._units.append(_Unit(file, lines, frozenset({name}), used, (), ""))


def outermost_calls(node: Node) -> Iterator[Node]:
    """Every call under a node."""
    return (one for one in walk(node) if one.type == "call_expression")


def _defined(source: Source, node: Node) -> Iterator[str]:
    """Names to which a node gives a value: the variable, or the array or pointer that is stored through."""
    if node.type == "init_declarator" or node.type.endswith("_declarator"):
        name = node
        while child(name, "declarator") is not None:
            name = child(name, "declarator") or name
        if name.type in ("identifier", "field_identifier"):
            yield source.text(name)
    elif node.type == "assignment_expression":
        yield from _base(source, child(node, "left"))
    elif node.type == "update_expression":
        yield from _base(source, child(node, "argument"))
    elif node.type == "call_expression":
        for one in arguments(node):
            # What a call may write: an array, or what it is given the address or a reference of.
            yield from _base(source, one)
    elif node.type == "declaration":
        for one in node.children_by_field_name("declarator"):
            if one.type == "identifier":
                yield source.text(one)


def _base(source: Source, node: Node | None) -> Iterator[str]:
    while node is not None:
        node = bare(node)
        if node.type in ("identifier", "field_identifier"):
            yield source.text(node)
            return
        following = child(node, "argument") or child(node, "left")
        node = following
