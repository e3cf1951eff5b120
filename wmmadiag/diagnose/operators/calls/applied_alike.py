"""A function applied as it is to what stands beside."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from wmmadiag.diagnose.operators.making import Draft, called, several, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator

_MOST = 8
_Place = tuple[object, ...]


@operator
def applied_alike(program: Program) -> Iterator[Draft]:
    """`f(x + 1, n)` for `x + 1`, where `f(x, n)` stands at the same place of another statement of the block; and for
    all that stand so at once."""
    calls: dict[_Place, dict[str, tuple[Expression, Expression]]] = defaultdict(dict)
    others: dict[_Place, list[Expression]] = defaultdict(list)
    for one in program.expressions:
        if one.fixed or one.assigned or one.type.kind in ("unknown", "void", "function") or not one.names:
            continue
        place = _place(one)
        if one.kind != "call":
            others[place].append(one)
        for argument in one.operands if one.kind == "call" and one.receiver is None else ():
            if one.type.takes(argument.type) and argument.names:
                calls[place].setdefault(one.text, (one, argument))
    for place, known in calls.items():
        for call, argument in known.values():
            held = [one for one in others[place] if argument.names & one.names and pools(program).visible(call, one)]
            pairs = [(one, called(call, argument, text_of(one))) for one in held if one.type.takes(call.type)][:_MOST]
            note = f"{call.operator} as at line {call.unit.source.place(call.node).line}"
            for pair in pairs:
                yield several([pair], note)
            if len(pairs) > 1:
                yield several(pairs, f"{note}, at {len(pairs)} places")


def _place(one: Expression) -> _Place:
    """Where an expression stands: its statement's block, and what is around it there."""
    around: list[object] = [id(one.statement.block), one.statement.kind]
    while one.parent is not None:
        base = one.parent.operands[0].text if one.parent.kind == "subscript" else ""
        around.append((one.parent.kind, one.parent.operator, one.number, base))
        one = one.parent
    return tuple(around)
