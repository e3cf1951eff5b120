"""Arrays as a source declares them: `__shared__ half sK[64][72]`, and pointers into one buffer that is carved by hand.

A compiled kernel only knows that `sK` has 9,216 bytes. The tree knows what is declared, the compiler what it is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wmmadiag.compile.ask.answers import AddressFacts, TypeFacts, Unanswered
from wmmadiag.compile.ask.asking import AskingSession
from wmmadiag.compile.ask.layout import ClassLayout, layouts
from wmmadiag.compile.ask.questions import AddressOf, AskedSource, Question, TypeOf
from wmmadiag.compile.ask.scope import is_changed, scope_at
from wmmadiag.compile.names import template_arguments
from wmmadiag.csource.declarations import Function, declarations
from wmmadiag.csource.nodes import descendants
from wmmadiag.csource.tree import Source, parse
from wmmadiag.csource.variables import Variable, declared
from wmmadiag.errors import WmmadiagError

_ITEM_SIZES = (1, 2, 4, 8, 16)
_DEEPEST = 24
_LONGEST = 4000


@dataclass(frozen=True, slots=True)
class Elements:
    """How an array is indexed: bytes of an element, and its declared extents, outermost first (none: one object)."""

    item: int
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Carved:
    """A pointer into a buffer: `float* sS = (float*)(smem + 9216)`."""

    name: str  # of the pointer
    offset: int  # bytes from the buffer's start
    item: int  # bytes of what it points to


@dataclass(frozen=True, slots=True)
class ArrayMember:
    """An array, or a number, in a struct that lies in memory: its path, bytes from the start, and how it is indexed."""

    name: str
    offset: int
    elements: Elements


@dataclass(frozen=True, slots=True)
class _Declared:
    """A declaration of an array: what it declares, and where questions about it are asked."""

    source: Source
    function: Function | None
    variable: Variable
    arguments: tuple[str, ...]


@dataclass(slots=True)
class ArraySource:
    """The array declarations of some files."""

    texts: Mapping[str, str]  # file → text
    # the source that the compiler is asked about; None where there is none, and literal extents alone count
    asked: AskedSource | None = None
    _functions: dict[str, list[tuple[Source, Function]]] | None = field(default=None, init=False)
    _globals: dict[str, list[tuple[Source, Variable]]] = field(default_factory=dict, init=False)
    _answers: dict[Question, Any] = field(default_factory=dict, init=False)
    _layouts: dict[TypeOf, ClassLayout | Unanswered | None] = field(default_factory=dict, init=False)
    _session: AskingSession | None = field(default=None, init=False)

    def elements(self, name: str, function: str, size: int) -> Elements | None:
        """How an array of `size` bytes that a function declares is indexed; None when the source does not say.

        Args:
            name: of the array.
            function: that declares it, with template arguments ("attn<64>"); "" at namespace scope.
        """
        place = self._place(name, function)
        if place is None:
            return None
        plain = _literal(place, size)
        if plain is not None:
            return plain
        facts = self._facts(place)
        if facts is None or (facts.target_kind in ("class", "union") and not facts.extents):
            return None
        item = facts.target_size if facts.depth == 0 else 8
        if item <= 0:
            return None
        if facts.size == size:
            return Elements(item, facts.extents)
        # Another instantiation's size: its extents are not believed.
        return Elements(item, (size // item,)) if size % item == 0 and facts.extents else None

    def members(self, name: str, function: str, size: int) -> tuple[ArrayMember, ...]:
        """The arrays in a shared struct of `size` bytes; none when the source does not say where they lie."""
        place = self._place(name, function)
        if place is None or place.variable.dimensions or self.asked is None:
            return ()
        facts = self._facts(place)
        if facts is None or facts.target_kind not in ("class", "union") or facts.size != size:
            return ()
        root = self._question(place)
        if root not in self._layouts:
            try:
                self._layouts[root] = layouts(self.asked, [root])[root]
            except WmmadiagError:
                self._layouts[root] = None
        found = self._layouts[root]
        return tuple(_members(found, "", 0)) if isinstance(found, ClassLayout) else ()

    def carved(self, buffer: str, kernel: str, scalars: Mapping[int, int]) -> tuple[Carved, ...]:
        """Pointers of a kernel into a buffer, by offset; several may be at one offset.

        Args:
            kernel: its name with template arguments.
            scalars: integer arguments of the launch by position.
        """
        base, arguments = _split_name(kernel)
        for source, function in self._known().get(base, []):
            found = [one for one in _locals(source, function) if one.name == buffer]
            found += [one for _, one in self._globals.get(buffer, ())]
            if found and found[0].dimensions:
                return self._pointers(source, function, found[0], arguments, scalars)
        return ()

    def _known(self) -> dict[str, list[tuple[Source, Function]]]:
        if self._functions is None:
            self._functions = {}
            for file, text in self.texts.items():
                source = parse(text, file)
                found = declarations(source)
                for one in found.functions:
                    if one.body is not None:
                        self._functions.setdefault(one.name, []).append((source, one))
                for variable in found.variables:
                    self._globals.setdefault(variable.name, []).append((source, variable))
        return self._functions

    def _place(self, name: str, function: str) -> _Declared | None:
        base, arguments = _split_name(function)
        known = self._known()
        for source, one in known.get(base, []) if base else []:
            for variable in _locals(source, one):
                if variable.name == name and variable.words & {"__shared__", "__device__"}:
                    return _Declared(source, one, variable, arguments)
        for source, variable in self._globals.get(name, []):
            return _Declared(source, None, variable, ())
        return None

    def _question(self, place: _Declared) -> TypeOf:
        variable = place.variable
        bindings = _bindings(place.function, place.arguments)
        after = variable.node.next_sibling or variable.node
        return TypeOf(
            variable.name, scope_at(place.source, after, variable.name, bindings, every=True), expression=True
        )

    def _facts(self, place: _Declared) -> TypeFacts | None:
        """What an array is. Those of its function are asked about with it."""
        asked = self._question(place)
        if asked not in self._answers:
            others = [replace(place, variable=one) for one in _shared(place)]
            self._ask([asked, *(self._question(one) for one in others)])
        answer = self._answers.get(asked)
        return answer if isinstance(answer, TypeFacts) else None

    def _ask(self, questions: Sequence[Question]) -> None:
        if self.asked is None:
            return
        self._session = self._session or AskingSession(self.asked)
        try:
            self._answers |= self._session.ask(questions)
        except WmmadiagError:  # names are worth no error
            self._answers |= dict.fromkeys(questions)

    def _pointers(
        self, source: Source, function: Function, buffer: Variable, arguments: Sequence[str], scalars: Mapping[int, int]
    ) -> tuple[Carved, ...]:
        assert function.body is not None
        bindings = _bindings(function, arguments)
        fixed = {
            one.name: f"constexpr {one.type} {one.name} = {scalars[index]};"
            for index, one in enumerate(function.parameters)
            if index in scalars and not one.pointers and not is_changed(function.body, one.name)
        }
        by_name = _pointer_locals(source, function)
        # The one that a pointer begins at stands by itself, and so do the others.
        left_out = dict.fromkeys((*by_name, buffer.name), "")
        asked: dict[str, tuple[str, AddressOf]] = {}
        for name, one in by_name.items():
            text, base = _written_out(source, one, by_name, buffer.name, (name,))
            begins = buffer if base == buffer.name else by_name.get(base)
            if begins is None or len(text) > _LONGEST:
                continue
            kind = begins.type + "*" * (begins.pointers - (begins is not buffer))
            inner = begins.dimensions[1:] if begins is buffer else ()
            rest = "".join(f"[{source.words(extent)}]" for extent in inner if extent is not None)
            mentioned = " ".join([text, kind, rest])
            last = function.body.children[-1]
            scope = scope_at(source, last, mentioned, bindings, unchanged=True, fixed=fixed | left_out)
            asked[name] = base, AddressOf(text, f"{kind} {base}", rest, scope)
        self._ask([one for _, one in asked.values() if one not in self._answers])
        found = []
        for name in asked:
            facts = self._offset(name, buffer.name, asked)
            if facts is not None and facts.offset >= 0 and facts.facts.target_size > 0:
                found.append(Carved(name, facts.offset, facts.facts.target_size if facts.facts.depth == 1 else 8))
        return tuple(sorted(found, key=lambda one: one.offset))

    def _offset(self, name: str, buffer: str, asked: Mapping[str, tuple[str, AddressOf]]) -> AddressFacts | None:
        """Where a pointer points in the buffer: so far from the one that it begins at, and so on."""
        total, first = 0, None
        for _ in range(len(asked) + 1):
            if name == buffer:
                return None if first is None else replace(first, offset=total)
            base, question = asked.get(name, ("", None))
            facts = self._answers.get(question) if question is not None else None
            if not isinstance(facts, AddressFacts):
                return None
            first, total, name = first or facts, total + facts.offset, base
        return None


def _literal(place: _Declared, size: int) -> Elements | None:
    """An array whose extents are written as numbers: an element has what is left of its bytes."""
    extents = []
    for one in place.variable.dimensions:
        text = place.source.words(one) if one is not None else ""
        if not re.fullmatch(r"[1-9]\d*", text):
            return None
        extents.append(int(text))
    count = math.prod(extents)
    known = bool(extents) and size % count == 0 and size // count in _ITEM_SIZES
    return Elements(size // count, tuple(extents)) if known else None


def _members(layout: ClassLayout, path: str, offset: int) -> Iterator[ArrayMember]:
    for one in layout.fields:
        name = f"{path}.{one.name}" if path and one.name else path + one.name
        if one.layout is not None and not one.facts.extents:
            yield from _members(one.layout, name, offset + one.offset)
        elif one.facts.size:
            item = one.facts.size // math.prod(one.facts.extents or (1,))
            yield ArrayMember(name, offset + one.offset, Elements(item, one.facts.extents))


def _bindings(function: Function | None, arguments: Sequence[str]) -> dict[str, str]:
    names = [one.name for one in (function.template or ())] if function is not None else []
    return {name: text for name, text in zip(names, arguments, strict=False) if name}


def _locals(source: Source, function: Function) -> list[Variable]:
    assert function.body is not None
    return [one for node in descendants(function.body, "declaration") for one in declared(source, node)]


def _shared(place: _Declared) -> Iterator[Variable]:
    for one in _locals(place.source, place.function) if place.function is not None else ():
        if one.shared and one is not place.variable and one.node is not place.variable.node:
            yield one


def _pointer_locals(source: Source, function: Function) -> dict[str, Variable]:
    """The pointers of a function that keep the value that they are declared with."""
    assert function.body is not None
    found: dict[str, Variable] = {}
    twice: set[str] = set()
    for one in _locals(source, function):
        twice |= {one.name} & found.keys()
        if one.value is not None and not one.dimensions and (one.pointers or one.type == "auto"):
            found[one.name] = one
    return {
        name: one
        for name, one in found.items()
        if name not in twice and not is_changed(function.body, name, elements=False)
    }


def _written_out(
    source: Source, pointer: Variable, known: Mapping[str, Variable], buffer: str, seen: tuple[str, ...]
) -> tuple[str, str]:
    """A pointer's initial value, and the pointer or buffer that it begins at; ("", "") where that is not one.

    Where it begins at an `auto`, whose type nobody wrote, the value of that stands in its place.
    """
    value = pointer.value
    named = descendants(value, "identifier") if value is not None else ()
    bases = [one for one in named if source.text(one) in known or source.text(one) == buffer]
    if value is None or len(bases) != 1 or len(seen) > _DEEPEST:
        return "", ""
    base = source.text(bases[0])
    if base in seen:
        return "", ""
    text = source.code_text(value.start_byte, value.end_byte)
    if base != buffer and known[base].type == "auto":
        inner, begins = _written_out(source, known[base], known, buffer, (*seen, base))
        before = source.code_text(value.start_byte, bases[0].start_byte)
        text = f"{before}({inner}){source.code_text(bases[0].end_byte, value.end_byte)}"
        base = begins
    text = " ".join(text.split())
    return (text if pointer.type == "auto" else f"({pointer.type}{'*' * pointer.pointers})({text})"), base


def _split_name(name: str) -> tuple[str, tuple[str, ...]]:
    """Identifier and template arguments of "ns::attn<64, __half>"."""
    base = name.partition("<")[0].rpartition("::")[2]
    return base, template_arguments(name, base)
