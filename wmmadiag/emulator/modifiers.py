"""Packs an instruction's modifiers into the word that the native core reads, as `native/modifiers.hpp` lays it out."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from wmmadiag.emulator.native import modifier_fields

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
LAYOUT: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {name: (shift, bits) for name, shift, bits in modifier_fields()}
)
"""Modifier → its lowest bit and its width in bits in the 32-bit word."""


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
        if name not in LAYOUT:
            raise ValueError(f"no such modifier: {name}={value}")
        shift, bits = LAYOUT[name]
        code = _CODES.get(name, {}).get(value)
        if code is None and value.isdecimal():
            code = int(value)
        if code is None or code >> bits:
            raise ValueError(f"modifier {name} has no value {value!r}")
        word |= code << shift
    return word
