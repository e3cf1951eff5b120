"""Faults and ranges name elements as the source declares them."""

from __future__ import annotations

import numpy as np
import pytest

import wmmadiag
from wmmadiag import emulator
from wmmadiag.emulator.extents import ExtentPart, MemoryExtent, NamedExtents
from wmmadiag.errors import KernelFault
from wmmadiag.launch import ArgumentView, Launch

_SOURCE = """
template <int N> __global__ void k(float* out, int n) {
    __shared__ float tile[4][N + 8];
    extern __shared__ unsigned char smem[];
    float* first = (float*)smem;
    float* second = first + N;
    tile[threadIdx.x / 8][threadIdx.x % 8] = 1;
    second[threadIdx.x] = 2; first[threadIdx.x] = 1;
    __syncthreads();
    out[n] = tile[3][threadIdx.x] + second[threadIdx.x];
}
"""


def _launch(n: int, **how: object) -> Launch:
    return Launch((1, 1, 1), (32, 1, 1), (np.zeros((2, 4, 8), np.float32), n), 512, ("out", "n"), **how)  # type: ignore[arg-type]


def _load() -> emulator.EmulatedKernel:
    made = wmmadiag.compile_cuda(_SOURCE, entry="k<64>", arch="sm_80")
    return emulator.load(made.ptx, made.entries[0].name)


def test_shared_arrays() -> None:
    kernel, launch = _load(), _launch(0)
    by_name = {one.label: one for one in kernel.named_memory(launch)}
    tile, smem = by_name["tile"], by_name["smem"]
    assert tile.element(tile.start + 4 * (2 * 72 + 5)) == "tile[2][5]"
    assert tile.element(tile.start + 4 * (2 * 72 + 5) + 2) == "tile[2][5], byte 2 of it"
    assert (smem.element(smem.start + 12), smem.element(smem.start + 256 + 12)) == ("first[3]", "second[3]")
    assert smem.array(smem.start + 300) == "second"


def test_a_fault_names_the_last_element() -> None:
    with pytest.raises(KernelFault) as error:
        _load().launch(_launch(70))
    assert "24 bytes past the end of out (256 bytes), which ends with out[1,3,7]" in error.value.detail


def test_a_view_names_logical_elements() -> None:
    view = ArgumentView(0, "O", (8, 4), (1, 8), written=True)  # transposed
    with pytest.raises(KernelFault) as error:
        _load().launch(_launch(-1, views=(view,)))
    assert "4 bytes before the start of out" in error.value.detail
    named = next(one for one in _load().named_memory(_launch(0, views=(view,))) if one.name == "out")
    assert named.element(named.start + 4 * 11) == "O[3,1]"
    assert named.element(named.start + 4 * 35) == "out[1,0,3]"  # outside the view: where it is in the array


def test_strides_and_gaps() -> None:
    part = ExtentPart("x", 8, 2, (3, 4), (16, 2))
    assert part.index(8 + 16 * 2 + 2 * 3 + 1) == (2, 3)
    assert part.index(8 + 8) is None  # padding of the first row
    assert part.index(7) is None
    assert part.index(8 + 48) is None
    extent = MemoryExtent("x", "global", 1000, 100).of(ExtentPart("x", 0, 2, (50,), (2,)), (part,), comma=True)
    assert [extent.element(1000 + at) for at in (8, 16, 42)] == ["x[0,0]", "x[8]", "x[2,1]"]
    assert MemoryExtent("s", "shared", 0, 64).element(12, 4) == "s[3]"
    assert MemoryExtent("s", "shared", 0, 64).element(13, 4) == "s, byte 13"


def test_the_compiler_is_asked_about_the_array_that_holds_an_address_and_no_other() -> None:
    plain = [MemoryExtent("x", "global", 0, 64), MemoryExtent("s", "shared", 0, 64), MemoryExtent("t", "shared", 64, 8)]
    looked: list[str] = []

    def named(one: MemoryExtent) -> MemoryExtent:
        looked.append(one.name)
        return one

    extents = NamedExtents(plain, named)
    assert extents.holding("shared", 71) is plain[2] and extents.holding("shared", 64) is plain[2]
    assert extents.holding("shared", 72) is None and looked == ["t"]
