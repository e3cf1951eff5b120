"""The term that stands beside the same other term elsewhere."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.making import Draft, replaced, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator

_MOST = 3


@operator
def sibling_term(program: Program) -> Iterator[Draft]:
    """`a * 8 + c` for `a * 8 + b * 2`, where `a * 8 + c` is, or is a part of, another sum of whole numbers."""
    pool = pools(program)
    beside = _beside(program)
    for one in program.expressions:
        if not _placing(one):
            continue
        held = [term.expression for term in sums.terms(one)]
        own = {term.text for term in held}
        for gone in held:
            rest = own - {gone.text}
            offers = {text: new for kept in sorted(rest) for text, new in beside[kept].items()}
            fitting = [
                new
                for text, new in offers.items()
                if text not in own and not (new.atom and gone.atom) and pool.visible(new, one)
            ]
            for new in fitting[:_MOST]:
                yield replaced(gone, text_of(new))


def _beside(program: Program) -> dict[str, dict[str, Expression]]:
    """By the text of a term, those that it is added to somewhere."""
    found: dict[str, dict[str, Expression]] = defaultdict(dict)
    for one in program.all_expressions():
        if _placing(one):
            held = [term.expression for term in sums.terms(one) if not term.negative]
            for kept in held:
                if kept.varying is not False and kept.kind != "literal":
                    found[kept.text].update({new.text: new for new in held if new.varying is not False})
    return found


def _placing(one: Expression) -> bool:
    """Whether it is a whole sum of whole numbers that threads have their own of."""
    plain = one.kind == "binary" and one.operator in ("+", "-") and one.type.whole
    return plain and one.varying is not False and not one.fixed and sums.top(one)
