"""One of several statements in a row that do the same for different names, made as the others are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from wmmadiag.diagnose.operators.making import Draft, Text, replaced
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_FARTHEST = 3
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|_+")
_NAME = re.compile(r"[A-Za-z_]\w*")


@operator
def rows(program: Program) -> Iterator[Draft]:
    """The value that `x = p.x + b * p.x_pitch` has beside it, with its names, for the value in `y = p.y`."""
    members = {member.name for record in program.reader.types.records.values() for member in record.members}
    for one in program.statements:
        own = _made(one)
        if own is None or not one.braced:
            continue
        name, value = own
        known = {*program.names_at(one.unit, one.start), *members}
        for other in one.block[max(0, one.index - _FARTHEST) : one.index + 1 + _FARTHEST]:
            its = _made(other) if other is not one else None
            if its is None or not value.type.takes(its[1].type):
                continue
            parts = _difference(its[0], name)
            text = _with(its[1].text, parts, known)
            if text != its[1].text and text != value.text:
                line = other.unit.source.place(other.node).line
                yield replaced(value, Text(text, its[1].level), f"{text}, as in line {line}")


def _made(one: Statement) -> tuple[str, Expression] | None:
    """The name that a statement gives a value, and the value."""
    if one.kind == "declaration" and len(one.declares) == 1 and len(one.expressions) == 1:
        held = one.expressions[0]
        return (one.declares[0].name, held) if one.declares[0].value is not None and not held.fixed else None
    whole = one.expressions[0] if one.kind == "expression" and one.expressions else None
    if whole is None or whole.kind != "assignment" or whole.operator != "=" or whole.operands[0].kind != "name":
        return None
    return whole.operands[0].text, whole.operands[1]


def _difference(one: str, other: str) -> dict[str, str]:
    """Which parts of one name are otherwise in another one: all of both where they have none in common."""
    first, second = _PART.findall(one), _PART.findall(other)
    if len(first) != len(second) or not {part for part in first if part != "_"} & set(second):
        return {one: other}
    return {a: b for a, b in zip(first, second, strict=True) if a != b}


def _with(text: str, parts: Mapping[str, str], known: set[str]) -> str:
    return _NAME.sub(lambda found: _renamed(found[0], parts, known), text)


def _renamed(name: str, parts: Mapping[str, str], known: set[str]) -> str:
    """A name with its parts renamed, where there is one of that name."""
    made = parts.get(name) or "".join(_cased(part, parts) for part in _PART.findall(name))
    return made if made in known else name


def _cased(part: str, parts: Mapping[str, str]) -> str:
    if part in parts:
        return parts[part]
    for old, new in parts.items():
        if part.lower() == old.lower():
            return new.upper() if part.isupper() else new.lower() if part.islower() else new.capitalize()
    return part
