"""A term that every round of a loop adds, added once behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.making import Draft, Text, binary, in_place_of, indent, text_of
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator


@operator
def added_once(program: Program) -> Iterator[Draft]:
    """`x += b;` behind a loop over `i`, and `x += a[i]` for `x += a[i] + b` in it, where no round changes `b`."""
    for statement in program.statements:
        whole = statement.expression
        if whole is None or whole.kind != "assignment" or whole.operator != "+=" or not statement.loops:
            continue
        loop = statement.loops[-1]
        if not loop.braced or loop.unit.macro or loop.unit is not statement.unit:
            continue
        target, value = whole.operands
        changing = _changed_by(program, loop) - {target.text}
        held = sums.terms(value)
        if len(held) < 2 or target.names & changing:
            continue
        for term in held:
            if not term.negative and not term.expression.names & (changing | target.names):
                yield _once(loop, target, value, term.expression, [one for one in held if one is not term])


def _once(
    loop: Statement, target: Expression, value: Expression, term: Expression, rest: Sequence[sums.Summand]
) -> Draft:
    left = text_of(rest[0].expression)
    if rest[0].negative:
        left = binary(Text("0"), "-", left)
    for one in rest[1:]:
        left = binary(left, "-" if one.negative else "+", text_of(one.expression))
    behind = loop.unit.edit(loop.end, loop.end, f"\n{indent(loop)}{target.text} += {term.text};")
    note = f"{target.text} += {term.text}; once, behind the loop"
    return Draft((in_place_of(value, left), behind), "static" if value.fixed else "statement", "accumulation", note)


def _changed_by(program: Program, loop: Statement) -> set[str]:
    """The names that a loop declares or assigns to."""
    inside = [one for one in program.statements if one is loop or loop in one.loops]
    declared = {variable.name for one in inside for variable in one.declares}
    within = [one for one in program.expressions if one.unit is loop.unit and loop.start <= one.start < loop.end]
    return declared | {name for one in within if one.assigned for name in one.names}
