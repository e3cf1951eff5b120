"""Arguments exchanged, and one of them passed twice."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from wmmadiag.diagnose.operators.making import Draft, several, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator


@operator
def arguments(program: Program) -> Iterator[Draft]:
    """Two arguments of a call that are of one type exchanged; two operands of inline assembly, and of those that it has
    several times all."""
    for one in program.expressions:
        if one.kind not in ("call", "assembly"):
            continue
        pairs = itertools.combinations(one.operands, 2) if one.kind == "call" else itertools.pairwise(one.operands)
        for first, second in pairs:
            both = {first.type.kind, second.type.kind}
            fragments = both == {"fragment"}
            if first.text == second.text or not (
                fragments or (first.type.takes(second.type) and second.type.takes(first.type))
            ):
                continue
            static = fragments and not first.type.same(second.type)
            note = f"{first.text} and {second.text} exchanged"
            yield several([(first, text_of(second)), (second, text_of(first))], note, static=static)
        if one.kind == "assembly":
            yield from _everywhere(one)


def _everywhere(one: Expression) -> Iterator[Draft]:
    """Two operands exchanged wherever they stand, where one stands more than once: rows of a tile with the others."""
    places: dict[str, list[Expression]] = {}
    for operand in one.operands:
        places.setdefault(operand.text, []).append(operand)
    for first, second in itertools.combinations(places.values(), 2):
        if len(first) + len(second) > 2 and first[0].type.takes(second[0].type):
            held = [(part, text_of(second[0])) for part in first] + [(part, text_of(first[0])) for part in second]
            pairs = sorted(held, key=lambda pair: pair[0].start)
            yield several(pairs, f"{first[0].text} and {second[0].text} exchanged wherever they stand")


@operator
def argument_again(program: Program) -> Iterator[Draft]:
    """`f(a, b, a)` for `f(a, b, c)`: an argument of the same type that the call has already; no number."""
    for one in program.expressions:
        if one.kind != "call":
            continue
        for first, second in itertools.permutations(one.operands, 2):
            alike = first.type.kind != "integer" and first.type.same(second.type) and first.text != second.text
            if alike and not first.assigned and not first.fixed:
                yield several([(first, text_of(second))], f"{second.text} for {first.text}, as beside it")
