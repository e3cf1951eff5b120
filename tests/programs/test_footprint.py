"""Which bytes a launch touches, from the accesses of its warps."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wmmadiag.emulator.observer import AccessKind, MemorySpace
from wmmadiag.launch import DeviceMemory
from wmmadiag.programs.footprint import READ, WRITE, Footprint

BASE = 1 << 20


def touched(addresses, active=0xFFFFFFFF, size=4, memory=True, kind=AccessKind.STORE):
    data = np.zeros(4096, np.uint8)
    rows = (DeviceMemory(BASE, data, "x", 4, (0, 0), data.size),) if memory else ()
    footprint = Footprint(rows)
    for _ in range(2):
        footprint.on_memory(None, MemorySpace.GENERIC, kind, active, size, np.array(addresses, np.uint64).tobytes())
    return list(footprint.stretches())


def test_a_row_is_one_stretch():
    row = BASE + 4 * np.arange(32)
    assert touched(row) == [(BASE, 128, WRITE)]
    assert touched(row[::-1], kind=AccessKind.LOAD) == [(BASE, 128, READ)]


def test_without_memory_nothing_is_touched():
    assert touched(4 * np.arange(32), memory=False) == touched(4 * np.arange(32)) == []


@given(st.lists(st.integers(0, 1023), min_size=32, max_size=32), st.integers(1, 0xFFFFFFFF))
def test_every_byte_of_the_active_lanes_and_no_other(words, active):
    found = touched([BASE + 4 * one for one in words], active)
    bytes_found = {at for begin, count, _ in found for at in range(begin - BASE, begin - BASE + count)}
    assert bytes_found == {4 * word + b for lane, word in enumerate(words) if active >> lane & 1 for b in range(4)}
