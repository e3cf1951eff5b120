"""Another whole number, and one more or less."""

from __future__ import annotations

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Iterator

from wmmadiag.diagnose.operators.making import Draft, Text, binary, replaced, several, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator

_ADDED, _SCALED = (("+", "1"), ("-", "1")), (("*", "2"), ("/", "2"))
_STEPS = {
    **dict.fromkeys(("index", "coordinate", "compared", "argument", "count", "loop start"), _ADDED),
    **dict.fromkeys(("leading dimension", "dimension", "constant", "loop step"), _SCALED),
    **dict.fromkeys(("bound", "loop bound"), _ADDED + _SCALED),
    # What is packed is packed by two, three or four.
    "extent": (*_ADDED, *_SCALED, ("*", "3"), ("*", "4")),
}


_REALS = frozenset({"float", "half"})


@operator
def nudged(program: Program) -> Iterator[Draft]:
    """`x + 1` or `x - 1` for a whole index, coordinate, bound, argument or start `x`, and for one that stands among
    reals; a multiple or half of a size."""
    for one in program.expressions:
        if one.type.kind == "integer" and _whole(one) and not one.assigned and not _held_to_bound(one):
            for symbol, number in _ADDED if _among_reals(one) else _STEPS.get(one.role, ()):
                yield replaced(one, binary(text_of(one), symbol, Text(number)), f"{symbol} {number} on {one.text}")


def _among_reals(one: Expression) -> bool:
    return one.parent is not None and one.parent.kind == "binary" and one.parent.type.kind in _REALS


def _held_to_bound(one: Expression) -> bool:
    """Whether one more of it would be one less of what it is compared with."""
    around = one.parent
    return one.role == "compared" and around is not None and any(part.role == "bound" for part in around.operands)


def _whole(one: Expression) -> bool:
    """Whether it is no part of a larger integer expression, and no number itself."""
    if one.kind in ("literal", "assignment", "list", "conditional", "cast") or one.operator in ("++", "--"):
        return False
    around = one.parent
    while around is not None and around.kind == "cast":
        around = around.parent
    if around is None or around.kind not in ("binary", "unary", "member"):
        return True
    return around.type.kind == "bool" or (around.kind == "binary" and around.type.kind in _REALS)


_DECIMAL = re.compile(r"(\d+)([uUlL]*)")
_REAL = re.compile(r"(\d*\.?\d*(?:[eE][-+]?\d+)?)([fF]?)")


# Sizes are seldom one off, small ones may be.
_SMALL = 4
# log2(e), ln 2, √(2/π), 1/√2, √2, 1/√(2π), π, ln 10, log10(2).
_KNOWN = (
    1.4426950408889634, 0.6931471805599453, 0.7978845608028654, 0.7071067811865476, 1.4142135623730951,
    0.3989422804014327, 3.141592653589793, 2.302585092994046, 0.3010299956639812,
)  # fmt: skip
_FAR, _MOST_KNOWN = 4.0, 4
_LEAST, _MOST_PLACES = 3, 8
_SELECTOR, _MASK = 4, 8
_WORD = 32
_LANES = (2, 4, 8, 16, 32)
"""How many lanes of a warp may be meant, where a template is given one of these."""
_SIZES = frozenset({"pitch", "divisor", "leading dimension", "dimension", "template argument", "constant"})


@operator
def number(program: Program) -> Iterator[Draft]:
    """One more, one less, twice, half or none of a number; another one that stands in the file for the same.

    For a real number also its point one digit further, and the nearest of the constants of mathematics; of bits that
    are all set, as a mask of the lowest has them, one more or less, or twice or half as many; of four
    hexadecimal digits, which may select bytes, any two exchanged; of eight, a mask, other bits of each part.
    """
    for one in program.expressions:
        if one.kind == "literal" and one.role != "mask":
            for value in _others(program, one):
                yield replaced(one, Text(value))


@operator
def number_everywhere(program: Program) -> Iterator[Draft]:
    """The same of a number wherever a function has it for the same, none below three."""
    places: dict[tuple[int, str, str], list[Expression]] = defaultdict(list)
    for one in program.expressions:
        small = one.text.isdecimal() and int(one.text) < _LEAST
        if one.kind == "literal" and one.role != "mask" and not small and not one.fixed:
            around = one.parent.operator if one.parent is not None else ""
            places[id(one.statement.function), one.text, f"{one.role} {around}"].append(one)
    for held in places.values():
        if 1 < len(held) <= _MOST_PLACES:
            for value in _others(program, held[0]):
                yield several([(one, Text(value)) for one in held], f"{value} for every {held[0].text}")


def _others(program: Program, one: Expression) -> Iterator[str]:
    yield from _near(one) if one.type.kind == "integer" else _near_real(one)
    if one.role != "template argument":
        yield from pools(program).alike(one)
    elif one.statement.kind != "declaration" and one.text.isdecimal() and int(one.text) in _LANES:
        yield from (str(lanes) for lanes in _LANES if f"{lanes}" != one.text)


def _near_real(one: Expression) -> Iterator[str]:
    match = _REAL.fullmatch(one.text)
    if match is not None:
        value = float(match[1])
        for other in dict.fromkeys((0.0, 1.0, value * 2, value / 2, *_shifted(match[1]))):
            if other != value:
                yield f"{other!r}{match[2]}"
        near = [(abs(math.log(known / value)), known) for known in _KNOWN if value and known != value]
        for _, known in sorted(one for one in near if one[0] < math.log(_FAR))[:_MOST_KNOWN]:
            yield f"{known!r}{match[2]}"


def _shifted(text: str) -> Iterator[float]:
    """A decimal fraction with its point one digit to the left or right."""
    if len(text.strip("0.").replace(".", "")) > 1 and "e" not in text.lower():  # of one digit it is another number
        yield from (float(f"{text}e-1"), float(f"{text}e1"))


def _near(one: Expression) -> Iterator[str]:
    if one.text[:2] in ("0x", "0X"):
        yield from _other_digits(one.text)
    match = _DECIMAL.fullmatch(one.text)
    if match is None or len(match[1]) > 6:
        return
    value, suffix = int(match[1]), match[2]
    half = value // 2 if value % 2 == 0 else -1
    if one.parent is not None and one.parent.operator in ("&", "&="):
        yield from (f"{other}{suffix}" for other in _lowest_bits(value))
    size = one.role in _SIZES and value >= _SMALL
    for other in (value * 2, half) if size else (value + 1, value - 1, value * 2, half, 0):
        if other >= 0 and other != value:
            yield f"{other}{suffix}"


def _lowest_bits(value: int) -> Iterator[int]:
    """Of a number whose lowest bits are all set, and no other, those with some more or fewer."""
    bits = value.bit_length()
    if value == (1 << bits) - 1 and bits > 1:
        for other in dict.fromkeys((bits + 1, bits - 1, bits * 2, bits // 2)):
            if other <= _WORD:
                yield (1 << other) - 1


def _other_digits(text: str) -> Iterator[str]:
    digits = text[2:].rstrip("uUlL")
    yield from (text.replace(digits, f"{other:x}") for other in _lowest_bits(int(digits, 16)))
    made = [digits[by:] + digits[:by] for by in (1, 2, -1)] if len(digits) == _MASK else []
    for a, b in itertools.combinations(range(4), 2) if len(digits) == _SELECTOR else ():
        made.append("".join(digits[{a: b, b: a}.get(at, at)] for at in range(4)))
    yield from (text.replace(digits, other) for other in dict.fromkeys(made) if other != digits)
