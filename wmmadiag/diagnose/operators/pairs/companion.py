"""What is done to one of two that are set together, done to the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from wmmadiag.diagnose.operators.making import Draft, inserted_after, inserted_before
from wmmadiag.diagnose.operators.model import Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator
from wmmadiag.diagnose.operators.shapes import Shapes, renamed, renaming, shapes

_MOST = 3


@operator
def companion(program: Program) -> Iterator[Draft]:
    """`id[i] = id[j];` beside `d[i] = d[j];`, where `d[k] = x; id[k] = y;` stands elsewhere."""
    known = shapes(program)
    learned = _learned(program, known)
    for one in program.statements:
        tokens = known.tokens(one)
        if one.kind != "expression" or not one.braced or not tokens:
            continue
        scope = program.names_at(one.unit, one.end)
        for names, first in learned.get(tokens[0].text, ())[:_MOST]:
            own = {token.text for token in tokens if token.kind == "name"}
            set_beside = {known.tokens(other)[0].text for other in one.block if known.tokens(other)}
            if names[tokens[0].text] in set_beside or not all(names[name] in scope for name in own & names.keys()):
                continue
            text = renamed(one, tokens, names)
            make = inserted_after if first else inserted_before
            yield make(one, text, f"{text[:50]} beside this line", one.role)


def _learned(program: Program, known: Shapes) -> Mapping[str, list[tuple[dict[str, str], bool]]]:
    """By what a statement sets: what its neighbour of the same shape has for its names, and whether that follows."""
    found: dict[str, list[tuple[dict[str, str], bool]]] = defaultdict(list)
    for one in program.statements:
        if one.kind != "expression" or one.index + 1 >= len(one.block):
            continue
        other = one.block[one.index + 1]
        for names, target, first in (_between(known, one, other, True), _between(known, other, one, False)):
            if names and (names, first) not in found[target]:
                found[target].append((names, first))
    return found


def _between(known: Shapes, one: Statement, other: Statement, first: bool) -> tuple[dict[str, str], str, bool]:
    """What differs between two statements of one shape that set different things."""
    some, others = known.tokens(one), known.tokens(other)
    if not some or len(some) != len(others) or other not in known.like(one):
        return {}, "", first
    names = renaming(some, others) or {}
    target = some[0].text
    sets_other = some[0].kind == others[0].kind == "name" and names.get(target, target) != target
    changed = {name: new for name, new in names.items() if name != new}
    return (changed, target, first) if sets_other else ({}, "", first)
