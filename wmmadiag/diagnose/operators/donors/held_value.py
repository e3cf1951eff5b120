"""What a value was kept in, or what was made of it, in place of the value read anew."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.making import Draft, Text, replaced
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_KINDS = frozenset({"subscript", "binary", "unary"})
_MOST = 3


@operator
def held_value(program: Program) -> Iterator[Draft]:
    """`x[i]` for `p[f(i)]` after `x[i] = p[f(i)];`, with a local `x`; `y` for `p[i]` after `float y = p[i] * s;`."""
    known: dict[tuple[int, str], list[tuple[str, frozenset[str], Expression]]] = defaultdict(list)
    for statement in program.statements:
        for text, names, value in _kept(statement):
            for part in value.under():
                if part is value or (part.kind == "subscript" and value.type.kind in ("float", "half")):
                    known[id(statement.function), part.text].append((text, names, part))
    for one in program.expressions:
        if one.kind not in _KINDS or one.fixed or one.assigned or not one.type.arithmetic:
            continue
        for text, names, part in known.get((id(one.statement.function), one.text), ())[:_MOST]:
            later = one.start > part.statement.end
            if later and _visible(program, names, part.statement, one) and part.type.takes(one.type):
                yield replaced(one, Text(text, precedence.POSTFIX), f"{text}, which {part.text} was kept in")


def _kept(statement: Statement) -> Iterator[tuple[str, frozenset[str], Expression]]:
    """What a statement keeps a value in, with the names in that, and the value."""
    for variable, value in statement.initial_values():
        if value.kind in _KINDS:
            yield variable.name, frozenset({variable.name}), value
    whole = statement.expression
    if whole is not None and whole.kind == "assignment" and whole.operator == "=" and len(whole.operands) == 2:
        target, value = whole.operands
        if target.kind == "subscript" and target.operands[0].kind == "name" and value.kind in _KINDS:
            held = statement.unit.scopes.at(target.start).get(target.operands[0].text)
            if held is not None and held.kind == "local" and not held.shared and held.dimensions:
                yield target.text, target.names, value


def _visible(program: Program, names: frozenset[str], kept: Statement, one: Expression) -> bool:
    """Whether names stand for the same at both places, or for the counters of loops around them."""
    here, there = program.names_at(one.unit, one.start), program.names_at(kept.unit, kept.end)
    counters = {variable.name for loop in one.statement.loops for variable in loop.declares}
    return all(
        name in here and (here[name] is there.get(name) or name in counters or name not in there) for name in names
    )
