"""Keep the sum that a multiplication in a loop makes: nothing in the loop changes what it adds to.

Bad:
    for (int k = 0; k < K; k += 16) { …; wmma::mma_sync(tmp, a, b, acc); }

Good:
    for (int k = 0; k < K; k += 16) { …; wmma::mma_sync(acc, a, b, acc); }
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import replaced
from wmmadiag.diagnose.edits.model import Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.source.model import Call, SourceModel

_KIND = "lost-sums"
_FAULTS = ("operand-order", "accumulator-init", "tile-overwritten", "loop-extent", "accumulator-reset")


@generator(_KIND, *_FAULTS, derived=True)
def generate(view: View) -> Iterator[Edit]:
    """The sum as the result, or the result as the sum."""
    model = view.model
    for call in model.wmma_calls:
        if call.name != "mma_sync" or len(call.arguments) != 4 or not view.wanted(call.start, call.end):
            continue
        destination, _, _, onto = call.arguments
        if destination.text == onto.text or not _never_goes_on(model, call):
            continue
        cause = f"every round of the loop adds to {onto.text} as it was: {destination.text} has the last product only"
        for piece, other, rank in ((destination, onto, 0.02), (onto, destination, 0.03)):
            summary = f"accumulate {'into' if piece is destination else 'onto'} {other.text}"
            yield from view.offer(_KIND, _FAULTS, call.line, summary, (replaced(piece, other.text),), rank, cause)


def _never_goes_on(model: SourceModel, call: Call) -> bool:
    """Whether nothing in the loop around a multiplication writes the sum that it adds to."""
    name = model.tokens[call.arguments[3].first].text
    around = (model.statements[at] for at in model.enclosing(model.statement_at(call.start)))
    loop = next((one for one in around if one.loop), None)
    if loop is None:
        return False
    calls = [one for one in model.calls if loop.first <= one.first < loop.last and one.name != "store_matrix_sync"]
    written = any(one.arguments and model.tokens[one.arguments[0].first].text == name for one in calls)
    assigned = any(
        loop.first <= one.target.first < loop.last and model.tokens[one.target.first].text == name
        for one in model.assignments
    )
    declared = any(
        one.name == name and loop.start <= one.visible[0] and one.visible[1] <= loop.end for one in model.fragments
    )
    return not (written or assigned or declared)
