"""The loss of a head whose logits are not stored, against its formula, written out; narrow logits; the bound."""

from __future__ import annotations

import numpy as np
import pytest
from operation_cards import card_of

import wmmadiag
from wmmadiag.ops import OPERATIONS
from wmmadiag.subject.binding import bind

TARGETS = np.array([3, 0, 6, 2], np.int64)


def tensors(seed, dtype=np.float32, depth=16, size=0.25):
    rng = np.random.default_rng(seed)
    x, w = rng.standard_normal((4, depth)), size * rng.standard_normal((7, depth))
    return {"x": x.astype(dtype), "w": w.astype(dtype), "targets": TARGETS}


def logits(data):
    return data["x"].astype(float) @ data["w"].astype(float).T


@pytest.mark.parametrize("bias", [False, True])
def test_it_is_its_definition(bias):
    data = tensors(0)
    if bias:
        data["bias"] = np.arange(7, dtype=np.float32) / 4
    found = wmmadiag.reference("linear_cross_entropy", **data)
    rows = logits(data) + data.get("bias", 0.0)
    for row, target, loss in zip(rows, TARGETS, found.value, strict=True):
        assert np.isclose(loss, np.log(np.exp(row).sum()) - row[target], rtol=1e-12)


def test_rows_of_the_ignored_target_count_nothing():
    found = wmmadiag.reference("linear_cross_entropy", **tensors(1), ignore_index=6)
    assert found.value[2] == 0.0 and found.bound[2] < 1e-40 and found.value[[0, 1, 3]].all()


def test_single_precision_is_within_the_bound_and_a_lost_class_is_not():
    data = tensors(2, np.float16, 64)
    want = wmmadiag.reference("linear_cross_entropy", **data, dtype="f32")
    rows = (data["x"].astype(np.float32) @ data["w"].astype(np.float32).T).astype(np.float32)

    def loss(rows, kept):
        return np.log(np.exp(rows[:, :kept]).sum(axis=1)) - rows[np.arange(4), TARGETS]

    assert wmmadiag.compare_arrays(loss(rows, 7).astype(np.float32), want).passed
    assert not wmmadiag.compare_arrays(loss(rows, 6).astype(np.float32), want).passed


def test_narrow_logits_widen_the_bound():
    data = tensors(3, np.float16, 64)
    rows = logits(data).astype(np.float16).astype(float)
    narrow = np.log(np.exp(rows).sum(axis=1)) - rows[np.arange(4), TARGETS]
    plain, wide = (
        wmmadiag.reference("linear_cross_entropy", **data, logits_dtype=kind, dtype="f32") for kind in ("auto", "f16")
    )
    assert not wmmadiag.compare_arrays(narrow.astype(np.float32), plain).passed
    assert wmmadiag.compare_arrays(narrow.astype(np.float32), wide).passed


def test_drawn_targets_have_the_first_and_the_last_class_and_logits_are_near_1(tmp_path):
    card = card_of(OPERATIONS["linear_cross_entropy"], tmp_path)
    inputs = bind(card, card.cases[-1], card.variants[0]).inputs()
    assert {0, 1, len(inputs["w"]) - 1} <= set(inputs["targets"].tolist())
    assert 0.8 < logits(inputs).std() < 1.25
