"""Step by the constant that the code has a name for, not by a number: to the other half, the next row, the next tile.

Bad:
    constexpr int half = D / 2;
    b = row[d + 1];

Good:
    constexpr int half = D / 2;
    b = row[d + half];
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import replaced
from wmmadiag.diagnose.edits.indices import integer_expressions
from wmmadiag.diagnose.edits.model import Edit
from wmmadiag.diagnose.edits.registry import View, generator, is_integer
from wmmadiag.diagnose.edits.terms import terms

_KIND = "named-steps"
_FAULTS = ("index-arithmetic", "tensor-strides", "stale-tile", "fragment-map", "loop-extent")
_NEAR = 6
"""Lines around, within which a constant must be used."""


@generator(_KIND, *_FAULTS, needs_lines=True)
def generate(view: View) -> Iterator[Edit]:
    """Each literal term of an index, as the constants that are used nearby."""
    model = view.model
    for piece in integer_expressions(view):
        found = terms(model, piece)
        for term in found if len(found) > 1 else ():
            if term.last - term.first != 1 or model.tokens[term.first].kind != "num":
                continue
            near = {t.text for t in model.tokens if t.kind == "id" and abs(t.line - term.line) <= _NEAR}
            for variable in model.visible(term.start):
                constant = variable.const and is_integer(variable) and not variable.dims and not variable.pointer
                if constant and variable.name in near and variable.name in _steady(view):
                    summary = f"{variable.name} in place of {term.text}"
                    change = replaced(term, variable.name)
                    yield from view.offer(_KIND, _FAULTS, term.line, summary, (change,), 0.05)


def _steady(view: View) -> frozenset[str]:
    """Names of constants: made of no index of a thread or block."""
    return frozenset(
        variable.name
        for variable in view.model.variables
        if variable.initial is not None and "Idx" not in variable.initial.text and "constexpr" in variable.type
    ) | frozenset(view.model.constants)
