"""A bound, start or step is wrong: the tail of k is dropped, a tile is skipped, or a slice is added twice.

Bad:
    for (int k = 0; k < K / 16 - 1; ++k) …

Good:
    for (int k = 0; k < (K + 15) / 16; ++k) …
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from wmmadiag.diagnose.answers import answer, followed, of_disagreement, of_models
from wmmadiag.diagnose.claim import Answer, Claim, Roots
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import Hypothesis
from wmmadiag.diagnose.source.model import SourceModel, Statement
from wmmadiag.errors import BudgetError
from wmmadiag.place import Place

_ALSO = ("index-arithmetic", "accumulator-reset", "tile-overwritten", "guard-condition", "too-few-warps", "causal-mask")


def _test(evidence: Evidence) -> Answer:
    return answer(_claims(evidence), followed(evidence, "every sum has each of its terms exactly once"))


def _claims(evidence: Evidence) -> Iterator[Claim]:
    error = evidence.run.error
    if isinstance(error, BudgetError) and error.place is not None:
        yield Claim(
            "loop-extent",
            "undecided",
            "the kernel does not come to its end: a loop around this line may never be left",
            evidence.error_place(),
            instead="nothing within the budget of one run",
            evidence=(error.message, *(line.strip() for line in error.detail.splitlines()[:4])),
            rank=Roots.ORDER + 5,
            edit_hypotheses=("loop-extent", *_ALSO),
            exact=False,
        )
    for seen in evidence.disagreements("incomplete", "repeated"):
        claim = of_disagreement("loop-extent", seen, Roots.SUM + 1, also=_ALSO, exact=False)
        # What is added twice may as well be a tile that nobody cleared: that is nothing about the loop.
        yield _at_loop(evidence, claim) if seen.kind == "incomplete" else claim
    yield from of_models(evidence, "loop-extent", also=_ALSO)


def _at_loop(evidence: Evidence, claim: Claim) -> Claim:
    """A claim about a multiplication at the loop that adds it up: the innermost one that does not go by constants."""
    place = evidence.lifted(claim.place) if claim.place is not None else None
    model = evidence.source_model(place.file) if place is not None and place.file in evidence.files else None
    if place is None or model is None or not 0 < place.line <= len(model.lines):
        return claim
    start = model.line_starts[place.line - 1]
    around = model.enclosing(model.statement_at(start + len(model.indent(start))))
    loop = next((one for one in map(model.statements.__getitem__, around) if _open(model, one)), None)
    if loop is None:
        return claim
    lines = (*claim.edit_lines, place.line, *_defined_at(model, loop))
    return replace(claim, place=Place(place.file, loop.line), other=place, edit_lines=lines)


def _defined_at(model: SourceModel, loop: Statement) -> Iterator[int]:
    """The lines that say where a loop starts and ends, beside its own."""
    for piece in (loop.init, loop.condition):
        for token in model.tokens[piece.first : piece.last] if piece is not None else ():
            variable = model.variable(token.text, token.offset) if token.kind == "id" else None
            if variable is not None and variable.kind == "local" and variable.initial is not None:
                yield variable.line


def _open(model: SourceModel, statement: Statement) -> bool:
    """Whether a statement is a loop whose condition is not one of constants alone."""
    condition = statement.condition
    if not statement.loop or condition is None:
        return False
    names = {token.text for token in model.tokens[condition.first : condition.last] if token.kind == "id"}
    known = (model.variable(name, condition.start) for name in names - set(model.constants))
    return any(one is not None and one.kind != "loop" for one in known)


HYPOTHESIS = Hypothesis("loop-extent", "a loop leaves out a slice or tile, or takes one twice", _test, suspected=10)
