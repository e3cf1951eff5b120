"""Another function of its kind."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from wmmadiag.csource import precedence
from wmmadiag.csource.nodes import field
from wmmadiag.diagnose.operators.cuda_names import ENUMERATORS, of_its_kind
from wmmadiag.diagnose.operators.making import Draft, Text, replaced, statement_replaced
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

Signature: TypeAlias = tuple[str, tuple[tuple[str, int], ...]]
"""What a function gives, and types and levels of pointers of what it takes."""
_MOST_ALIKE, _MOST_PAIRS = 4, 6
_NUMBERS = re.compile(r"\d+")
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


@operator
def sibling_function(program: Program) -> Iterator[Draft]:
    """A function or macro whose name differs in one part and which takes as many arguments, or a function that takes
    and gives the same types."""
    known = Callables(program)
    for one in program.expressions:
        if one.kind != "call" or not one.operator or one.fixed:
            continue
        for other in known.siblings(one):
            text = renamed_call(one, other)
            if text is not None:
                yield _called(program, one, text, f"{other} for {one.operator}")


@operator
def sibling_and_exchange(program: Program) -> Iterator[Draft]:
    """A function or macro whose name differs in one part, and two alike of what it takes exchanged: what another order
    of a matrix's elements takes."""
    known = Callables(program)
    for one in program.expressions:
        if one.kind != "call" or not one.operator or one.fixed:
            continue
        pairs = [pair for pair in itertools.combinations(one.operands, 2) if _differ_in_numbers(*pair)][:_MOST_PAIRS]
        for other in known.siblings(one) if pairs else ():
            for pair in pairs:
                text = renamed_call(one, other, pair)
                if text is not None:
                    note = f"{other} for {one.operator}, {pair[0].text} and {pair[1].text} exchanged"
                    yield _called(program, one, text, note)


def _called(program: Program, one: Expression, text: Text, note: str) -> Draft:
    # A macro that stands alone may be a statement, which no expression holds.
    alone = one.parent is None and one.statement.kind == "expression" and one.operator in program.macros
    return statement_replaced(one.statement, f"{text.text};", note, one.role) if alone else replaced(one, text, note)


def _differ_in_numbers(one: Expression, other: Expression) -> bool:
    """Whether two are the same but for a number, as `r[0]` and `r[1]` are."""
    same = _NUMBERS.sub("", one.text) == _NUMBERS.sub("", other.text)
    return same and one.text != other.text and one.kind == other.kind == "subscript"


@operator
def sibling_enumerator(program: Program) -> Iterator[Draft]:
    """`mem_col_major` for `mem_row_major`: an enumerator for another one of its set."""
    for one in program.expressions:
        scope, _, plain = one.text.rpartition("::")
        if one.kind != "name" or one.type.kind not in ("enum", "unknown", "integer"):
            continue
        for listed in (*ENUMERATORS, program.reader.enumeration(one.text)[1:]):
            for other in listed if plain in listed else ():
                if other != plain:
                    yield replaced(one, Text(f"{scope}::{other}" if scope else other))


class Callables:
    """The functions and macros of a program, and the siblings of each."""

    def __init__(self, program: Program) -> None:
        self._arity: dict[str, set[int]] = {}
        for name, functions in program.functions.items():
            self._arity[name] = {len(one.parameters) for one in functions if not one.kernel}
        for name, macro in program.macros.items():
            if macro.parameters is not None:
                self._arity[name] = {len(macro.parameters)}
        self._parts = {name: _PARTS.findall(name) for name in self._arity}
        self._signatures: dict[Signature, dict[str, None]] = defaultdict(dict)
        self._signature: dict[str, Signature] = {}
        for name, functions in program.functions.items():
            if len(functions) == 1 and functions[0].device and not functions[0].kernel and not functions[0].template:
                taken = tuple((each.type, each.pointers) for each in functions[0].parameters)
                of = functions[0].returns, taken
                self._signature[name] = of
                self._signatures[of][name] = None

    def siblings(self, call: Expression) -> Iterator[str]:
        """The names of what might be called in place of what a call calls."""
        name = call.operator
        yield from of_its_kind(name)
        own = _PARTS.findall(name)
        if name not in self._arity:
            return
        for other, parts in self._parts.items():
            if other != name and len(call.operands) in self._arity[other] and _near(own, parts):
                yield other
        alike = self._signatures[self._signature[name]] if name in self._signature else {}
        yield from [other for other in alike if other != name and not _near(own, self._parts[other])][:_MOST_ALIKE]


def renamed_call(one: Expression, other: str, exchanged: Sequence[Expression] = ()) -> Text | None:
    """A call with the plain name of what it calls changed, and two of what it takes exchanged."""
    name = _name_node(one)
    if name is None:
        return None
    swaps = zip(exchanged, exchanged[::-1], strict=True)
    parts = [(*name, other), *((old.start, old.end, new.text) for old, new in swaps)]
    text, position = "", one.start
    for start, end, new in sorted(parts):
        text += f"{one.unit.source.slice(position, start)}{new}"
        position = end
    text += one.unit.source.slice(position, one.end)
    return Text(" ".join(text.split()), precedence.POSTFIX)


def _near(own: list[str], other: list[str]) -> bool:
    """Whether two names differ in one part, or one of them has one part more, or letters at its end."""
    if len(own) == len(other):
        return sum(a != b for a, b in zip(own, other, strict=True)) == 1 and len(own) > 1
    shorter, longer = sorted((own, other), key=len)
    if len(longer) == len(shorter) + 1:
        return any(longer[:at] + longer[at + 1 :] == shorter for at in range(len(longer)))
    return False


def _name_node(one: Expression) -> tuple[int, int] | None:
    """Where the plain name of what is called stands."""
    function = field(one.node, "function")
    while function is not None and function.type in (
        "qualified_identifier",
        "template_function",
        "field_expression",
        "template_method",
    ):
        function = field(function, "field" if function.type == "field_expression" else "name")
    return (function.start_byte, function.end_byte) if function is not None else None
