"""A condition more."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators.comparisons import comparisons, coordinates_in, guarded_by, varying_names
from wmmadiag.diagnose.operators.making import Draft, binary, replaced, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator


@operator
def conjunct(program: Program) -> Iterator[Draft]:
    """`c && d` for a condition `c`, where `d` stands elsewhere or holds a coordinate of what is guarded to a bound."""
    known = comparisons(program)
    for one in program.expressions:
        if not _whole_condition(one):
            continue
        guarded = guarded_by(one)
        names = frozenset(name for part in guarded for name in varying_names(part)) | varying_names(one)
        for other in known.donors(one, names):
            yield replaced(one, binary(text_of(one), "&&", other), f"and {other.text}")
            yield replaced(one, binary(text_of(one), "||", other), f"or {other.text}")
        for other in known.built(one, coordinates_in(guarded)):
            if other.text not in one.text:
                yield replaced(one, binary(text_of(one), "&&", other), f"and {other.text}")
                if other.operator in (">", "&&"):
                    yield replaced(one, binary(text_of(one), "||", other), f"or {other.text}")


def _whole_condition(one: Expression) -> bool:
    if one.role != "condition" or one.type.kind not in ("bool", "integer") or one.fixed:
        return False
    around = one.parent
    return around is None or (around.kind == "conditional" and one.number == 0)
