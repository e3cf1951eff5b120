"""What the statements of some sources define, use, call and decide: what their dependences are made of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

from wmmadiag.csource.declarations import Function, declarations
from wmmadiag.csource.lexical import macros
from wmmadiag.csource.nodes import Node, called, descendants, outermost
from wmmadiag.csource.nodes import field as child
from wmmadiag.csource.scopes import Extent, Scopes
from wmmadiag.csource.tree import Source
from wmmadiag.csource.variables import Variable, declared
from wmmadiag.csource.writes import base, may_write, written_by

Key: TypeAlias = "tuple[str, int | str]"
"""What a name means: (file, offset of its declarator), or ("", the name) of what no function declares."""

_SIMPLE = frozenset(
    {"declaration", "expression_statement", "return_statement", "break_statement", "continue_statement",
     "goto_statement", "alias_declaration", "type_definition"}
)  # fmt: skip
_COMPOUND = frozenset(
    {"for_statement", "for_range_loop", "while_statement", "do_statement", "if_statement", "switch_statement"}
)
_LOOPS = _COMPOUND - {"if_statement", "switch_statement"}
# What a jump leaves at most.
_JUMPS: Mapping[str, frozenset[str]] = {
    "return_statement": frozenset(), "goto_statement": frozenset(), "continue_statement": _LOOPS,
    "break_statement": _LOOPS | {"switch_statement"},
}  # fmt: skip
_OUTSIDE = ("declaration", "field_declaration", "alias_declaration", "type_definition")
_BODIES = ("body", "consequence", "alternative")
_WORD = re.compile(r"[A-Za-z_]\w*")
_NAMES = frozenset({"identifier", "field_identifier", "type_identifier", "namespace_identifier"})


@dataclass(slots=True, eq=False)
class Callee:
    """A function or a lambda with a body."""

    key: Key  # what calls it
    kernel: bool
    results: list[CodeUnit] = field(default_factory=list)  # the units that give a caller something


@dataclass(slots=True, eq=False)
class CodeUnit:
    """A simple statement, the head of one that governs others, or a definition of a macro."""

    file: str
    kind: str  # the type of its node, or "macro"
    # start, end: offsets; with what it governs
    start: int
    end: int
    lines: Sequence[int]  # its own
    # the units that govern it, the nearest first; blocks: offsets of the blocks around it, likewise
    around: tuple[CodeUnit, ...] = ()
    blocks: tuple[int, ...] = ()
    leaves: bool = False  # whether a thread may leave a block around it here
    function: Callee | None = None  # whose it is
    # names that it declares or points elsewhere; stores: those whose memory, or value, it writes
    defines: set[Key] = field(default_factory=set)
    stores: set[Key] = field(default_factory=set)
    # names whose values it reads; places: those that only say where it writes
    uses: set[Key] = field(default_factory=set)
    places: set[Key] = field(default_factory=set)
    calls: set[Key] = field(default_factory=set)
    gives: bool = False  # whether it gives a caller something, beside what it writes through parameters
    names: bool = False  # whether it does nothing but give values names


@dataclass(slots=True)
class Units:
    """All units of some sources."""

    units: list[CodeUnit] = field(default_factory=list)
    callees: dict[Key, list[Callee]] = field(default_factory=dict)  # functions and lambdas by what calls them
    # pointer or reference → the names of what it may be a part of, in the order of declaration
    stands_for: dict[Key, set[Key]] = field(default_factory=dict)


def read_units(sources: Mapping[str, Source]) -> Units:
    """The units of some sources, by file; not to be altered: who asks again gets the same."""
    return _read_units(tuple(sources.items()))


@lru_cache(maxsize=4)
def _read_units(files: tuple[tuple[str, Source], ...]) -> Units:
    sources = dict(files)
    declared_there = {file: declarations(source).functions for file, source in sources.items()}
    functions: dict[str, list[Function]] = {}
    for found in declared_there.values():
        for one in found:
            if one.body is not None:
                functions.setdefault(one.name, []).append(one)
    made = Units()
    for file, source in sources.items():
        reader = _UnitReader(file, source, functions, made)
        for one in declared_there[file]:
            reader.function(one)
        reader.outside()
    return made


class _UnitReader:
    """Reads the units of one file."""

    def __init__(self, file: str, source: Source, functions: Mapping[str, Sequence[Function]], made: Units) -> None:
        self.file = file
        self.source = source
        self.extents: dict[str, list[Extent]] = {}
        for one in Scopes(source).extents:
            self.extents.setdefault(one.variable.name, []).append(one)
        self.functions = functions
        self.units = made.units
        self.callees = made.callees
        self.stands_for = made.stands_for

    def function(self, one: Function) -> None:
        """Read a function with its body."""
        if one.body is None:
            return
        callee = Callee(("", one.name), one.kernel)
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
            unit = CodeUnit(
                self.file, "macro", macro.start, macro.end, lines, defines={("", macro.name)}, uses=set(words)
            )
            unit.calls = {key for key in words if key[1] in self.functions}
            self.units.append(unit)

    def _body(
        self, body: Node, callee: Callee, parameters: Sequence[Variable], around: tuple[CodeUnit, ...] = ()
    ) -> None:
        first = len(self.units)
        self._statements(body, around, callee)
        written = {self._declared(one) for one in parameters}
        callee.results += [one for one in self.units[first:] if one.gives or not written.isdisjoint(one.stores)]

    def _statements(self, node: Node, around: tuple[CodeUnit, ...], callee: Callee) -> None:
        open_ones: list[tuple[Node, tuple[CodeUnit, ...], tuple[int, ...]]] = [(node, around, ())]
        while open_ones:
            one, around, blocks = open_ones.pop()
            inside = one.named_children
            if one.type in _SIMPLE or one.type in _COMPOUND:
                inside = [body for name in _BODIES for body in one.children_by_field_name(name)]
                around = (self._unit(one, inside, around, blocks, callee), *around)
            elif one.type == "compound_statement":
                blocks = (one.start_byte, *blocks)
            open_ones.extend((inner, around, blocks) for inner in reversed(inside))

    def _unit(
        self,
        node: Node,
        bodies: Sequence[Node],
        around: tuple[CodeUnit, ...],
        blocks: tuple[int, ...],
        callee: Callee | None,
    ) -> CodeUnit:
        unit = CodeUnit(self.file, node.type, node.start_byte, node.end_byte, (), around, blocks, function=callee)
        self.units.append(unit)
        for condition in _left_by(unit):
            condition.leaves = True
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

    def _node(self, unit: CodeUnit, node: Node) -> None:
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

    def _declaration(self, unit: CodeUnit, variable: Variable, value: Node | None) -> None:
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

    def _lambda(self, unit: CodeUnit, node: Node, around: tuple[CodeUnit, ...]) -> None:
        body = child(node, "body")
        if body is None:
            return
        held = node.parent
        named = held is not None and held.type == "init_declarator"
        key: Key = (self.file, held.start_byte if named and held is not None else node.start_byte)
        callee = Callee(key, kernel=False)
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

    def _meant(self, name: Node) -> Key:
        variable = self._variable(name) if name.type == "identifier" else None
        known = variable is not None and variable.kind not in ("namespace", "member")
        return self._declared(variable) if variable is not None and known else ("", self.source.text(name))

    def _declared(self, variable: Variable) -> Key:
        return self.file, variable.declarator.start_byte

    def _callee(self, call: Node) -> Key:
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


def _left_by(jump: CodeUnit) -> Iterator[CodeUnit]:
    """The conditions under which a thread leaves a block around them, as it jumps."""
    if jump.kind not in _JUMPS:
        return
    for one in jump.around:
        if one.function is not jump.function or one.kind in _JUMPS[jump.kind]:
            return
        if one.kind == "if_statement":
            yield one
