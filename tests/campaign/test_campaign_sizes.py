"""Sizes that a campaign tries."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wmmadiag.campaign.sizes import SizeRange, edges, grid_steps

RANGES = st.builds(
    lambda low, count, unit: SizeRange(low, low + count, unit),
    st.integers(0, 500), st.integers(64, 5000), st.sampled_from([1, 2, 8, 16, 48]),
)  # fmt: skip


@given(RANGES)
def test_every_size_is_one_that_the_kernel_takes(sizes):
    found = edges(sizes)
    assert found and list(found) == sorted(set(found))
    assert all(size in sizes for size in found)


def test_a_range_is_tried_at_its_ends_and_around_powers_of_two():
    found = edges(SizeRange(1, 300))
    assert {1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 256, 257, 299, 300, 293} <= set(found)
    assert 0 in edges(SizeRange(0, 10))
    assert edges(SizeRange(64, 64)) == (64,)
    assert edges(SizeRange(337, 401, 48)) == (384,)


def test_tiles_are_told_from_the_launch():
    steps = grid_steps(lambda size: -(-size // 48), SizeRange(1, 300))
    assert steps == (48, 96, 288)
    assert {47, 48, 49, 95, 96, 97, 287, 288, 289} <= set(edges(SizeRange(1, 300), steps))
    assert grid_steps(lambda size: size, SizeRange(1, 300)) == ()  # a block for each
    assert grid_steps(lambda size: 1, SizeRange(1, 300)) == ()
