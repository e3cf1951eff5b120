"""Structs passed by value."""

from __future__ import annotations

import struct

import pytest

from wmmadiag.errors import ConfigurationError
from wmmadiag.subject.binding import bind
from wmmadiag.subject.card_file import parse_card

CARD = """
format = 1
source = "k.cu"
entry = "mm"
[[arguments]]
role = "a"
dtype = "f16"
[[arguments]]
role = "b"
dtype = "f16"
[[arguments]]
role = "d"
dtype = "f32"
[[arguments]]
name = "p"
FIELDS
[launch]
grid = 1
block = 32
[computes]
operation = "gemm"
[[cases]]
name = "one"
M = 16
N = 32
K = 48
"""


def bound(tmp_path, fields: str) -> bytes:
    (tmp_path / "k.cu").write_text("")
    card = parse_card(CARD.replace("FIELDS", fields), tmp_path / "k.toml")
    value = bind(card, card.cases[0], card.variants[0]).launch.arguments[3]
    assert isinstance(value, bytes)
    return value


@pytest.mark.parametrize(
    ("fields", "layout", "values"),
    [
        ("s32 M, s32 N, f32 0.5", "iif", (16, 32, 0.5)),
        ("u8 1, s64 M*N, s16 K", "Bxxxxxxxqhxxxxxx", (1, 512, 48)),
        ("s16 K, f64 1/4, u8 1", "hxxxxxxdBxxxxxxx", (48, 0.25, 1)),
        ("u8 7", "B", (7,)),
    ],
)
def test_fields_lie_as_in_cpp(tmp_path, fields, layout, values):
    tables = (part.split() for part in fields.split(", "))
    text = ", ".join(f'{{ dtype = "{dtype}", value = "{value}" }}' for dtype, value in tables)
    assert bound(tmp_path, f"fields = [{text}]") == struct.pack("<" + layout, *values)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("fields = []", "a struct without fields"),
        ('fields = [{ dtype = "s32" }]', "lacks 'value'"),
        ('fields = [{ dtype = "s32", value = "TODO" }]', "still to be filled in"),
        ('fields = [{ dtype = "s8", value = "1000" }]', "cannot hold"),
        ("fields = 3", "fields"),
        ('dtype = "s32"\nfields = [{ dtype = "s8", value = 1 }]', "dtype"),
    ],
)
def test_wrong_fields_are_refused_with_their_line(tmp_path, fields, message):
    with pytest.raises(ConfigurationError, match=message) as raised:
        bound(tmp_path, fields)
    assert raised.value.place is not None and raised.value.place.line > 1
