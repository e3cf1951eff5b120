"""Attention over sequences behind one another and over pages, against attention of each sequence by itself."""

from __future__ import annotations

import numpy as np
import pytest
from operation_cards import card_of

import wmmadiag
from wmmadiag.ops import OPERATIONS
from wmmadiag.subject.binding import bind


def alone(q, k, v, causal=False):
    """One head in float64: q (n, D), k and v (m, D)."""
    scores = q.astype(float) @ k.astype(float).T / np.sqrt(q.shape[1])
    if causal:
        scores[np.arange(len(q))[:, None] < np.arange(len(k))[None]] = -np.inf
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True) @ v


def drawn(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("causal", [False, True])
def test_each_sequence_sees_its_own_keys_alone(causal):
    rng = np.random.default_rng(0)
    q, k, v = drawn(rng, 12, 4, 8), drawn(rng, 12, 2, 8), drawn(rng, 12, 2, 8)
    starts = np.array([0, 5, 12], np.int32)
    got = wmmadiag.reference("packed_attention", q=q, k=k, v=v, starts=starts, causal=causal).value
    for first, last in ((0, 5), (5, 12)):
        for head in range(4):
            rows = slice(first, last)
            want = alone(q[rows, head], k[rows, head // 2], v[rows, head // 2], causal)
            np.testing.assert_allclose(got[rows, head], want, rtol=1e-6)


def test_keys_may_have_starts_of_their_own():
    rng = np.random.default_rng(1)
    q, k, v = drawn(rng, 6, 1, 8), drawn(rng, 9, 1, 8), drawn(rng, 9, 1, 8)
    starts, of_keys = np.array([0, 4, 6], np.int32), np.array([0, 2, 9], np.int32)
    got = wmmadiag.reference("packed_attention", q=q, k=k, v=v, starts=starts, key_starts=of_keys).value
    np.testing.assert_allclose(got[4:, 0], alone(q[4:, 0], k[2:, 0], v[2:, 0]), rtol=1e-6)


def test_a_query_sees_the_pages_that_its_table_names_up_to_its_length():
    rng = np.random.default_rng(2)
    q, k, v = drawn(rng, 2, 4, 8), drawn(rng, 6, 4, 2, 8), drawn(rng, 6, 4, 2, 8)
    table, lengths = np.array([[5, 0, 3], [1, 4, 2]], np.int32), np.array([9, 6], np.int32)
    got = wmmadiag.reference("paged_attention", q=q, k=k, v=v, table=table, lengths=lengths).value
    for one in range(2):
        keys, values = (np.concatenate(array[table[one]])[: lengths[one]] for array in (k, v))
        for head in range(4):
            want = alone(q[one, head][None], keys[:, head // 2], values[:, head // 2])[0]
            np.testing.assert_allclose(got[one, head], want, rtol=1e-6)


def test_drawn_starts_are_of_sequences_that_differ(tmp_path):
    card = card_of(OPERATIONS["packed_attention"], tmp_path)
    inputs = bind(card, card.cases[1], card.variants[0]).inputs()
    lengths = np.diff(inputs["starts"])
    assert inputs["starts"][0] == 0 and inputs["starts"][-1] == len(inputs["q"])
    assert (lengths > 0).all() and len(set(lengths.tolist())) > 1
    assert any(one % 16 for one in lengths)


def test_drawn_pages_are_each_there_once_and_lengths_end_within_pages(tmp_path):
    card = card_of(OPERATIONS["paged_attention"], tmp_path)
    inputs = bind(card, card.cases[1], card.variants[0]).inputs()
    pages, size = inputs["v"].shape[:2]
    assert sorted(inputs["table"].ravel()) == list(range(pages))
    assert (inputs["table"].ravel() != np.arange(pages)).any()
    lengths = inputs["lengths"]
    assert (lengths % size != 0).all() and (lengths > size).any() and (lengths < size * inputs["table"].shape[1]).all()


@pytest.mark.parametrize(("b", "n", "x"), [(1, 6, 1), (2, 12, 3), (3, 4, 2)])
def test_no_length_goes_beyond_the_pages_that_a_table_names(tmp_path, b, n, x):
    """However many pages there are besides: a kernel would read what lies behind the table."""
    card = card_of(OPERATIONS["paged_attention"], tmp_path, further={"B": b, "X": x, "N": n})
    inputs = bind(card, card.cases[0], card.variants[0]).inputs()
    assert (len(inputs["v"]), inputs["table"].shape) == (n, (b, x))
    assert inputs["lengths"].min() > 0 and inputs["lengths"].max() <= x * inputs["v"].shape[1]


def test_a_wrong_page_and_another_sequences_keys_are_outside_the_bound():
    rng = np.random.default_rng(3)
    q, k, v = (drawn(rng, 20, 1, 8).astype(np.float16) for _ in range(3))
    starts = np.array([0, 9, 20], np.int32)
    want = wmmadiag.reference("packed_attention", q=q, k=k, v=v, starts=starts, dtype="f32")
    right = np.concatenate([alone(q[rows, 0], k[rows, 0], v[rows, 0])[:, None] for rows in (slice(0, 9), slice(9, 20))])
    whole = alone(q[:, 0], k[:, 0], v[:, 0])[:, None]
    assert wmmadiag.compare_arrays(right.astype(np.float32), want).passed
    assert not wmmadiag.compare_arrays(whole.astype(np.float32), want).passed


def paged(seed, dtype=np.float32, heads=2):
    rng = np.random.default_rng(seed)
    return {
        "q": drawn(rng, 7, heads, 8).astype(dtype),
        "k": drawn(rng, 6, 4, 1, 8).astype(dtype),
        "v": drawn(rng, 6, 4, 1, 8).astype(dtype),
        "table": np.array([[5, 0, 3], [1, 4, 2]], np.int32),
        "lengths": np.array([9, 6], np.int32),
        "starts": np.array([0, 5, 7], np.int32),
    }


@pytest.mark.parametrize("causal", [False, True])
def test_new_queries_are_the_last_ones_of_their_sequences(causal):
    data = paged(4)
    got = wmmadiag.reference("paged_prefill", **data, causal=causal).value
    for one, rows in enumerate((slice(0, 5), slice(5, 7))):
        length = data["lengths"][one]
        keys, values = (np.concatenate(data[role][data["table"][one]])[:length, 0] for role in "kv")
        for head in range(2):
            q = data["q"][rows, head]
            for at in range(len(q)):
                seen = length - len(q) + at + 1 if causal else length
                want = alone(q[at : at + 1], keys[:seen], values[:seen])[0]
                np.testing.assert_allclose(got[rows, head][at], want, rtol=1e-6)


def test_a_drawn_sequence_has_no_fewer_keys_than_there_are_queries(tmp_path):
    for further in ({}, {"T": 1}, {"T": 97, "P": 8, "B": 1}):
        card = card_of(OPERATIONS["paged_prefill"], tmp_path, further=further)
        inputs = bind(card, card.cases[-1], card.variants[0]).inputs()
        room = inputs["table"].shape[-1] * inputs["v"].shape[1]
        assert inputs["lengths"].min() >= len(inputs["q"]) and inputs["lengths"].max() <= room


def test_queries_that_are_taken_to_begin_a_sequence_are_outside_the_bound():
    data = paged(5, np.float16)
    want = wmmadiag.reference("paged_prefill", **data, causal=True, dtype="f32")
    other = wmmadiag.reference("paged_prefill", **data, causal=True, alignment="top-left").value
    assert wmmadiag.compare_arrays(want.value.astype(np.float32), want).passed
    assert not wmmadiag.compare_arrays(other.astype(np.float32), want).passed
