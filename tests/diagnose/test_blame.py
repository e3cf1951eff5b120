"""Which change of a program the compiler's message names: by the number in its alternative's type, and by no other."""

from __future__ import annotations

import pytest

from wmmadiag.diagnose.trials.blame import _number

KNOWN = {7, 12, 56}


@pytest.mark.parametrize(
    ("message", "number"),
    [
        ('no suitable conversion to "wmmadiag_trial::As<float, 12U>"', 12),
        ('"As<cutlass::Array<cutlass::half_t, 8>, 12U>" and "cutlass::Array<float, 56>" are not compatible', 12),
        ('no operator "<" matches "As<Pair<Array<float, 56>, 7>, 12>"', 12),
        ('"Array<float, 12>" has no member "x"', None),  # no alternative's type
        ('"As<float, 99U>" is no type', None),  # of no change of this program
        ('"As<Array<float, 12>', None),  # cut off
    ],
)
def test_the_number_is_the_last_argument_of_the_alternatives_type(message: str, number: int | None) -> None:
    assert _number(message, KNOWN) == number
