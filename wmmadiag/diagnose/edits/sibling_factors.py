"""Multiply by what the sum beside it is multiplied by: a weight that one of two running sums lacks.

Bad:
    num += w * part[i];
    den += total[i];

Good:
    num += w * part[i];
    den += w * total[i];
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import bracketed, means_the_same, mentions
from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.edits.terms import factors, terms
from wmmadiag.diagnose.source.model import Assignment, Span

_KIND = "sibling-factors"
_FAULTS = (
    "rescale-missing", "normalisation", "row-statistic", "softmax-scale", "reduction", "card-mismatch",
    "index-arithmetic",
)  # fmt: skip
_NEAR = 6
"""Lines that two sums may be apart."""


@generator(_KIND, *_FAULTS)
def generate(view: View) -> Iterator[Edit]:
    """Factors of one assignment that another one nearby lacks."""
    model = view.model
    for one in model.assignments:
        if one.operator.text not in ("+=", "=") or not view.wanted(one.target.start, one.value.end):
            continue
        for other in model.assignments:
            if other is one or other.operator.text != one.operator.text or abs(other.line - one.line) > _NEAR:
                continue
            for factor in _factors(view, other):
                if mentions(model, one.value, factor.text) or not means_the_same(model, factor, one.value.start):
                    continue
                yield from _multiplied(view, one, factor, 0.03 + 0.004 * abs(other.line - one.line))


def _factors(view: View, one: Assignment) -> Iterator[Span]:
    """Names that an assignment's value is multiplied by."""
    model = view.model
    for term in terms(model, one.value):
        parts = factors(model, term)
        for part in parts if len(parts) > 1 else ():
            if part.last - part.first == 1 and model.tokens[part.first].kind == "id":
                variable = model.variable(part.text, part.start)
                if variable is not None and not variable.pointer and not variable.dims:
                    yield part


def _multiplied(view: View, one: Assignment, factor: Span, rank: float) -> Iterator[Edit]:
    model = view.model
    for term in terms(model, one.value):
        own = model.text[term.start : term.end]
        if own == one.target.text:
            continue  # what was added up before
        text = bracketed(own) if any(mark in own for mark in "?:") else own
        change = Change(term.start, term.end, f"{factor.text} * {text}")
        yield from view.offer(_KIND, _FAULTS, one.line, f"multiply {own} by {factor.text}", (change,), rank)
    if one.operator.text == "=" and one.value.text.startswith(one.target.text):
        change = Change(one.value.start, one.value.start + len(one.target.text), f"{one.target.text} * {factor.text}")
        yield from view.offer(_KIND, _FAULTS, one.line, f"multiply {one.target.text} by {factor.text}", (change,), rank)
