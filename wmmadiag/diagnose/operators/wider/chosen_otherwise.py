"""Another value where a flag says so."""

from __future__ import annotations

import re
from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.candidates import names_for
from wmmadiag.diagnose.operators.making import Draft, Text, replaced, text_of, wrapped
from wmmadiag.diagnose.operators.model import Body, Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator

_MOST_FLAGS, _MOST_NAMES = 2, 3


@operator
def chosen_otherwise(program: Program) -> Iterator[Draft]:
    """`c ? p[i] : q[i]` and `c ? q[i] : p[i]` for a value or address `p[i]` that is assigned or given to a call, with
    another name `q` and a flag or a condition `c` that is the same for all threads of a block."""
    pool = pools(program)
    for body in program.bodies:
        flags = list(_flags(body))
        for whole in _values(body) if flags else ():
            known = [one for one in flags if pool.visible(one, whole) and one.text not in whole.text][:_MOST_FLAGS]
            parts = {one.text: one for one in whole.under() if not one.assigned
                     and (one.kind in ("name", "member") or (one is whole and one.kind == "literal"))}  # fmt: skip
            for text, one in parts.items() if known else ():
                for atom in names_for(program, one, _most(one, whole)):
                    other = re.sub(rf"(?<![\w.>]){re.escape(text)}\b", atom.text, whole.text)
                    for flag in known if other != whole.text else ():
                        held = wrapped(text_of(flag), precedence.CONDITIONAL + 1)
                        for first, then in ((whole.text, other), (other, whole.text)):
                            note = f"{atom.text} for {text} where {'not ' if then is other else ''}{flag.text}"
                            yield replaced(whole, Text(f"{held} ? {first} : {then}", precedence.CONDITIONAL), note)


def _most(one: Expression, whole: Expression) -> int:
    """How many names are tried for a part of a value: most for all of it, fewest for one of its whole numbers."""
    return _MOST_NAMES if one is whole else 1 if one.type.whole else _MOST_NAMES - 1


def _flags(body: Body) -> Iterator[Expression]:
    """What is asked of the whole block: conditions of branches, and variables that hold one."""
    found: dict[str, Expression] = {}
    for statement in body.statements:
        condition = statement.condition if statement.kind == "if" else None
        held = [condition] if condition is not None else []
        held += [one for one in statement.own_parts()
                 if one.kind == "name" and one.type.kind == "bool"]  # fmt: skip
        for one in held:
            while one.kind == "unary" and one.operator == "!":
                one = one.operands[0]
            if not any(part.varying for part in one.under() if part.kind == "name" and part.type.kind != "bool"):
                found.setdefault(one.text, one)
    yield from found.values()


def _values(body: Body) -> Iterator[Expression]:
    for statement in body.statements:
        for whole in statement.expressions:
            held = [whole] if statement.kind in ("declaration", "return") else []
            if whole.kind == "assignment":
                held = whole.operands[1:]
            elif whole.kind == "call":
                held += [one for one in whole.operands if one.type.address]
            for one in held:
                usual = (one.type.address or one.type.arithmetic) and one.kind not in ("list", "conditional")
                if usual and not one.fixed:
                    yield one
