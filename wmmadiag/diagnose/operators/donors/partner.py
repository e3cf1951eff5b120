"""A factor or a term more."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.candidates import in_own_array
from wmmadiag.diagnose.operators.comparisons import comparisons
from wmmadiag.diagnose.operators.composed import coordinates, own_pitches
from wmmadiag.diagnose.operators.making import Draft, Text, binary, replaced, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.partners import partners
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_SUMS = frozenset(
    {"index", "offset", "coordinate", "extent", "bound", "compared", "loop bound", "loop start", "loop step",
     "leading dimension", "argument", "copied bytes"}
)  # fmt: skip
_PRODUCTS = frozenset({"index", "offset", "coordinate", "extent", "argument"})
_MOST_ROWS = 8
_REAL = frozenset({"value", "factor", "term", "argument", "denominator", "initial value"})


@operator
def factor_more(program: Program) -> Iterator[Draft]:
    """`a * s` for a term `a`, with an `s` that something is multiplied by elsewhere; `a / s` for a whole coordinate,
    or for a sum."""
    known = partners(program)
    for one in program.expressions:
        product = one.role in _PRODUCTS or _moves_pointer(one)
        if one.type.kind == "integer" and product and _term(one) and not in_own_array(one):
            # What has a pitch seldom lacks another one.
            few = 2 if len(sums.factors(one)) > 1 else None
            for factor in itertools.islice(known.factors(one), few):
                yield replaced(one, binary(text_of(one), "*", factor), f"times {factor.text}")
            if one.role in ("coordinate", "extent") and sums.top(one):
                for divisor in known.divisors(one):
                    yield replaced(one, binary(text_of(one), "/", divisor), f"over {divisor.text}")
        elif one.type.kind in ("float", "half") and one.role in _REAL and one.kind not in ("literal", "list"):
            for factor in known.reals(one) if not one.assigned and one.kind != "assignment" else ():
                yield replaced(one, binary(text_of(one), "*", factor), f"times {factor.text}")
            for count in known.counts(one) if not one.assigned else ():
                yield replaced(one, binary(text_of(one), "/", count), f"over {count.text}")


@operator
def counted_by(program: Program) -> Iterator[Draft]:
    """`k * s / n` for `k / n`, where `k`, or a sum with it, is multiplied by `s` elsewhere: `k` counts by `s`."""
    known = partners(program)
    for one in program.expressions:
        if one.type.kind == "integer" and one.role in _PRODUCTS and _divided(one) and not in_own_array(one):
            for factor in known.units(one):
                yield replaced(one, binary(text_of(one), "*", factor), f"{one.text} times {factor.text}")


@operator
def term_more(program: Program) -> Iterator[Draft]:
    """`a + t` for a sum `a`, with a `t` that is added to a term of it, or for the same, elsewhere, or for an index the
    product that another index is; `p + c * n` for a pointer `p` to rows of `n`; `a + t * n` where `a / n + t` stands
    elsewhere; `a - n` for an `a`, or for what it is made of, where nothing says that `a < n`."""
    known, compared = partners(program), comparisons(program)
    for one in program.expressions:
        if one.assigned or one.kind in ("list", "assignment", "conditional") or not sums.top(one):
            continue
        shift = one.parent is not None and one.parent.operator in ("<<", ">>") and one.number == 1
        if one.type.kind == "integer" and (shift or (one.role in _SUMS and one.role != "compared")):
            for beyond in compared.beyond(one):
                yield replaced(one, beyond, f"{beyond.text} for {one.text}")
        if one.type.address and one.role == "pointer" and one.kind in ("name", "member", "binary"):
            for term in known.offsets(one):
                yield replaced(one, binary(text_of(one), "+", term), f"plus {term.text}")
            for term in _rows(program, one) if one.atom else ():
                yield replaced(one, binary(text_of(one), "+", term), f"plus {term.text}")
        elif one.type.kind == "integer" and one.role in _SUMS:
            for term, less in known.terms(one):
                symbol = "-" if less else "+"
                yield replaced(one, binary(text_of(one), symbol, term), f"{symbol} {term.text}")


def _rows(program: Program, one: Expression) -> Iterator[Text]:
    """Rows of what a pointer points to, as many as each coordinate says."""
    pitches = own_pitches(program, one)
    for coordinate in coordinates(program, one, _MOST_ROWS) if pitches else ():
        for pitch in pitches:
            yield binary(Text(coordinate.text, precedence.POSTFIX), "*", Text(pitch, precedence.POSTFIX))


def _term(one: Expression) -> bool:
    """Whether it is a term of a sum, or a whole sum."""
    around = one.parent
    if _moves_pointer(one):
        return True
    if one.kind == "literal" or one.assigned or one.kind in ("assignment", "list", "conditional"):
        return False
    return around is None or around.kind != "binary" or around.operator in ("+", "-") or around.type.kind == "bool"


def _divided(one: Expression) -> bool:
    """Whether it is a name that is divided by something."""
    around = one.parent
    return one.atom and one.kind != "literal" and around is not None and around.operator in "/%" and one.number == 0


def _moves_pointer(one: Expression) -> bool:
    """Whether it is all that is added to a pointer by an assignment."""
    around = one.parent
    return around is not None and around.kind == "assignment" and one.number == 1 and around.operands[0].type.address
