"""One of two values, by the condition by which what belongs to it is chosen."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.candidates import names_for
from wmmadiag.diagnose.operators.making import Draft, Text, replaced, text_of, wrapped
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator
from wmmadiag.diagnose.operators.zeros import zero_of

_FARTHEST = 4
"""Statements after what a condition chose that may use it."""
_VALUES = frozenset({"integer", "byte", "float", "half"})


@operator
def chosen_alike(program: Program) -> Iterator[Draft]:
    """`f(c ? p : q, c ? n : 0)` for `f(c ? p : q, n)`, and the same where `c ? p : q` has a name."""
    for statement in program.statements:
        for one in statement.own_parts():
            if one.kind != "conditional" or len(one.operands) != 3:
                continue
            name, users = _users(statement, one)
            for user in users:
                for argument in _beside(user, one, name):
                    yield from _or_nought(program, argument, one.operands[0])


def _users(statement: Statement, one: Expression) -> tuple[str, list[Statement]]:
    """Where what a conditional gives is used: its name, and the statements after it; or its own statement."""
    if statement.kind == "declaration" and one.parent is None and len(statement.declares) == 1:
        name = statement.declares[0].name
        later = statement.block[statement.index + 1 : statement.index + 1 + _FARTHEST]
        return name, [each for each in later if any(name in whole.names for whole in each.expressions)]
    return "", [statement]


def _beside(user: Statement, one: Expression, name: str) -> Iterator[Expression]:
    """The values that a call takes besides what was chosen."""
    for call in user.own_parts():
        if call.kind != "call" or len(call.operands) < 2:
            continue
        chosen = [each for each in call.operands if (name in each.names if name else each is one)]
        yield from (each for each in call.operands if chosen and each not in chosen)


def _or_nought(program: Program, one: Expression, condition: Expression) -> Iterator[Draft]:
    usual = one.type.kind in _VALUES and not one.fixed and one.kind not in ("conditional", "list")
    if usual and pools(program).visible(condition, one) and (nought := zero_of(program, one)) not in (None, one.text):
        held = wrapped(text_of(condition), precedence.CONDITIONAL + 1)
        new = Text(f"{held} ? {one.text} : {nought}", precedence.CONDITIONAL)
        yield replaced(one, new, f"{nought} where not {condition.text}")


_MOST_NAMES, _MOST_CONDITIONS = 3, 2

_Guards = dict[tuple[str, bool], Expression]
"""The conditions around an expression, by their text and whether they hold there."""


@operator
def chosen_between(program: Program) -> Iterator[Draft]:
    """`c ? p[i] : q[i]` and `c ? p[i] : 0` for `p[i]`, where `p` is named behind `if (c)` or `c ?` alone elsewhere."""
    uses: dict[tuple[int, str], list[Expression]] = defaultdict(list)
    for one in program.all_expressions():
        if one.kind == "name" and (one.type.address or one.type.arithmetic) and not _asked(one):
            uses[id(one.statement.function), one.text].append(one)
    for listed in uses.values():
        guards = [_guards(one) for one in listed]
        for one, own in zip(listed, guards, strict=True):
            others = [each for each in zip(listed, guards, strict=True) if each[0].statement is not one.statement]
            before = [known for other, known in others if other.start < one.start]
            told = before or [known for _, known in others]
            common = [key for key in told[0] if key not in own and all(key in known for known in told)] if told else []
            for key in common[:_MOST_CONDITIONS]:
                yield from _chosen(program, one, told[0][key], holds=key[1])


def _chosen(program: Program, one: Expression, condition: Expression, *, holds: bool) -> Iterator[Draft]:
    whole = _value(one)
    asked = whole.role != "condition" and not whole.fixed and not whole.assigned
    if not asked or not pools(program).visible(condition, whole):
        return
    if one.text in condition.names and not one.type.address:
        return
    if condition.kind == "unary" and condition.operator == "!":
        condition, holds = condition.operands[0], not holds
    held = wrapped(text_of(condition), precedence.CONDITIONAL + 1)
    others = [re.sub(rf"\b{one.text}\b", atom.text, whole.text) for atom in names_for(program, one, _MOST_NAMES)]
    nought = zero_of(program, whole) if whole.type.arithmetic else None
    for other in dict.fromkeys((*others, *((nought,) if nought else ()))):
        first, then = (whole.text, other) if holds else (other, whole.text)
        note = f"{other} where {'not ' if holds else ''}{condition.text}"
        yield replaced(whole, Text(f"{held} ? {first} : {then}", precedence.CONDITIONAL), note)


def _asked(one: Expression) -> bool:
    """Whether it is part of a condition."""
    part = one
    while part.parent is not None:
        if part.parent.kind == "conditional" and not part.number:
            return True
        part = part.parent
    return part is one.statement.condition


def _value(one: Expression) -> Expression:
    """The largest number or address that an expression is a part of, one that a call or an assignment is given."""
    while one.parent is not None and (one.parent.type.address or one.parent.type.arithmetic):
        around = one.parent
        if around.kind in ("assignment", "call", "conditional", "list", "comma", "lambda"):
            break
        one = around
    return one


def _guards(one: Expression) -> _Guards:
    found: _Guards = {}
    part: Expression = one
    while part.parent is not None:
        if part.parent.kind == "conditional" and part.number:
            condition = part.parent.operands[0]
            found[condition.text, part.number == 1] = condition
        part = part.parent
    statement: Statement = one.statement
    while statement.parent is not None:
        around = statement.parent
        if around.kind == "if" and around.condition is not None and statement in around.children:
            found[around.condition.text, around.children.index(statement) == 0] = around.condition
        statement = around
    return found
