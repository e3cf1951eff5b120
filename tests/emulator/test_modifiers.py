"""The modifiers word: fields apart from each other, and nothing unknown is packed."""

from __future__ import annotations

import pytest

from wmmadiag.emulator.modifiers import COMPARES, LAYOUT, ROUNDINGS, pack


def test_fields_do_not_overlap() -> None:
    bits = [bit for shift, width in LAYOUT.values() for bit in range(shift, shift + width)]
    assert len(bits) == len(set(bits))
    assert max(bits) < 32


def test_values() -> None:
    assert pack({}) == 0
    assert pack({"rounding": "rn"}) == 0
    assert pack({"rounding": "rpi"}) == ROUNDINGS.index("rpi") == 8
    assert pack({"ftz": "1", "sat": "0"}) == 1 << 4
    assert pack({"compare": "hs"}) == COMPARES.index("ge") << 6
    assert pack({"bool": "xor", "neg_c": "1"}) == 3 << 10 | 1 << 19
    assert pack({"mode": "rc16"}) == 6 << 21
    assert pack({"mode": "subnormal"}) == 5 << 21
    assert pack({"mode": "202"}) == 202 << 21


@pytest.mark.parametrize(
    "attributes", [{"space": "shared"}, {"rounding": "up"}, {"ftz": "2"}, {"mode": "256"}, {"sat": "-1"}]
)
def test_the_unknown_is_refused(attributes: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=next(iter(attributes))):
        pack(attributes)
