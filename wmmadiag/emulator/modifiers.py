"""Packs an instruction's modifiers into the word that the native core reads.

The layout is `native/modifiers.hpp`'s; a test compares `FIELDS` with what the extension exports.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

FIELDS: Final[tuple[tuple[str, int, int], ...]] = (
    ("rounding", 0, 4),
    ("ftz", 4, 1),
    ("sat", 5, 1),
    ("compare", 6, 4),
    ("bool", 10, 2),
    ("nan", 12, 1),
    ("abs", 13, 1),
    ("xorsign", 14, 1),
    ("relu", 15, 1),
    ("satfinite", 16, 1),
    ("neg_a", 17, 1),
    ("neg_b", 18, 1),
    ("neg_c", 19, 1),
    ("cc", 20, 1),
    ("mode", 21, 8),
    ("oob", 29, 1),
)
"""(name, lowest bit, width in bits) of each modifier in the 32-bit word."""

ROUNDINGS: Final[tuple[str, ...]] = ("rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi")
COMPARES: Final[tuple[str, ...]] = (
    *("eq", "ne", "lt", "le", "gt", "ge"),
    *("equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"),
)
UNSIGNED_COMPARES: Final[Mapping[str, str]] = MappingProxyType({"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"})
BOOL_OPS: Final[tuple[str, ...]] = ("", "and", "or", "xor")
PRMT_MODES: Final[tuple[str, ...]] = ("", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
TESTP_MODES: Final[tuple[str, ...]] = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")

_CODES: Final[Mapping[str, Mapping[str, int]]] = MappingProxyType(
    {
        "rounding": {name: code for code, name in enumerate(ROUNDINGS)},
        "compare": {name: code for code, name in enumerate(COMPARES)}
        | {name: COMPARES.index(signed) for name, signed in UNSIGNED_COMPARES.items()},
        "bool": {name: code for code, name in enumerate(BOOL_OPS)},
        "mode": {name: code for code, name in enumerate(PRMT_MODES)}
        | {name: code for code, name in enumerate(TESTP_MODES)},
    }
)
_LAYOUT: Final[Mapping[str, tuple[int, int]]] = MappingProxyType({name: (shift, bits) for name, shift, bits in FIELDS})


def pack(attributes: Mapping[str, str]) -> int:
    """The modifiers word for attributes such as {"rounding": "rn", "ftz": "1", "compare": "lt"}.

    A value is one of the field's names (`ROUNDINGS`, `COMPARES`, `UNSIGNED_COMPARES`, `BOOL_OPS`, `PRMT_MODES`,
    `TESTP_MODES`) or a decimal number.

    Raises:
        ValueError: an attribute that is no modifier, or a value that its field does not have. The instruction
            table should have refused the instruction before.
    """
    word = 0
    for name, value in attributes.items():
        if name not in _LAYOUT:
            raise ValueError(f"no such modifier: {name}={value}")
        shift, bits = _LAYOUT[name]
        code = _CODES.get(name, {}).get(value)
        if code is None and value.isdecimal():
            code = int(value)
        if code is None or code >> bits:
            raise ValueError(f"modifier {name} has no value {value!r}")
        word |= code << shift
    return word
