"""Take a term out of an index: a start that is added twice, or that belongs to another space of positions.

Bad:
    const int row = first + tile + r;        // where the mask compares rows of the sequence

Good:
    const int row = tile + r;
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.edits.indices import integer_expressions
from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.edits.terms import base_of, terms
from wmmadiag.diagnose.source.model import SourceModel, Span

_KIND = "extra-terms"
_FAULTS = (
    "index-arithmetic", "tensor-strides", "causal-mask", "row-statistic", "stale-tile", "out-of-bounds",
    "write-conflict", "card-mismatch",
)  # fmt: skip


@generator(_KIND, *_FAULTS, needs_lines=True)
def generate(view: View) -> Iterator[Edit]:
    """Each term of each sum of integers on the wanted lines, left out."""
    model = view.model
    for piece in integer_expressions(view):
        found = terms(model, piece)
        if len(found) < 2 or not view.wanted(piece.start, piece.end):
            continue
        for number, term in enumerate(found):
            change = _without(model, found, number)
            if change is not None and base_of(model, term) is None:  # without its pointer a sum is no address
                # Of three terms one is more likely too many than of two.
                rank = 0.06 if len(found) > 2 else 0.12
                yield from view.offer(_KIND, _FAULTS, term.line, f"leave out {term.text}", (change,), rank)


def _without(model: SourceModel, found: list[Span], number: int) -> Change | None:
    """What takes out a term and the operator before it; of the first one the operator behind it, which must be +."""
    term = found[number]
    if number:
        return Change(found[number - 1].end, term.end, "")
    behind = model.tokens[term.last].text if term.last < len(model.tokens) else ""
    return Change(term.start, found[1].start, "") if behind == "+" else None
