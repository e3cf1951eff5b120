"""What an expression is for, told from where it stands; never from what anything is called."""

from __future__ import annotations

from collections.abc import Mapping

from wmmadiag.diagnose.operators.cuda_names import ARGUMENTS, Order
from wmmadiag.diagnose.operators.model import Expression, Statement

ROLES = (
    "accumulation", "argument", "array", "assembly operand", "compared", "condition", "constant", "coordinate",
    "copied bytes", "count", "denominator", "dimension", "divisor", "extent", "factor", "fragment", "immediate",
    "index", "initial value", "layout", "leading dimension", "loop bound", "loop start", "loop step", "mask", "object",
    "offset", "pitch", "pointer", "shuffle", "target", "template argument", "term", "value",
)  # fmt: skip
"""All roles of expressions."""

_ORDERINGS = frozenset({"<", ">", "<=", ">=", "==", "!="})
_DIVISIONS = frozenset({"/", "%", ">>", "<<", "&"})
# Within these, a factor that is the same for all threads is a pitch.
_PLACES = frozenset({"index", "offset", "coordinate", "loop start"})


def assign(statement: Statement, orders: Mapping[str, Order]) -> None:
    """Give every expression of a statement its role, and the statement its own."""
    statement.role = _statement(statement)
    for one in statement.expressions:
        _whole(one, statement, orders)


def _statement(one: Statement) -> str:
    if one.order is not None:
        return one.order
    if one.kind == "expression" and one.expressions:
        first = one.expressions[0]
        if first.kind == "assignment":
            return "accumulation" if first.operator != "=" else "assignment"
        return "call" if first.kind == "call" else "assembly" if first.kind == "assembly" else "statement"
    return {"if": "branch", "loop": "loop"}.get(one.kind, one.kind)


def _whole(one: Expression, statement: Statement, orders: Mapping[str, Order]) -> None:
    if one is statement.condition:
        _descend(one, "loop bound" if statement.kind == "loop" else "condition", orders)
    elif statement.kind == "loop":
        before = statement.condition is None or one.start < statement.condition.start
        _descend(one, "loop start" if before else "loop step", orders)
    elif one.fixed:
        _descend(one, "constant" if _initial(one, statement) else "template argument", orders)
    elif statement.kind == "declaration" or statement.kind == "return":
        _descend(one, _of_type(one), orders)
    else:
        _descend(one, "value", orders)


def _initial(one: Expression, statement: Statement) -> bool:
    """Whether it is what a constant is; else it is a size or a template's argument."""
    if not statement.declares:
        return bool(statement.unit.macro) or statement.node.type == "enumerator"
    values = [variable.value for variable in statement.declares if variable.value is not None]
    return any(value.start_byte <= one.start and one.end <= value.end_byte for value in values)


def _of_type(one: Expression) -> str:
    if one.type.address:
        return "pointer"
    if one.type.kind == "bool":
        return "condition"
    if one.type.kind == "integer":
        return "extent" if one.varying is False else "coordinate"
    number = one.kind == "unary" and one.operands[0].kind == "literal"
    return "initial value" if one.atom or number else "value"


def _descend(one: Expression, role: str, orders: Mapping[str, Order]) -> None:  # noqa: C901 - one row a kind
    one.role = role
    if one.kind == "binary":
        _binary(one, role, orders)
    elif one.kind == "subscript":
        for number, part in enumerate(one.operands):
            _descend(part, "index" if number else "array", orders)
    elif one.kind == "call":
        _call(one, role, orders)
    elif one.kind == "assignment":
        _descend(one.operands[0], "target", orders)
        for part in one.operands[1:]:
            follows = role if role in ("loop step", "loop start") else _of_value(part, one)
            _descend(part, follows, orders)
    elif one.kind == "conditional" and len(one.operands) == 3:
        for number, part in enumerate(one.operands):
            _descend(part, role if number else "condition", orders)
    elif one.kind == "member":
        _descend(one.operands[0], "object", orders)
    elif one.kind == "unary" and one.operator in ("&", "*"):
        _descend(one.operands[0], "pointer", orders)
    elif one.kind == "list":
        for part in one.operands:
            _descend(part, _of_type(part) if not part.fixed else role, orders)
    elif one.kind == "assembly":
        for part in one.operands:
            _descend(part, "immediate" if part.fixed else "assembly operand", orders)
    else:
        for part in one.operands:
            _descend(part, role, orders)


def _of_value(part: Expression, assignment: Expression) -> str:
    if assignment.operator != "=" and not part.type.whole and not part.type.address:
        return "factor" if assignment.operator in ("*=", "/=") else "term"
    kind = _of_type(part)
    return "value" if kind == "initial value" else kind


def _binary(one: Expression, role: str, orders: Mapping[str, Order]) -> None:
    left, right = one.operands
    if one.operator in ("&&", "||"):
        _descend(left, role, orders)
        _descend(right, role, orders)
    elif one.operator in _ORDERINGS:
        limit = "loop bound" if role == "loop bound" else "bound"
        for part, other in ((left, right), (right, left)):
            ends = limit == "loop bound" and _counter(other) and not _counter(part)
            _descend(part, limit if part.varying is False or ends else "compared", orders)
    elif one.type.address:
        for part in (left, right):
            _descend(part, "pointer" if part.type.address else "offset", orders)
    elif one.type.kind in ("float", "half"):
        inner = {"*": ("factor", "factor"), "/": (role, "denominator")}.get(one.operator, ("term", "term"))
        _descend(left, inner[0], orders)
        _descend(right, inner[1], orders)
    elif one.operator in _DIVISIONS and not one.fixed:
        _descend(left, role, orders)
        _descend(right, "divisor", orders)
    else:
        for part, other in ((left, right), (right, left)):
            pitch = one.operator == "*" and role in _PLACES and part.varying is False and other.varying is not False
            _descend(part, "pitch" if pitch else role, orders)


def _counter(one: Expression) -> bool:
    """Whether it is what the head of its own loop declares."""
    return one.kind == "name" and one.text in {variable.name for variable in one.statement.declares}


def _call(one: Expression, role: str, orders: Mapping[str, Order]) -> None:
    if one.receiver is not None:
        _descend(one.receiver, "object", orders)
    listed = ARGUMENTS.get(one.operator, ())
    for number, part in enumerate(one.operands):
        named = listed[number] if number < len(listed) else ""
        if one.operator in orders and not named:
            named = "count"
        if not named:
            # What a function of one argument, or min and max, is given is for what its result is for.
            named = (
                role if one.operator in ("min", "max") or (len(one.operands) == 1 and part.type.same(one.type)) else ""
            )
        _descend(part, named or ("pointer" if part.type.address else "argument"), orders)
