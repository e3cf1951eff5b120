"""A number split into two coordinates: quotient and remainder."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.making import Draft, Text, binary, replaced, several, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import Pools, pools
from wmmadiag.diagnose.operators.registry import operator

_MOST = 6
_FARTHEST = 2
_NEAR = 8
"""Lines between a quotient and a remainder of different blocks."""
_NEAR_INSIDE = 24
"""The same, where one of them stands in a loop or branch behind the other one: tiles are stored so."""
_BITS = range(1, 5)
"""Of a lane's number: a warp has 32."""

_Pair = tuple[Expression, Expression]


@operator
def quotient_and_remainder(program: Program) -> Iterator[Draft]:
    """`x / n` and `x % n`, in one statement or in two that are near, exchanged; and both, as they are or exchanged,
    with another `n`: by which the program splits something, beside it, half or twice it. `x >> 3` and `x & 7`
    likewise. What `x / n` or `x % n` leaves of `x` for another such part of it that stands near."""
    pool = pools(program)
    every = list(splits(program.all_expressions()))
    for pair in _pairs(program.expressions):
        for one, beside in (pair, pair[::-1]) if not _even(*pair) and not _even(*pair[::-1]) else ():
            rest = _rest(beside)
            if rest is not None and pool.visible(beside.operands[1], one):
                yield replaced(one, rest)
    divisors = {one.operands[1].text: one.operands[1] for pair in every for one in pair if one.operator == "/"}
    for quotient, remainder in splits(program.expressions):
        note = f"{quotient.text} and {remainder.text} exchanged"
        yield several([(quotient, text_of(remainder)), (remainder, text_of(quotient))], note)
        if quotient.operator == ">>":
            for bits in _BITS:
                texts = [binary(text_of(quotient.operands[0]), sign, Text(str(number)))
                         for sign, number in ((">>", bits), ("&", (1 << bits) - 1))]  # fmt: skip
                if str(bits) != quotient.operands[1].text:
                    yield _both((quotient, remainder), (texts[0], texts[1]))
                    yield _both((quotient, remainder), (texts[1], texts[0]))
        if quotient.operator == "/":
            for other in _others(pool, quotient, list(divisors.values())):
                made = [binary(text_of(quotient.operands[0]), sign, other) for sign in ("/", "%")]
                yield _both((quotient, remainder), (made[0], made[1]))
                yield _both((quotient, remainder), (made[1], made[0]))


def splits(expressions: Sequence[Expression]) -> Iterator[_Pair]:
    """Quotient and remainder of the same number by the same, that stand near each other."""
    for pair in _pairs(expressions):
        yield from (each for each in (pair, pair[::-1]) if _even(*each))


def _pairs(expressions: Sequence[Expression]) -> Iterator[_Pair]:
    """Parts of the same number that stand near each other."""
    held: dict[tuple[int, str], list[Expression]] = defaultdict(list)
    for one in expressions:
        if one.kind == "binary" and one.operator in ("/", "%", ">>", "&") and one.type.whole and not one.fixed:
            held[id(one.statement.function), one.operands[0].text].append(one)
    for parts in held.values():
        yield from (pair for pair in itertools.combinations(parts, 2) if _near(*pair))


def _near(quotient: Expression, remainder: Expression) -> bool:
    if quotient.statement.block is remainder.statement.block:
        return abs(quotient.statement.index - remainder.statement.index) <= _FARTHEST
    inside = _holds(quotient, remainder) or _holds(remainder, quotient)
    apart = abs(_line(quotient) - _line(remainder))
    return quotient.unit is remainder.unit and apart <= (_NEAR_INSIDE if inside else _NEAR)


def _even(quotient: Expression, remainder: Expression) -> bool:
    """Whether they are quotient and remainder by the same."""
    return quotient.operator in ("/", ">>") and _written(_rest(quotient)) == _written(text_of(remainder))


def _written(one: Text | None) -> str:
    return "".join(one.text.split()) if one is not None else ""


def _rest(one: Expression) -> Text | None:
    """The other part of a number that is split so; None where that is not known."""
    of, by = text_of(one.operands[0]), one.operands[1]
    if one.operator in ("/", "%"):
        return binary(of, "%" if one.operator == "/" else "/", text_of(by))
    number = int(by.text) if by.text.isdecimal() else 0
    if one.operator == ">>":
        return binary(of, "&", Text(str((1 << number) - 1))) if 0 < number < 64 else None
    return binary(of, ">>", Text(str(number.bit_length()))) if number and not number & (number + 1) else None


def _holds(one: Expression, other: Expression) -> bool:
    """Whether the block that one stands in holds the other's."""
    around = other.statement.parent
    while around is not None and around is not one.statement.parent:
        around = around.parent
    return around is not None


def _line(one: Expression) -> int:
    return one.unit.source.place_at(one.start).line


def _others(pool: Pools, quotient: Expression, divisors: Sequence[Expression]) -> list[Text]:
    """By what else it might be split: as other numbers are, by a member beside its divisor, by half or twice it."""
    own = quotient.operands[1]
    found = [text_of(one) for one in divisors if one.atom and pool.visible(one, quotient)][:_MOST]
    if own.kind == "literal" and own.text.isdecimal():
        found += [Text(str(number)) for number in (int(own.text) // 2, int(own.text) * 2) if number > 1]
    if own.kind == "member":
        of = own.operands[0].text
        beside = (one for one in pool.at(quotient) if one.type.whole and one.text.startswith((f"{of}.", f"{of}->")))
        found += [Text(one.text, precedence.POSTFIX) for one in beside]
    return [one for one in dict.fromkeys(found) if one.text != own.text]


def _both(pair: _Pair, texts: tuple[Text, Text]) -> Draft:
    one, other = pair
    note = f"{texts[0].text} and {texts[1].text} for {one.text} and {other.text}"
    return several([(one, texts[0]), (other, texts[1])], note)
