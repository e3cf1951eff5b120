"""Which lanes a loop that doubles or halves its counter exchanges between."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.making import Draft, Text, several
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_WARP = 32
"""Threads of a warp (CUDA C++ Programming Guide, "Hardware Multithreading")."""
_STEPS = frozenset({("<<=", "1"), (">>=", "1"), ("*=", "2"), ("/=", "2")})


@operator
def steps_shifted(program: Program) -> Iterator[Draft]:
    """`for (m = 4; m < 32; m *= 2)` for `for (m = 1; m < 8; m *= 2)`, and back: both ends of a loop that doubles or
    halves its counter times the same power of two, within a warp's 32."""
    for loop in program.statements:
        held = _ends(loop) if loop.kind == "loop" and program.may_be_changed(loop) else None
        if held is None:
            continue
        first, end, limit = held
        # `m > 0` goes on to 1 as `m >= 1` does.
        start, stop = int(first.text), int(end.text) or 1
        for scale in (2, 4, 8, 16):
            if max(start, stop) * scale <= limit:
                yield _scaled(first, end, start * scale, stop * scale)
            if start % scale == 0 and stop % scale == 0:
                yield _scaled(first, end, start // scale, stop // scale)


def _scaled(first: Expression, end: Expression, start: int, stop: int) -> Draft:
    note = f"from {start} and to {stop} for from {first.text} and to {end.text}"
    condition = end.parent
    if end.text == "0" and condition is not None:
        text = Text(f"{condition.operands[0].text} >= {stop}", precedence.BINARY[">="], ">=")
        return several([(first, Text(str(start))), (condition, text)], note)
    return several([(first, Text(str(start))), (end, Text(str(stop)))], note)


def _ends(loop: Statement) -> tuple[Expression, Expression, int] | None:
    """The numbers that a counter begins with and is compared with, and the greatest that they may be."""
    condition = loop.condition
    if len(loop.declares) != 1 or condition is None or condition.kind != "binary" or len(condition.operands) != 2:
        return None
    counter, end = condition.operands
    name = loop.declares[0].name
    value = loop.declares[0].value
    first = next((one for one in loop.expressions if value is not None and one.whole[0] == value.start_byte), None)
    stepped = any(
        one.kind == "assignment" and one.operands[0].text == name and (one.operator, one.operands[1].text) in _STEPS
        for one in loop.expressions
    )
    if first is None or not stepped or counter.text != name or not (first.text.isdecimal() and end.text.isdecimal()):
        return None
    if condition.operator not in ("<", "<=", ">", ">=") or first.fixed or first.text == "0":
        return None
    return first, end, _WARP if condition.operator == "<" else _WARP // 2
