"""What a right kernel was taken to mean is said where its source leaves it open, and where it makes a difference."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wmmadiag.subject.card_files.read import parse_card
from wmmadiag.subject.unsaid import unsaid_meanings

CORNER = ("a causal mask, not a causal mask aligned to the bottom-right corner",)
CARD = """
format = 1
name = "attention"
source = "k.cu"
entry = "attention"
[computes]
operation = "attention"
%s
[launch]
grid = 1
block = 32
[[cases]]
name = "c"
B = 1
H = 2
S = 32
U = %d
D = 16
""" + "".join(
    f'[[arguments]]\nname = "{role}"\nrole = "{role}"\ndtype = "f16"\n{shape}\n'
    for role, shape in zip("qkvo", ("", *['shape = ["B", "H", "U", "D"]'] * 2, ""), strict=True)
)


@pytest.fixture
def attention(tmp_path):
    """A card of attention that says this of what it computes, with so many keys for 32 queries."""
    (tmp_path / "k.cu").write_text("")
    return lambda parameters, keys: parse_card(CARD % (parameters, keys), tmp_path / "k.toml")


@pytest.mark.parametrize(
    ("parameters", "keys", "told"),
    [
        ("causal = true", 48, CORNER),
        ("causal = true", 32, ()),  # both corners are one
        ('causal = true\nalignment = "top-left"', 48, ()),  # said
        ("causal = false", 48, ()),  # the commonest
    ],
)
def test_a_default_that_decides_is_told(attention, parameters, keys, told):
    card = attention(parameters, keys)
    assert unsaid_meanings(card, card.cases) == told


def test_what_was_asked_and_answered_is_not_told(attention):
    card = attention("causal = true", 48)
    assert unsaid_meanings(replace(card, answered=("Which keys does a query see?",)), card.cases) == ()
