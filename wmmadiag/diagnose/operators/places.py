"""Where a source may be changed: what the kernels reach, in the user's files, macros and constants included."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from wmmadiag.csource.declarations import Declarations, Function, declarations, local_aliases
from wmmadiag.csource.dependences import Line
from wmmadiag.csource.lexical import Macro
from wmmadiag.csource.nodes import descendants
from wmmadiag.csource.scopes import Scopes
from wmmadiag.csource.tree import parse
from wmmadiag.csource.types import INTEGER, UNKNOWN, Types
from wmmadiag.csource.variables import Variable
from wmmadiag.diagnose.changes import TextEdit, Texts
from wmmadiag.diagnose.operators import ordering, roles
from wmmadiag.diagnose.operators.instantiated import Instantiated, Span, outside, within
from wmmadiag.diagnose.operators.macros import constraint, macro_unit, number
from wmmadiag.diagnose.operators.model import Body, Expression, Statement, Unit
from wmmadiag.diagnose.operators.reading import BodyReader, returned

if TYPE_CHECKING:
    from tree_sitter import Node

_WORD = re.compile(rb"[A-Za-z_]\w*")

Range = tuple[str, int, int]
"""A part of a file: its path, and byte offsets, end exclusive."""


Kept = TypeVar("Kept")


@dataclass(slots=True, eq=False)
class Program:
    """What some kernels reach of some files."""

    texts: Texts  # the files, by path
    bodies: list[Body]  # functions, macros and constants, in the order in which they are reached
    reader: BodyReader  # what is known of types and variables
    functions: dict[str, list[Function]]  # all device functions with a body, by name, reached or not
    macros: dict[str, Macro]  # all macros
    ranges: tuple[Range, ...] | None = None  # what may be changed; None: everything
    # by file, branches that the compiler did not take: what is in them is not changed
    left_out: Mapping[str, Sequence[Span]] = field(default_factory=dict)
    _kept: dict[Any, Any] = field(default_factory=dict)  # what operators keep of it, by its class
    _merged: Mapping[str, Sequence[Span]] = field(default_factory=dict)  # the ranges by file, in order and apart
    _all: list[Expression] = field(default_factory=list)
    _expressions: list[Expression] = field(default_factory=list)
    _statements: list[Statement] = field(default_factory=list)

    @property
    def expressions(self) -> list[Expression]:
        """Every expression that may be changed, in the order of bodies and text."""
        if not self._expressions:
            self._expressions = [one for one in self.all_expressions() if self.may_be_changed(one)]
        return self._expressions

    @property
    def statements(self) -> list[Statement]:
        """Every statement that the kernels reach, in the order of bodies and text.

        Those that may not be changed are among them: what is put in one place may be told by another.
        """
        if not self._statements:
            self._statements = [one for body in self.bodies for one in body.statements]
        return self._statements

    def all_expressions(self) -> list[Expression]:
        """Every expression that the kernels reach."""
        if not self._all:
            wholes = (whole for body in self.bodies for held in body.statements for whole in held.expressions)
            self._all = [one for whole in wholes for one in whole.under()]
        return self._all

    def once(self, kind: Callable[[Program], Kept]) -> Kept:
        """What is made of the program once, by the class that it is of."""
        if kind not in self._kept:
            self._kept[kind] = kind(self)
        found: Kept = self._kept[kind]
        return found

    def names_at(self, unit: Unit, offset: int) -> dict[str, Variable]:
        """The variables in scope at an offset of a unit's tree; in a macro, with those where it stands first."""
        found = unit.scopes.at(offset)
        if unit.used is not None:
            found = {**self.names_at(*unit.used), **found}
        return {**self.reader.shared_names, **found} if self.reader.shared_names else found

    def may_change(self, edits: Iterable[TextEdit]) -> bool:
        """Whether edits touch what may be changed."""
        edits = tuple(edits)
        if not any(self._among(edit.file, edit.start, edit.end + 1, touching=1) for edit in edits):
            return False
        return not all(within(self.left_out.get(edit.file, ()), edit.start, edit.end) for edit in edits)

    def may_be_changed(self, one: Expression | Statement) -> bool:
        """Whether an expression or statement is among what may be changed."""
        start, end = one.start + one.unit.base, one.end + one.unit.base
        return self._among(one.unit.file, start, end)

    def _among(self, file: str, start: int, end: int, touching: int = 0) -> bool:
        """Whether a part of a file meets what may be changed.

        Args:
            touching: 1 where what only begins at its end meets it, too.
        """
        if self.ranges is None:
            return True
        merged = self._merged.get(file, ())
        before = bisect_left(merged, (end, 0))
        return before > 0 and start < merged[before - 1][1] + touching

    def only(self, ranges: tuple[Range, ...]) -> Program:
        """The same program, of which these parts may be changed."""
        merged: dict[str, list[Span]] = {}
        for file, first, last in sorted(ranges):
            spans = merged.setdefault(file, [])
            if spans and first <= spans[-1][1]:
                first, last = spans[-1][0], max(last, spans.pop()[1])
            spans.append((first, last))
        return replace(self, ranges=ranges, _merged=merged, _expressions=[])


def program(
    texts: Texts,
    entry: str | tuple[str, ...],
    ranges: Iterable[Range] | None = None,
    compiled: Iterable[Line] = (),
) -> Program:
    """Read what some kernels reach.

    Args:
        texts: the kernels' own source and the user's headers that it includes.
        entry: the kernel as the card names it, or several, with or without scopes and template arguments.
        ranges: what may be changed; everything that they reach where it is None.
        compiled: the lines that the compiler made instructions of, where that is known.

    Raises:
        ValueError: no file defines one of them.
    """
    held = _whole(tuple(texts.items()), entry, frozenset(compiled))
    return held if ranges is None else held.only(tuple(ranges))


@lru_cache(maxsize=2)  # a search asks for parts of one program time and again
def _whole(texts: tuple[tuple[str, bytes], ...], entry: str | tuple[str, ...], compiled: frozenset[Line]) -> Program:
    return _Reaching(dict(texts), entry, compiled).program()


@dataclass(slots=True)
class _NamedConstant:
    name: str
    unit: Unit
    node: Node


class _Reaching:
    def __init__(self, texts: Texts, entry: str | tuple[str, ...], compiled: Iterable[Line]) -> None:
        self.texts = texts
        # The kernels by their names, with their arguments: types whose calls no text of the sources names.
        self.entries: dict[str, list[bytes]] = {}
        for one in (entry,) if isinstance(entry, str) else entry:
            name = one.partition("<")[0].rpartition("::")[2].strip()
            self.entries.setdefault(name, []).append(one.partition("<")[2].encode())
        self.units: list[Unit] = []
        self.declared: list[Declarations] = []
        macros: dict[str, tuple[Unit, Macro]] = {}
        for file, text in texts.items():
            known = {name: macro for name, (_, macro) in macros.items()}
            source = parse(text, file, MappingProxyType(known))
            unit = Unit(file, source, Scopes(source))
            self.units.append(unit)
            self.declared.append(declarations(source))
            macros |= {name: (unit, one) for name, one in source.code.macros.items() if name not in known}
        self.macros = macros
        self.functions: dict[str, list[tuple[Unit, Function]]] = {}
        self.constants: dict[str, list[_NamedConstant]] = {}
        self.enumerators: list[str] = []  # that need no scope
        self.enumerations: list[tuple[str, ...]] = []
        self.called: dict[str, set[str]] = {}  # of a type that is called, or compared, the names of the operators
        for unit, each in zip(self.units, self.declared, strict=True):
            self._names_of(unit, each)
        # Of functions of one name those that the program has, with what was left out of them.
        kernels = itertools.chain.from_iterable(self.functions.get(name, ()) for name in self.entries)
        instantiated = Instantiated(compiled, (one for one in kernels if one[1].kernel))
        self.made = {
            name: [(unit, one, instantiated.left_out(unit, one)) for unit, one in instantiated.chosen(listed)]
            for name, listed in self.functions.items()
        }
        shared = {
            one.name: one for each in self.declared for one in each.variables if len(self.declared) > 1 and one.name
        }
        types = Types(self.declared, {k: v for one in self.units for k, v in local_aliases(one.source).items()})
        returns = {
            name: types.read(listed[0][1].returns) if not _generic(listed[0][1]) else UNKNOWN
            for name, listed in self.functions.items()
        }
        self.reader = BodyReader(types, returns, shared)
        self.reader.enumerations = self.enumerations
        self.reader.macros = {
            name: tuple(constraint(macro.body, one) for one in macro.parameters)
            for name, (_, macro) in macros.items() if macro.parameters is not None
        }  # fmt: skip
        self.reader.constants.update(dict.fromkeys(self.enumerators, INTEGER))
        self._read_numbers()

    def _read_numbers(self) -> None:
        """Tell the reader of macros that stand for numbers, those that are made of others among them."""
        known = self.reader.constants
        waiting = {name: macro.body for name, (_, macro) in self.macros.items() if macro.parameters is None}
        while found := {name: kind for name, body in waiting.items() if (kind := number(body, known)) is not None}:
            known.update(found)
            waiting = {name: body for name, body in waiting.items() if name not in found}

    def _names_of(self, unit: Unit, each: Declarations) -> None:
        for function in each.functions:
            if function.body is not None:
                self.functions.setdefault(function.name, []).append((unit, function))
                if function.name.startswith("operator"):
                    self.called.setdefault(function.scope.rpartition("::")[2], set()).add(function.name)
        for variable in each.variables:
            self._constant(variable.name, unit, variable.node)
        for around in descendants(unit.source.root, "enum_specifier"):
            of, held = around.child_by_field_name("name"), list(descendants(around, "enumerator"))
            names = [unit.source.text(named) for node in held if (named := node.child_by_field_name("name"))]
            scoped = any(one.type in ("class", "struct") for one in around.children)
            self.enumerators += [] if scoped else names
            if of is not None:  # one without a name is a list of constants
                self.enumerations.append((unit.source.text(of) if scoped else "", *names))
            for name, node in zip(names, held, strict=True):
                self._constant(name, unit, node)
        for record in each.records:
            for base in record.node.named_children:
                if base.type == "base_class_clause":
                    self._constant(record.name.partition("<")[0], unit, base)
            for variable in record.members:
                if not variable.words & {"static", "constexpr"}:
                    continue
                self._constant(variable.name, unit, variable.node)
        for name, _, node in each.aliases:
            self._constant(name.rpartition("::")[2], unit, node)

    def _constant(self, name: str, unit: Unit, node: Node) -> None:
        if name:
            self.constants.setdefault(name, []).append(_NamedConstant(name, unit, node))

    def program(self) -> Program:
        for entry in self.entries:
            if not any(function.kernel for _, function in self.functions.get(entry, ())):
                raise ValueError(f"no file among {', '.join(self.texts)} defines the kernel {entry}")
        bodies = [body for name in self._reached() for body in self._bodies(name)]
        for body in bodies:
            node = self._node(body)
            if node is not None:
                self.reader.body(body, node)
            if body.function is not None and self.reader.returns.get(body.name, UNKNOWN).kind in ("unknown", "named"):
                self.reader.returns[body.name] = returned(body)
        self._read_callers_first(bodies)
        bodies = [body for body in bodies if body.root is not None]
        _fix(bodies, self.reader.needed)
        orders = ordering.orders(bodies)
        for body in bodies:
            for statement in body.statements:
                statement.order = ordering.order_of(statement, orders)
                roles.assign(statement, orders)
        left_out: dict[str, list[Span]] = {}
        for unit, _, spans in itertools.chain.from_iterable(self.made.values()):
            left_out.setdefault(unit.file, []).extend(spans)
        for body in bodies:
            spans = left_out.get(body.unit.file, []) if body.function is not None else []
            body.statements = [one for one in body.statements if not within(spans, one.start, one.end)]
        functions = {name: [function for _, function in listed] for name, listed in self.functions.items()}
        macros = {name: macro for name, (_, macro) in self.macros.items()}
        return Program(self.texts, bodies, self.reader, functions, macros, None, left_out)

    def _read_callers_first(self, bodies: list[Body]) -> None:
        """Read functions once more, by now with what calls say of their parameters; then macros."""
        self.reader.passed.clear()
        for body in reversed(bodies):
            node = self._node(body)
            if body.function is not None and node is not None:
                body.fixed = body.name in self.reader.needed and "constexpr" in body.function.words
                self.reader.body(body, node)
        for body in bodies:  # by now with what is said of names where a macro stands
            node = self._node(body)
            if body.unit.used is not None and node is not None:
                self.reader.body(body, node)

    def _reached(self) -> list[str]:
        """The names that the kernels reach, callees and constants before what uses them."""
        order: list[str] = []
        seen: set[str] = set()

        def reach(name: str) -> None:
            if name in seen:
                return
            seen.add(name)
            for text in self._texts_of(name):
                for word in dict.fromkeys(_WORD.findall(text)):
                    plain = word.decode()
                    for called in sorted(self.called.get(plain, ())):  # by no name of its own
                        reach(called)
                    if plain in self.functions or plain in self.macros or plain in self.constants:
                        reach(plain)
            order.append(name)

        for entry in self.entries:
            reach(entry)
        return order

    def _texts_of(self, name: str) -> Iterator[bytes]:
        yield from self.entries.get(name, ())
        for unit, function, left_out in self.made.get(name, ()):
            for first, last in outside(left_out, function.start, function.node.end_byte):
                yield unit.source.code.code[first:last]
        if name in self.macros:
            yield self.macros[name][1].body.encode()
        for one in self.constants.get(name, ()):
            yield one.unit.source.code.code[one.node.start_byte : one.node.end_byte]

    def _bodies(self, name: str) -> Iterator[Body]:
        if name in self.macros:
            unit, macro = self.macros[name]
            made = macro_unit(unit, macro, self._used(macro))
            if made is not None:
                yield Body(name, made, None, fixed=macro.parameters is None)
        for one in self.constants.get(name, ()):
            yield Body(name, one.unit, None, fixed=True, declaration=one.node)
        for unit, function, _ in self.made.get(name, ()):
            entry = name in self.entries
            if function.kernel == entry:
                yield Body(name, unit, function, kernel=entry)

    def _used(self, macro: Macro) -> tuple[Unit, int] | None:
        """Where a macro stands first in a function."""
        word = re.compile(rb"\b%s\b" % macro.name.encode())
        for listed in self.functions.values():
            for unit, function in listed:
                if function.body is None:
                    continue
                found = word.search(unit.source.code.code, function.body.start_byte, function.body.end_byte)
                if found is not None:
                    return unit, found.start()
        return None

    def _node(self, body: Body) -> Node | None:
        if body.function is not None:
            return body.function.body
        if body.unit.macro:
            function = body.unit.source.root.named_children[0]
            return function.child_by_field_name("body")
        return body.declaration


def _generic(function: Function) -> bool:
    return function.returns in ("auto", "")


def _fix(bodies: list[Body], needed: set[str]) -> None:
    """Mark the initial values that the compiler must know because what they name is used where it must."""
    for body in bodies:
        for statement in body.statements:
            if statement.kind != "declaration":
                continue
            for variable in statement.declares:
                used = variable.name in needed and "const" in variable.type.split()
                if used and variable.value is not None:
                    for one in statement.expressions:
                        if variable.value.start_byte <= one.start and one.end <= variable.value.end_byte:
                            _fixed(one)


def _fixed(whole: Expression) -> None:
    for one in whole.under():
        one.fixed = True
