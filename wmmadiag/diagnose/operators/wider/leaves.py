"""Other numbers, and other quotients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.candidates import in_own_array, names_for
from wmmadiag.diagnose.operators.making import Draft, Text, binary, replaced, several, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.pairs.split import splits
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator

_MOST_NUMBERS, _MOST_EACH, _MOST_SIZES = 8, 4, 6
_COUNTS = frozenset({"dimension", "divisor"})
_POWERS = ("2", "4", "8", "16", "32")
_PLACES = frozenset({"index", "offset", "coordinate", "argument", "loop start", "divisor", "pitch"})


@operator
def number_elsewhere(program: Program) -> Iterator[Draft]:
    """Any number of the file for one that places something."""
    counted = Counter(one.text for one in program.all_expressions() if one.kind == "literal" and one.type.whole)
    often = [text for text, _ in counted.most_common(_MOST_NUMBERS)]
    for one in program.expressions:
        if one.kind == "literal" and one.type.whole and one.role in _PLACES and not in_own_array(one):
            yield from (replaced(one, Text(text)) for text in often)


def _others(program: Program, one: Expression) -> list[Text]:
    if one.kind == "literal":
        return [Text(text) for text in pools(program).alike(one)[:_MOST_EACH]]
    return [Text(atom.text, precedence.POSTFIX) for atom in names_for(program, one, _MOST_EACH)]


@operator
def divided(program: Program) -> Iterator[Draft]:
    """`x % m` for `x / n`, and `x / m` for `x % n`, with another `m`."""
    for one in program.expressions:
        if one.kind == "binary" and one.operator in ("/", "%") and one.type.whole and not one.fixed:
            other = "%" if one.operator == "/" else "/"
            for text in _others(program, one.operands[1]) if one.operands[1].atom else ():
                yield replaced(one, binary(text_of(one.operands[0]), other, text))


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


@operator
def counted_round(program: Program) -> Iterator[Draft]:
    """`x % n` for `x % 2` or `x & 1`, with a size `n` that has a name."""
    for one in program.expressions:
        if one.kind != "binary" or one.operator not in ("%", "&") or not one.type.whole or one.fixed:
            continue
        number, by = one.operands
        if by.kind == "literal":
            roles = pools(program).roles
            named = [atom for atom in pools(program).at(one) if atom.type.whole and atom.varying is False]
            named.sort(key=lambda atom: (not roles.get(atom.text, set()) & _COUNTS, not atom.constant))
            named = named[:_MOST_SIZES]
            for atom in named:
                yield replaced(one, binary(text_of(number), "%", Text(atom.text, precedence.POSTFIX)))
