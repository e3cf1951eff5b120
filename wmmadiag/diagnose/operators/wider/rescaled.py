"""The terms of a sum with other powers of two: which thread or register holds what is written in such sums."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.candidates import in_own_array
from wmmadiag.diagnose.operators.making import Draft, Text, binary, replaced, several, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_SCALES = (("", ""), *(("*", text) for text in ("2", "4", "8", "16")), *(("/", text) for text in ("2", "4")))
_MOST_TERMS = 4


@operator
def terms_rescaled(program: Program) -> Iterator[Draft]:
    """`a * 2 + b` and the like for `a + b * 4`: one or two terms that vary, each as it is, times 2 to 16, or over 2 or
    4."""
    for one in program.expressions:
        if one.kind != "binary" or one.operator != "+" or one.fixed or not sums.top(one) or in_own_array(one):
            continue
        parts = [term.expression for term in sums.terms(one) if _scalable(term)][-_MOST_TERMS:]
        if len(parts) < 2:
            continue
        for part in parts:
            for text in _scaled(part):
                yield replaced(part, text)
        for first, second in itertools.combinations(parts, 2):
            for texts in itertools.product(_scaled(first), _scaled(second)):
                note = f"{texts[0].text} and {texts[1].text} for {first.text} and {second.text}"
                yield several([(first, texts[0]), (second, texts[1])], note)


def _scalable(term: sums.Summand) -> bool:
    """Whether a term differs between threads, and nothing but a power of two scales it."""
    one = term.expression
    return not term.negative and one.type.whole and one.varying is not False and _bare(one).kind != "literal"


def _scaled(one: Expression) -> list[Text]:
    """A term with every other scale."""
    bare = text_of(_bare(one))
    made = (bare if not text else binary(bare, sign, Text(text)) for sign, text in _SCALES)
    return [text for text in made if text.text != one.text]


def _bare(one: Expression) -> Expression:
    """What is scaled."""
    while one.kind == "binary" and one.operator in ("*", "/") and one.operands[1].text.isdecimal():
        one = one.operands[0]
    return one
