"""Drafts of changes, made from expressions and statements."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from wmmadiag.csource import precedence
from wmmadiag.diagnose.changes import Kind, TextEdit
from wmmadiag.diagnose.operators.model import Expression, Statement

_PRAGMA = re.compile(rb"[ \t]*(#[ \t]*pragma\b)")


@dataclass(frozen=True, slots=True)
class Draft:
    """A change before the operator's name is on it; the attributes are those of `Change`."""

    edits: tuple[TextEdit, ...]
    kind: Kind
    role: str
    note: str


@dataclass(frozen=True, slots=True)
class Text:
    """The text of an expression, with how tightly it binds and its outermost operator."""

    text: str
    level: int = precedence.PRIMARY
    operator: str = ""


def text_of(one: Expression) -> Text:
    """An expression's own text."""
    return Text(one.text, one.level, one.operator if one.kind == "binary" else "")


def binary(left: Text, operator: str, right: Text) -> Text:
    """Two expressions under an operator, with the parentheses that they need."""
    level = precedence.BINARY[operator]
    first = wrapped(left, precedence.operand(operator, right=False, of=left.operator))
    second = wrapped(right, precedence.operand(operator, right=True, of=right.operator))
    return Text(f"{first} {operator} {second}", level, operator)


def wrapped(one: Text, least: int) -> str:
    """A text that binds at least so tightly, in parentheses where it does not."""
    return one.text if one.level >= least else f"({one.text})"


def in_place_of(one: Expression, new: Text) -> TextEdit:
    """The edit that puts `new` where an expression stands; its parentheses go where none are needed, and what took
    their place binds tighter: whoever wrote `(a % b) * c` writes `(a / b) * c`."""
    bare = new.level >= one.needs(new.operator)
    start, end = one.whole if bare and new.level > one.level else (one.start, one.end)
    keeps = bare or one.whole != (one.start, one.end)
    return one.unit.edit(start, end, new.text if keeps else f"({new.text})")


def called(call: Expression, argument: Expression, new: Text) -> Text:
    """A call with another text in place of one of its arguments."""
    source = call.unit.source
    before, after = source.slice(call.start, argument.whole[0]), source.slice(argument.whole[1], call.end)
    return Text(f"{before}{new.text}{after}", precedence.POSTFIX)


def replaced(one: Expression, new: Text, note: str = "") -> Draft:
    """An expression replaced by another one of its type."""
    return several([(one, new)], note)


def several(pairs: Sequence[tuple[Expression, Text]], note: str = "", *, static: bool = False) -> Draft:
    """Several expressions replaced at once; a change is named by its first edit, which is the first one in the text."""
    if len({id(one.unit) for one, _ in pairs}) == 1:
        pairs = sorted(pairs, key=lambda pair: pair[0].start)
    first, new = pairs[0]
    fixed = static or any(one.fixed or one.output or one.unit.anywhere for one, _ in pairs)
    edits = tuple(in_place_of(one, text) for one, text in pairs)
    return Draft(edits, "static" if fixed else "expression", first.role, note or f"{new.text} for {first.text}")


def statement_replaced(one: Statement, text: str, note: str, role: str = "") -> Draft:
    """A statement that declares nothing, replaced by other text."""
    kind: Kind = "static" if one.fixed or one.declares else "statement"
    return Draft((one.unit.edit(one.start, one.end, text),), kind, role or one.role, note)


def inserted_before(one: Statement, text: str, note: str, role: str) -> Draft:
    """Statements put before another one, on a line of their own; and before the pragmas that are about it."""
    at = before_pragmas(one)
    edit = one.unit.edit(at, at, f"{text}\n{indent(one)}")
    return Draft((edit,), "static" if one.fixed else "insertion", role, note)


def before_pragmas(one: Statement) -> int:
    """Where a statement begins, or the first of the pragmas right before it, which are about it: `#pragma unroll`."""
    data, at = one.unit.source.data, one.start
    while True:
        line = data.rfind(b"\n", 0, at) + 1
        above = data.rfind(b"\n", 0, max(line - 1, 0)) + 1
        found = _PRAGMA.match(data, above, line) if line and not data[line:at].strip() else None
        if found is None:
            return at
        at = found.start(1)


def inserted_after(one: Statement, text: str, note: str, role: str) -> Draft:
    """Statements put after another one, on a line of their own."""
    edit = one.unit.edit(one.end, one.end, f"\n{indent(one)}{text}")
    return Draft((edit,), "static" if one.fixed else "insertion", role, note)


def put_after(one: Statement, text: str, note: str) -> Draft:
    """Statements put after another one, with braces around both where it stands alone."""
    if one.braced:
        return inserted_after(one, text, note, "initial value")
    return statement_replaced(one, f"{{ {one.source} {text} }}", note, "initial value")


def indent(one: Statement) -> str:
    """The blanks that a statement's line begins with."""
    source = one.unit.source
    line = source.data.rfind(b"\n", 0, one.start) + 1
    begin = source.data[line : one.start].decode("utf-8", "surrogateescape")
    return begin[: len(begin) - len(begin.lstrip())]
