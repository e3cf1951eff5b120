"""Rows written into pages, against a loop over them; keys in pieces, for this operation and those that read them."""

from __future__ import annotations

import numpy as np

import wmmadiag
from wmmadiag.ops.evaluation import reference


def drawn(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def test_each_row_is_in_its_slot_and_the_others_are_as_they_were():
    rng = np.random.default_rng(0)
    key, value = drawn(rng, 3, 2, 8), drawn(rng, 3, 2, 8)
    k, v = drawn(rng, 4, 5, 2, 8), drawn(rng, 4, 5, 2, 8)
    slots = np.array([7, 0, 19], np.int32)
    got = reference("cache_append", {"piece": 0}, {"key": key, "value": value, "k": k, "v": v, "slots": slots})
    for output, new, cache in (("k_out", key, k), ("v_out", value, v)):
        want = cache.copy()
        for row, slot in enumerate(slots):
            want[slot // 5, slot % 5] = new[row]
        assert np.array_equal(got[output], want)


def in_pieces(pages, piece):
    """(N, P, H, D) as (D / piece, N, P, H, piece)."""
    return np.moveaxis(pages.reshape(*pages.shape[:-1], -1, piece), -2, 0)


def test_keys_in_pieces_are_the_same_keys():
    rng = np.random.default_rng(1)
    key, k = drawn(rng, 3, 2, 8), drawn(rng, 4, 5, 2, 8)
    slots = np.array([7, 0, 19], np.int32)
    plain = wmmadiag.reference("cache_append", key=key, k=k, slots=slots)
    got = wmmadiag.reference("cache_append", key=key, k=in_pieces(k, 4), slots=slots, piece=4)
    assert np.array_equal(got.value, in_pieces(plain.value, 4))


def test_attention_over_pages_reads_keys_in_pieces():
    rng = np.random.default_rng(2)
    q, k, v = drawn(rng, 2, 4, 8), drawn(rng, 6, 4, 2, 8), drawn(rng, 6, 4, 2, 8)
    given = {"q": q, "v": v, "table": np.array([[5, 0, 3], [1, 4, 2]], np.int32), "lengths": np.array([9, 6], np.int32)}
    plain = wmmadiag.reference("paged_attention", k=k, **given).value
    assert np.array_equal(wmmadiag.reference("paged_attention", k=in_pieces(k, 4), piece=4, **given).value, plain)
