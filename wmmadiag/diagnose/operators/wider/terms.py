"""Terms of sums: with another scale, split otherwise, and one more."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.candidates import in_own_array
from wmmadiag.diagnose.operators.composed import coordinates, sizes, terms
from wmmadiag.diagnose.operators.making import Draft, Text, binary, replaced, several, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.pairs.split import splits
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


_POWERS = ("2", "4", "8", "16", "32")


@operator
def split_by_power(program: Program) -> Iterator[Draft]:
    """`x / n` and `x % n` that stand near each other with a power of two for `n`, as they are or exchanged."""
    for quotient, remainder in splits(program.expressions):
        held = text_of(quotient.operands[0])
        for power in _POWERS:
            made = [binary(held, sign, Text(power)) for sign in ("/", "%")]
            for texts in (made, made[::-1]):
                note = f"{texts[0].text} and {texts[1].text} for {quotient.text} and {remainder.text}"
                yield several([(quotient, texts[0]), (remainder, texts[1])], note)


_MOST_OF_POINTERS = 8
_ROLES = frozenset({"index", "offset", "pointer", "coordinate", "argument", "loop start"})
_KINDS = frozenset({"name", "member", "binary", "literal", "cast", "call"})


@operator
def term_composed(program: Program) -> Iterator[Draft]:
    """`a + c` and `a + c * s` for an index, pointer or coordinate `a`, with a coordinate `c` that it does not name and
    a size `s`; for a pointer also `a + c * s * t`."""
    for one in program.expressions:
        if _sum(one) and not in_own_array(one):
            for term in (*terms(program, one), *(_planes(program, one) if one.type.address else ())):
                yield replaced(one, term if one.text == "0" else binary(text_of(one), "+", term), f"plus {term.text}")


def _planes(program: Program, one: Expression) -> Iterator[Text]:
    """A coordinate times two sizes: where a matrix of several begins."""
    for first, second in itertools.combinations_with_replacement(sizes(program, one), 2):
        for coordinate in coordinates(program, one, _MOST_OF_POINTERS):
            yield binary(binary(Text(coordinate.text), "*", Text(first)), "*", Text(second))


def _sum(one: Expression) -> bool:
    """Whether it is all of an index, pointer or coordinate."""
    if one.role not in _ROLES or one.kind not in _KINDS or one.assigned or one.fixed or not sums.top(one):
        return False
    around = one.parent
    if one.type.address:
        return one.role == "pointer" and (around is None or around.kind not in ("member", "subscript"))
    if around is not None and around.kind == "binary":  # a factor, or what is compared or divided
        return False
    return one.kind != "literal" or one.text == "0"
