"""A statement once more, for another name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from wmmadiag.diagnose.operators.candidates import names_for
from wmmadiag.diagnose.operators.making import Draft, inserted_after
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator
from wmmadiag.diagnose.operators.renaming import difference, with_parts

_MOST_NAMES = 5
_LONGEST = 200
_NAME = re.compile(r"[A-Za-z_]\w*")


@operator
def again(program: Program) -> Iterator[Draft]:
    """A copy after an assignment or call, for another name of the type of what it changes, and with what is called
    alike renamed alike."""
    for one in program.statements:
        target = _changed(one)
        if target is None or not one.braced or one.end - one.start > _LONGEST:
            continue
        scope = program.names_at(one.unit, one.start)
        there = {other.text for other in one.block}
        for atom in names_for(program, target, _MOST_NAMES):
            for parts in ({target.text: atom.text}, difference(target.text, atom.text)):
                text = _NAME.sub(lambda found: _renamed(found[0], parts, scope), one.text)  # noqa: B023
                for made in (text, *_less(one, text)):
                    if made not in there:
                        there.add(made)
                        yield inserted_after(one, made, made, one.role)


def _less(one: Statement, text: str) -> Iterator[str]:
    """A step of a pointer with one factor less: what it goes through may have fewer dimensions."""
    whole = one.expressions[0]
    if whole.operator == "+=" and whole.operands[0].type.kind == "pointer":
        parts = text.removesuffix(";").split(" * ")
        yield from (" * ".join([*parts[:at], *parts[at + 1 :]]) + ";" for at in range(1, len(parts)))


def _renamed(name: str, parts: Mapping[str, str], scope: Mapping[str, object]) -> str:
    made = with_parts(name, parts)
    return made if made in scope or name in parts else name


def _changed(one: Statement) -> Expression | None:
    """The variable that a statement changes, or an element of it."""
    whole = one.expression
    if whole is None or one.order is not None or whole.kind not in ("assignment", "call") or not whole.operands:
        return None
    target = whole.operands[0]
    while target.kind in ("subscript", "member") or (target.kind == "unary" and target.operator in ("&", "*")):
        target = target.operands[0]
    return target if target.kind == "name" and target.type.kind not in ("unknown", "function") else None
