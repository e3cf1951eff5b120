"""The changes that carry an output over that is kept divided by its sum: the old sum goes with its factor everywhere.

With `l_new = f * l_old + …` an output that is a mean so far counts `f * l_old / l_new` in the next one.

Bad:
    l_new = f * l_old + l_tile;
    o = o * l_old / l_new + …;

Good:
    l_new = f * l_old + l_tile;
    o = o * l_old * f / l_new + …;
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wmmadiag.diagnose.edits import Edit
from wmmadiag.diagnose.edits.building import replaced
from wmmadiag.diagnose.edits.terms import terms
from wmmadiag.diagnose.source.model import SourceModel, Span
from wmmadiag.diagnose.source.softmax import plain

_KIND = "softmax-parts"
_ENDS = frozenset({"(", ")", "*", "/", "=", "+", "-", ",", ";", "return"})


def old_sum_mends(model: SourceModel, per_sum: Mapping[str, str]) -> Iterator[Edit]:
    """Products with an old sum that lack the factor which carries that sum.

    Args:
        per_sum: sum → its factor, as they stand in the update of the sum.
    """
    for name, factor in per_sum.items():
        for piece in _values(model):
            for term in terms(model, piece):
                words = [token.text for token in model.tokens[term.first : term.last]]
                if name not in words or factor in words or len(words) < 2:
                    continue
                index = term.first + words.index(name)
                around = {model.tokens[index - 1].text, model.tokens[index + 1].text}
                if not around & {"*", "/"} or not around <= _ENDS or model.tokens[index - 1].text == "/":
                    continue
                if model.variable(factor, term.start) is None:
                    continue
                token = model.tokens[index]
                summary = f"{name} with {factor}, which carries it over"
                change = replaced(token, f"{name} * {factor}")
                cause = (
                    f"the old output counts with {name} as it was, without {factor}, with which the new sum takes it"
                )
                yield Edit(_KIND, "rescale-missing", token.line, summary, (change,), 0.0, cause)


def _values(model: SourceModel) -> Iterator[Span]:
    """What variables begin with and what is assigned, outermost expressions."""
    yield from (v.initial for v in model.variables if v.initial is not None and plain(v.element) in ("float", "auto"))
    yield from (one.value for one in model.assignments)
