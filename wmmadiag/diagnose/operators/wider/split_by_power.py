"""Quotients and remainders by a power of two."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators.making import Draft, Text, binary, several, text_of
from wmmadiag.diagnose.operators.pairs.split import splits
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

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
