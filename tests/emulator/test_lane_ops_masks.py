"""What holds for every lane operation: inactive lanes are untouched, all engines agree."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from lane_registers import Array
from native_parts import lane_op

from wmmadiag.emulator import native
from wmmadiag.emulator.modifiers import pack

PREDICATES = ("setp.", "testp.", "and.pred", "or.pred", "xor.pred", "not.pred", "mov.pred")
MODIFIERS = [pack(a) for a in ({}, {"rounding": "rp", "ftz": "1"}, {"compare": "geu", "sat": "1"}, {"rounding": "rzi"})]
NAMES = sorted(native.lane_op_names())


@lru_cache
def values(index: int) -> Array:
    """512 bytes for one source: random, with special patterns of each width mixed in."""
    rng = np.random.default_rng(index)
    data = rng.integers(0, 1 << 16, 256).astype(np.uint16)
    special = np.array([0, 1, 0x8000, 0x7FFF, 0xFFFF, 0x7C00, 0x7F80, 0x3C00, 0x3F80, 0x0400], np.uint16)
    return np.where(rng.integers(0, 3, 256) == 0, rng.choice(special, 256), data)


def sources(name: str) -> list[Array]:
    arrays = [values(k) for k in range(4)]
    return arrays[:2] if name.startswith(("min.", "max.")) else arrays


def apply(name: str, word: int, active: int, inputs: list[Array], d: Array, *, isa: str | None = None) -> Array:
    """The two destinations after the operation, which start as `d` and as a mask of alternating ones."""
    out, flag = d.copy(), np.array([0x55555555], np.uint32)
    lane_op(name, word, active, inputs, out, flag, isa=isa)
    return np.concatenate([out, flag.view(np.uint16)])


def lanes_of(name: str, active: int) -> Array:
    """Which of the 256 + 2 result halves belong to active lanes, given how wide the destination is."""
    bits = np.unpackbits(np.array([active], np.uint32).view(np.uint8), bitorder="little").astype(bool)
    return np.repeat(bits, width_of(name) // 2)


@lru_cache
def width_of(name: str) -> int:
    """Bytes of one destination register: the operation writes that much and no more."""
    touched = np.zeros(256, bool)
    for fill in (0x0000, 0xFFFF):
        before = np.full(256, fill, np.uint16)
        for word in MODIFIERS:
            touched |= apply(name, word, 0xFFFFFFFF, sources(name), before)[:256] != before
    last = int(np.flatnonzero(touched)[-1]) + 1
    return next(width for width in (2, 4, 8, 16) if last <= 32 * width // 2)


@pytest.mark.parametrize("active", [0, 1, 0x80000000, 0x5A5AF00F, 0x7FFFFFFF])
def test_inactive_lanes_are_untouched(active: int) -> None:
    start = np.full(256, 0xA5C3, np.uint16)
    for name in NAMES:
        for word in MODIFIERS:
            whole = apply(name, word, 0xFFFFFFFF, sources(name), start)
            got = apply(name, word, active, sources(name), start)
            flags = np.array([active], np.uint32)
            old_flag, new_flag = np.array([0x55555555], np.uint32), whole[256:].view(np.uint32)
            want_flag = (old_flag & ~flags) | (new_flag & flags)
            np.testing.assert_array_equal(got[256:].view(np.uint32), want_flag, err_msg=f"{name} second destination")
            if name.startswith(PREDICATES):
                old = start[:2].view(np.uint32)
                want = np.concatenate(
                    [((old & ~flags) | (whole[:2].view(np.uint32) & flags)).view(np.uint16), start[2:]]
                )
            else:
                chosen = lanes_of(name, active)
                want = start.copy()
                want[: len(chosen)] = np.where(chosen, whole[: len(chosen)], start[: len(chosen)])
            np.testing.assert_array_equal(got[:256], want, err_msg=name)


@pytest.mark.parametrize("isa", [isa for isa in native.isas() if isa != native.isa()])
def test_engines_agree(isa: str) -> None:
    """Bit for bit, on full and partial warps."""
    start = np.full(256, 0xA5C3, np.uint16)
    for name in NAMES:
        for word in MODIFIERS:
            for active in (0xFFFFFFFF, 0x0F0F3355):
                here = apply(name, word, active, sources(name), start)
                there = apply(name, word, active, sources(name), start, isa=isa)
                np.testing.assert_array_equal(here, there, err_msg=f"{name} {word:#x}")


def test_names_are_unique_and_sorted() -> None:
    names = native.lane_op_names()
    assert names == sorted(set(names))
