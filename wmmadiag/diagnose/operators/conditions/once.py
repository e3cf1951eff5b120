"""A statement of a loop in its first round only, or its last one."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators.making import Draft, statement_replaced
from wmmadiag.diagnose.operators.model import Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_LONGEST = 400
_BELOW = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "!=": "=="}


@operator
def once(program: Program) -> Iterator[Draft]:
    """`if (i == a) …` and `if (i + s >= n) …` for a call, assignment or loop within `for (int i = a; i < n; i += s)`;
    a barrier aside, which all threads must come to."""
    for one in program.statements:
        if one.kind not in ("expression", "loop") or one.order is not None or one.end - one.start > _LONGEST:
            continue
        for around in one.loops:
            for condition in _rounds(around):
                text = f"if ({condition}) {one.unit.source.slice(one.start, one.end)}"
                yield statement_replaced(one, text, f"if {condition}", "guard")


def _rounds(loop: Statement) -> Iterator[str]:
    """What is true in a loop's first round alone, and in its last one."""
    if len(loop.declares) != 1 or loop.condition is None or loop.condition.kind != "binary":
        return
    variable, condition, step = loop.declares[0], loop.condition, loop.expressions[-1]
    start = next((one for one in loop.expressions if _is(one.whole, variable.value)), None)
    if start is None or condition.operands[0].text != variable.name:
        return
    yield f"{variable.name} == {start.text}" if start.atom else f"{variable.name} == ({start.text})"
    ended = _BELOW.get(condition.operator)
    if ended is not None and condition.operator != "!=":
        bound = condition.operands[1].text
        if step.kind == "unary" and step.operator in ("++", "--"):
            yield f"{variable.name} {step.operator[0]} 1 {ended} {bound}"
        elif step.kind == "assignment" and step.operator in ("+=", "-=", "*="):
            yield f"{variable.name} {step.operator[0]} ({step.operands[1].text}) {ended} {bound}"


def _is(whole: tuple[int, int], value: object) -> bool:
    return value is not None and whole[0] == value.start_byte  # type: ignore[attr-defined]
