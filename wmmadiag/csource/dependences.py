"""Which lines of some sources a line depends on: where its names get their values, and what decides whether it runs.

Through definitions, stores, loops, conditions, calls, callers, constants and macros. The order of statements is looked
at only where a thread may leave before it reaches one: a name has all of its definitions. It says what is near, not
what is so.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from wmmadiag.csource.declarations import Function, declarations
from wmmadiag.csource.lexical import macros
from wmmadiag.csource.nodes import called, descendants, outermost
from wmmadiag.csource.nodes import field as child
from wmmadiag.csource.scopes import Extent, Scopes
from wmmadiag.csource.tree import Source
from wmmadiag.csource.variables import Variable, declared
from wmmadiag.csource.writes import base, may_write, written_by

if TYPE_CHECKING:
    from tree_sitter import Node

Line: TypeAlias = tuple[str, int]
"""A file and a line of it, from 1."""
_Key: TypeAlias = "tuple[str, int | str]"
"""What a name means: (file, offset of its declarator), or ("", the name) of what no function declares."""

_T = TypeVar("_T")
_SIMPLE = frozenset(
    {"declaration", "expression_statement", "return_statement", "break_statement", "continue_statement",
     "goto_statement", "alias_declaration", "type_definition"}
)  # fmt: skip
_COMPOUND = frozenset(
    {"for_statement", "for_range_loop", "while_statement", "do_statement", "if_statement", "switch_statement"}
)
_LOOPS = _COMPOUND - {"if_statement", "switch_statement"}
_OUTSIDE = ("declaration", "field_declaration", "alias_declaration", "type_definition")
_BODIES = ("body", "consequence", "alternative")
_WORD = re.compile(r"[A-Za-z_]\w*")
_NAMES = frozenset({"identifier", "field_identifier", "type_identifier", "namespace_identifier"})


@dataclass(slots=True, eq=False)
class _Callee:
    """A function or a lambda with a body.

    Attributes:
        key: what calls it.
        results: the units that give a caller something.
    """

    key: _Key
    kernel: bool
    results: list[_Unit] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Unit:
    """A simple statement, the head of one that governs others, or a definition of a macro.

    Attributes:
        start, end: offsets; with what it governs.
        lines: its own.
        around: the units that govern it, the nearest first; blocks: offsets of the blocks around it, likewise.
        leaves: whether a thread may leave a block around it here.
        function: whose it is.
        gives: whether it gives a caller something, beside what it writes through parameters.
        names: whether it does nothing but give values names.
        defines: names that it declares or points elsewhere; stores: those whose memory, or value, it writes.
        uses: names whose values it reads; places: those that only say where it writes.
    """

    file: str
    start: int
    end: int
    lines: Sequence[int]
    around: tuple[_Unit, ...] = ()
    blocks: tuple[int, ...] = ()
    leaves: bool = False
    function: _Callee | None = None
    defines: set[_Key] = field(default_factory=set)
    stores: set[_Key] = field(default_factory=set)
    uses: set[_Key] = field(default_factory=set)
    places: set[_Key] = field(default_factory=set)
    calls: set[_Key] = field(default_factory=set)
    gives: bool = False
    names: bool = False


@dataclass(slots=True)
class _Walk:
    """What was met on the way: units, and names with what was asked of them."""

    units: set[_Unit]
    asked: set[tuple[str, _Key]]

    def first(self, what: str, keys: Iterable[_Key]) -> list[_Key]:
        """Those of which this is asked for the first time."""
        found = [key for key in keys if (what, key) not in self.asked]
        self.asked.update((what, key) for key in found)
        return found


class Dependences:
    """The dependences between the lines of some sources.

    Args:
        sources: file → its tree.
    """

    def __init__(self, sources: Mapping[str, Source]) -> None:
        declared_there = {file: declarations(source).functions for file, source in sources.items()}
        functions: dict[str, list[Function]] = {}
        for found in declared_there.values():
            for one in found:
                if one.body is not None:
                    functions.setdefault(one.name, []).append(one)
        self._units: list[_Unit] = []
        self._callees: dict[_Key, list[_Callee]] = {}
        self._stands_for: dict[_Key, set[_Key]] = {}
        for file, source in sources.items():
            reader = _Reader(file, source, functions, self._units, self._callees, self._stands_for)
            for one in declared_there[file]:
                reader.function(one)
            reader.outside()

    def distances(self, marks: Iterable[Line], most: int = 8, known: Container[Line] = ()) -> dict[Line, int]:
        """Line → how many dependences it is behind the nearest of some lines, which are at 0 themselves.

        A value that only has a name (`const int row = …`) is a part of the expressions that use it: what it is made of
        is as far from them as it is itself.

        Args:
            most: dependences that are followed.
            known: lines whose values are right: what these are made of is not followed, only the loops and conditions
                around them, which say which values there are.
        """
        found: dict[Line, int] = {}
        front = [unit for mark in marks for unit in self._by_line.get(mark, ())]
        walk = _Walk(set(front), set())
        for step in range(most + 1):
            for unit in front:
                for line in unit.lines:
                    found.setdefault((unit.file, line), step)
            if step < most:
                front = self._further(front, walk, known)
        return found

    def _further(self, front: Sequence[_Unit], walk: _Walk, known: Container[Line]) -> list[_Unit]:
        """The units one dependence behind those of a front that were not met before."""
        found: list[_Unit] = []
        open_ones = list(front)
        while open_ones:
            for one in self._behind(open_ones.pop(), walk, known):
                if one not in walk.units:
                    walk.units.add(one)
                    found.append(one)
                    if one.names:
                        open_ones.append(one)
        return found

    def _behind(self, unit: _Unit, walk: _Walk, known: Container[Line]) -> Iterator[_Unit]:
        yield from unit.around
        if any((unit.file, line) in known for line in unit.lines):
            return
        for block in unit.blocks:
            yield from (one for one in self._leaving.get((unit.file, block), ()) if one.end <= unit.start)
        for key in walk.first("place", unit.places):
            yield from self._declaring.get(key, ())
        for key in walk.first("value", unit.uses):
            yield from self._defining.get(key, ())
        if unit.function is not None and not unit.function.kernel:
            for key in walk.first("callers", (unit.function.key,)):
                yield from self._calling.get(key, ())
        for key in walk.first("results", unit.calls):
            for callee in self._callees.get(key, ()):
                yield from callee.results

    @cached_property
    def _by_line(self) -> dict[Line, list[_Unit]]:
        return _grouped(((unit.file, line), unit) for unit in self._units for line in unit.lines)

    @cached_property
    def _leaving(self) -> dict[tuple[str, int], list[_Unit]]:
        """File and block → the conditions in it under which a thread leaves it."""
        return _grouped(((unit.file, unit.blocks[0]), unit) for unit in self._units if unit.leaves and unit.blocks)

    @cached_property
    def _calling(self) -> dict[_Key, list[_Unit]]:
        return _grouped((key, unit) for unit in self._units for key in unit.calls)

    @cached_property
    def _defining(self) -> dict[_Key, list[_Unit]]:
        """Name → the units that give it a value, or write what it stands for."""
        stores = _grouped((key, unit) for unit in self._units for key in unit.stores)
        # A pointer is declared after what it is made of: the last first.
        for key in reversed(self._stands_for):
            for other in self._stands_for[key]:
                stores.setdefault(other, []).extend(stores.get(key, ()))
        keys = dict.fromkeys([*self._declaring, *stores])
        return {key: list(dict.fromkeys([*self._declaring.get(key, ()), *stores.get(key, ())])) for key in keys}

    @cached_property
    def _declaring(self) -> dict[_Key, list[_Unit]]:
        """Name → its declaration, and for a pointer what points it elsewhere."""
        return _grouped((key, unit) for unit in self._units for key in unit.defines)


def _grouped(pairs: Iterable[tuple[_T, _Unit]]) -> dict[_T, list[_Unit]]:
    made: dict[_T, list[_Unit]] = {}
    for key, unit in pairs:
        made.setdefault(key, []).append(unit)
    return made


class _Reader:
    """Reads the units of one file."""

    def __init__(
        self,
        file: str,
        source: Source,
        functions: Mapping[str, Sequence[Function]],
        units: list[_Unit],
        callees: dict[_Key, list[_Callee]],
        stands_for: dict[_Key, set[_Key]],
    ) -> None:
        self.file = file
        self.source = source
        self.extents: dict[str, list[Extent]] = {}
        for one in Scopes(source).extents:
            self.extents.setdefault(one.variable.name, []).append(one)
        self.functions = functions
        self.units = units
        self.callees = callees
        self.stands_for = stands_for

    def function(self, one: Function) -> None:
        """Read a function with its body."""
        if one.body is None:
            return
        callee = _Callee(("", one.name), one.kernel)
        self.callees.setdefault(callee.key, []).append(callee)
        self._body(one.body, callee, [parameter for parameter in one.parameters if may_write(parameter)])

    def outside(self) -> None:
        """Read what is declared at namespace and class scope, and the macros."""
        for one in outermost(self.source.root, "function_definition", "enumerator", *_OUTSIDE):
            record = next(descendants(one, "field_declaration_list"), None) if one.type == "declaration" else None
            for inner in outermost(record, "function_definition", *_OUTSIDE) if record is not None else (one,):
                if inner.type != "function_definition":
                    self._unit(inner, (), (), (), None)
        for macro in macros(self.source.data, self.source.code.spans).values():
            lines = range(self.source.place_at(macro.start).line, self.source.place_at(macro.end).line + 1)
            words = {("", word) for word in _WORD.findall(macro.body)}
            unit = _Unit(self.file, macro.start, macro.end, lines, defines={("", macro.name)}, uses=set(words))
            unit.calls = {key for key in words if key[1] in self.functions}
            self.units.append(unit)

    def _body(
        self, body: Node, callee: _Callee, parameters: Sequence[Variable], around: tuple[_Unit, ...] = ()
    ) -> None:
        first = len(self.units)
        self._statement(body, around, (), callee)
        written = {self._declared(one) for one in parameters}
        callee.results += [one for one in self.units[first:] if one.gives or not written.isdisjoint(one.stores)]

    def _statement(self, node: Node, around: tuple[_Unit, ...], blocks: tuple[int, ...], callee: _Callee) -> None:
        if node.type in _SIMPLE or node.type in _COMPOUND:
            bodies = [one for name in _BODIES for one in node.children_by_field_name(name)]
            unit = self._unit(node, bodies, around, blocks, callee)
            for one in bodies:
                self._statement(one, (unit, *around), blocks, callee)
            return
        if node.type == "compound_statement":
            blocks = (node.start_byte, *blocks)
        for one in node.named_children:
            self._statement(one, around, blocks, callee)

    def _unit(
        self,
        node: Node,
        bodies: Sequence[Node],
        around: tuple[_Unit, ...],
        blocks: tuple[int, ...],
        callee: _Callee | None,
    ) -> _Unit:
        unit = _Unit(self.file, node.start_byte, node.end_byte, (), around, blocks, function=callee)
        self.units.append(unit)
        unit.leaves = node.type == "if_statement" and _leaves(node)
        unit.gives = node.type == "return_statement" and node.named_child_count > 0
        lines: set[int] = set()
        lambdas: list[Node] = []
        for one in _own(node, bodies, lambdas):
            if one.child_count == 0 and one.type != "comment":
                lines |= {one.start_point[0] + 1, one.end_point[0] + 1}
            self._node(unit, one)
        unit.lines = sorted(lines)
        for one in lambdas:
            self._lambda(unit, one, around)
        return unit

    def _node(self, unit: _Unit, node: Node) -> None:
        """What one node of a unit defines, uses and calls."""
        if node.type in _NAMES:
            if not _is_declared(node):
                (unit.places if _is_overwritten(node) else unit.uses).add(self._meant(node))
            return
        if node.type in ("declaration", "field_declaration", "for_range_loop"):
            variables = list(declared(self.source, node))
            for variable in variables:
                self._declaration(unit, variable, variable.value or child(node, "right"))
            unit.names = node.start_byte == unit.start and bool(variables) and all(map(_is_name, variables))
        elif node.type == "type_definition":
            unit.defines |= {("", variable.name) for variable in declared(self.source, node)}
        elif node.type in ("alias_declaration", "enumerator"):
            name = child(node, "name")
            unit.defines |= {("", self.source.text(name))} if name is not None else set()
        elif node.type == "call_expression":
            unit.calls.add(self._callee(node))
        elif node.type == "gnu_asm_expression":
            unit.gives = True
        for write in written_by(node, self.functions):
            key = self._meant(write.name)
            pointer = self._variable(write.name)
            alone = write.whole and pointer is not None and pointer.pointers > 0 and not pointer.reference
            (unit.defines if alone else unit.stores).add(key)

    def _declaration(self, unit: _Unit, variable: Variable, value: Node | None) -> None:
        key = self._declared(variable) if unit.function is not None else ("", variable.name)
        unit.defines.add(key)
        address = value is not None and value.type == "pointer_expression"
        if value is None or not (variable.pointers or variable.reference or (address and variable.type == "auto")):
            return
        whole = base(value) if variable.reference or address else None
        for name in descendants(value, "identifier"):
            other = self._variable(name)
            if name == whole or (other is not None and _is_memory(other)):
                self.stands_for.setdefault(key, set()).add(self._meant(name))

    def _lambda(self, unit: _Unit, node: Node, around: tuple[_Unit, ...]) -> None:
        body = child(node, "body")
        if body is None:
            return
        held = node.parent
        named = held is not None and held.type == "init_declarator"
        key: _Key = (self.file, held.start_byte if named and held is not None else node.start_byte)
        callee = _Callee(key, kernel=False)
        self.callees.setdefault(key, []).append(callee)
        if not named:
            unit.calls.add(key)  # given to what the unit calls
        self._body(body, callee, (), (unit, *around))

    def _variable(self, name: Node) -> Variable | None:
        if name.parent is not None and name.parent.type == "qualified_identifier":
            return None
        # An inner scope begins later than those around it.
        known = reversed(self.extents.get(self.source.text(name), ()))
        return next((one.variable for one in known if one.start <= name.start_byte < one.end), None)

    def _meant(self, name: Node) -> _Key:
        variable = self._variable(name) if name.type == "identifier" else None
        known = variable is not None and variable.kind not in ("namespace", "member")
        return self._declared(variable) if variable is not None and known else ("", self.source.text(name))

    def _declared(self, variable: Variable) -> _Key:
        return self.file, variable.declarator.start_byte

    def _callee(self, call: Node) -> _Key:
        held = child(call, "function")
        if held is not None and held.type == "identifier":
            return self._meant(held)
        return "", called(call)


def _own(node: Node, bodies: Sequence[Node], lambdas: list[Node]) -> Iterator[Node]:
    """The nodes of a statement without its bodies; lambdas are put into a list, their bodies left out."""
    left_out = {one.start_byte for one in bodies}
    open_ones = [node]
    while open_ones:
        one = open_ones.pop()
        if one.type == "lambda_expression":
            lambdas.append(one)
            body = child(one, "body")
            left_out |= {body.start_byte} if body is not None else set()
        if one is not node and one.start_byte in left_out:
            continue
        yield one
        open_ones.extend(reversed(one.children))


def _is_declared(name: Node) -> bool:
    """Whether an identifier is what a declaration declares, and not a part of its value or extent."""
    around = name.parent
    if name.type == "type_identifier" or around is None:
        return False
    if not around.type.endswith(("declarator", "declaration")) and around.type != "for_range_loop":
        return False
    return all(child(around, part) != name for part in ("value", "size", "right", "default_value"))


def _is_overwritten(name: Node) -> bool:
    """Whether an identifier stands for a place that is assigned to, whatever was there."""
    one, around = name, name.parent
    while around is not None and child(around, "argument") == one:
        one, around = around, around.parent
    if around is None or around.type != "assignment_expression" or child(around, "left") != one:
        return False
    operator = child(around, "operator")
    return operator is not None and operator.type == "="


def _is_name(variable: Variable) -> bool:
    """Whether a variable is nothing but a name for its initial value."""
    constant = bool(variable.words & {"const", "constexpr"}) and not variable.pointers
    return constant and variable.value is not None


def _is_memory(variable: Variable) -> bool:
    return variable.pointers > 0 or variable.reference or bool(variable.dimensions)


def _leaves(condition: Node) -> bool:
    """Whether a thread may leave a block around an `if` in what it governs."""
    open_ones = [(one, False, False) for one in condition.named_children]
    while open_ones:
        node, in_loop, in_switch = open_ones.pop()
        if node.type in ("return_statement", "goto_statement"):
            return True
        if (node.type == "continue_statement" and not in_loop) or (
            node.type == "break_statement" and not (in_loop or in_switch)
        ):
            return True
        if node.type != "lambda_expression":
            loop, switch = in_loop or node.type in _LOOPS, in_switch or node.type == "switch_statement"
            open_ones += [(one, loop, switch) for one in node.named_children]
    return False
