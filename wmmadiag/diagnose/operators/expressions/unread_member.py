"""The member of a vector that nothing reads."""

from __future__ import annotations

import re
from collections.abc import Iterator

from wmmadiag.diagnose.operators.making import Draft, Text, binary, replaced, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_BESIDE = {"x": "y", "y": "x", "z": "w", "w": "z"}


@operator
def unread_member(program: Program) -> Iterator[Draft]:
    """`v.x * v.x + v.y * v.y` for `v.x * v.x`, where nothing reads the `y` of a local vector `v`."""
    read: dict[int, set[str]] = {}
    places: list[tuple[int, Expression]] = []
    whole: set[int] = set()
    for one in program.all_expressions():
        held = program.names_at(one.unit, one.start).get(one.text) if one.kind == "name" else None
        if held is None or held.kind != "local":
            continue
        around = one.parent
        if around is not None and around.kind == "member" and around.operator in _BESIDE:
            if not around.assigned:
                read.setdefault(held.declarator.id, set()).add(around.operator)
                places.append((held.declarator.id, around))
        else:
            whole.add(held.declarator.id)
    for key, member in places:
        other = _BESIDE[member.operator]
        if key not in whole and other not in read[key]:
            value = _highest(member)
            if value is not None and program.may_be_changed(value):
                text = re.sub(rf"\b{re.escape(member.text)}\b", f"{member.operands[0].text}.{other}", value.text)
                term = Text(text, value.level, value.operator)
                yield replaced(value, binary(text_of(value), "+", term), f"plus {text}")


def _highest(one: Expression) -> Expression | None:
    """The whole value that a member is a factor or an argument of."""
    while one.parent is not None and one.parent.type.kind in ("float", "half") and one.parent.kind != "assignment":
        one = one.parent
    return one if one.type.kind in ("float", "half") and not one.assigned and not one.fixed else None
