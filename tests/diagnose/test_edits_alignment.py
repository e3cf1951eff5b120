"""Padding that leaves rows unaligned: mended where the number is said, however far from the access."""

from __future__ import annotations

import pytest

from wmmadiag.diagnose.edits import apply, edits
from wmmadiag.diagnose.source.read import read_source

_SOURCE = """#define EXTRA 4
constexpr int kTile = 64, kMore = 2;
constexpr int kPitch = kTile + kMore;
__global__ void k(const uint4* in, int n) {
    const int other = (n + 3) * 8;
    __shared__ half a[16 * kPitch];
    __shared__ half b[16][kTile + EXTRA];
    half* row = a + threadIdx.x * kPitch;
    *(uint4*)(row + n) = in[n];
    *(uint4*)&b[n][0] = in[other];
}
"""


@pytest.mark.parametrize(
    ("line", "old", "new"), [(8, "kMore = 2", "kMore = 8"), (10, "EXTRA 4", "EXTRA 8"), (8, "kMore = 2", "kMore = 16")]
)
def test_the_padding_is_made_a_multiple_of_16_bytes(line, old, new):
    offered = edits(read_source(_SOURCE), hypotheses=["alignment"], lines=[line])
    assert _SOURCE.replace(old, new) in [apply(_SOURCE, edit) for edit in offered[:8]]


def test_numbers_on_which_no_address_depends_are_left_alone():
    offered = edits(
        read_source(_SOURCE.replace("= 2", "= 8").replace("A 4", "A 8")), hypotheses=["alignment"], lines=[8]
    )
    assert not [edit for edit in offered if " in place of " in edit.summary]
