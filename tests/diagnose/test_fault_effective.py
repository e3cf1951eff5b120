"""Effective weights, scores and operands read off a black box."""

from __future__ import annotations

import numpy as np
import pytest
from faulty_runs import attention_case, case, filled, flash, product_case

from wmmadiag.diagnose.faults.effective import (
    NOTHING,
    SEVERAL,
    effective_heads,
    effective_operands,
    effective_scores,
    effective_weights,
    run_of,
)
from wmmadiag.ops.catalogue.attention import attention
from wmmadiag.ops.parts.scores import score_rows


def black_box(bound, kernel):
    """`kernel` computes outputs from the case's inputs; here it sees what the launch's arrays hold."""

    def launch(_):
        for argument in bound.arguments:
            if argument.spec.direction == "in":
                argument.original[...], kept[argument.index] = argument.storage, argument.original.copy()
        filled(bound, kernel(bound))
        for index, content in kept.items():
            bound.arguments[index].original[...] = content

    kept = {}
    return run_of(bound, launch)


@pytest.mark.parametrize("fault", ["", "alpha-missing-of-output", "sum-not-divided"])
def test_weights_are_the_softmax_or_what_is_in_its_place(fault):
    bound = attention_case(B=1, H=2, Hkv=1, Sq=20, Skv=50, D=16)
    weights = effective_weights(black_box(bound, lambda b: flash(b, tile=16, fault=fault)), bound)
    assert weights.shape == (1, 2, 20, 50)
    parts = {part.head: part.scores for part in score_rows(bound.inputs()["q"], bound.inputs()["k"], scale=0.25)}
    scores = np.stack([parts[0, 0], parts[0, 1]])[None]
    true = np.exp(scores - scores.max(-1, keepdims=True))
    if fault != "sum-not-divided":
        true /= true.sum(-1, keepdims=True)
    close = np.abs(weights - true) <= 2e-3 * true + 1e-6
    assert close.all() == (fault != "alpha-missing-of-output")
    if fault == "alpha-missing-of-output":  # the last tiles, from the largest score on, are right
        ratio = weights / true
        assert (ratio[..., 48:] < 1.01).all()
        assert (ratio[..., :16].max(-1) > 1.1).any()


def test_the_arrays_are_as_before():
    bound = attention_case(H=1, Sq=16, D=16)
    filled(bound, np.full(bound.outputs()["o"].shape, 7.0))
    before = [argument.storage.copy() for argument in bound.arguments]
    effective_weights(black_box(bound, flash), bound)
    for argument, content in zip(bound.arguments, before, strict=True):
        assert np.array_equal(argument.storage, content)


def test_scores_show_the_scale_and_the_mask():
    bound = attention_case(H=1, Sq=24, D=16, causal=True)
    scores = effective_scores(effective_weights(black_box(bound, lambda b: flash(b, scale=0.5)), bound))
    true = next(score_rows(bound.inputs()["q"], bound.inputs()["k"], scale=0.5, causal=True)).scores
    true -= true.max(-1, keepdims=True)
    seen = true > -5
    assert np.allclose(scores[0, 0][seen], true[seen], atol=5e-3)
    assert (np.isneginf(scores[0, 0]) >= np.isneginf(true)).all()
    assert np.isnan(effective_scores(np.array([[[[0.5, -0.1]]]])))[0, 0, 0].tolist() == [False, True]


def test_heads_show_a_wrong_grouping():
    bound = attention_case(B=2, H=4, Hkv=2, Sq=16, D=16)

    def modulo(b):
        q, k, v = (b.inputs()[role].astype(np.float32) for role in "qkv")
        order = np.arange(4) % 2
        return attention(q, k[:, order], v[:, order], scale=0.25)[0]

    heads = effective_heads(black_box(bound, modulo), bound).mean(axis=2)
    assert heads.argmax(-1).tolist() == [[0, 1, 0, 1], [2, 3, 2, 3]]
    heads = effective_heads(black_box(bound, flash), bound).mean(axis=2)
    assert heads.argmax(-1).tolist() == [[0, 0, 1, 1], [2, 2, 3, 3]]


def product(change_a=lambda a: a, change_b=lambda b: b):
    def kernel(bound):
        a, b = (bound.inputs()[role].astype(np.float32) for role in "ab")
        a = a.T if bound.parameters["transpose_a"] else a
        b = b.T if bound.parameters["transpose_b"] else b
        return 2 * (change_a(a) @ change_b(b))

    return kernel


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("turned", ["", "transpose_b = true", "transpose_a = true"])
def test_a_right_product_reads_what_it_should(turned, dtype):
    bound = product_case(20, 24, 56, computes=f"alpha = 2\n{turned}", dtype=dtype)
    read = effective_operands(black_box(bound, product()), bound)
    a, b = np.arange(20 * 56).reshape(bound.inputs()["a"].shape), np.arange(56 * 24).reshape(bound.inputs()["b"].shape)
    assert np.array_equal(read["a"][0, 0], a.T if "_a" in turned else a)
    assert np.array_equal(read["b"][0, 0], b.T if "_b" in turned else b)


def test_wrong_reads_are_seen_where_they_are():
    bound = product_case(16, 32, 48, computes="alpha = 2")

    def shifted(a):
        a = a.copy()
        a[:, :16] = np.roll(a[:, :16], 1, axis=0)
        a[:, 16:32] = 0
        a[:, 32:] += a[:, :16]
        return a

    read = effective_operands(black_box(bound, product(shifted)), bound)["a"][0, 0]
    own = np.arange(16 * 48).reshape(16, 48)
    assert np.array_equal(read[:, :16], np.roll(own[:, :16], 1, axis=0))
    assert (read[:, 16:32] == NOTHING).all()
    assert not (read[:, 32:] == own[:, 32:]).any()
    spoiled = effective_operands(black_box(bound, product(lambda a: a * np.float32(0.3))), bound)["a"]
    assert (spoiled == SEVERAL).mean() > 0.5


def test_scores_and_p_times_v():
    bound = case("qkt", {"q": ("f16", ""), "k": ("f16", ""), "scores": ("f32", "")},
                 {"B": 1, "H": 2, "Sq": 16, "Skv": 24, "D": 32}, computes="scale = 0.125")  # fmt: skip

    def kernel(b):
        q, k = (b.inputs()[role].astype(np.float32) for role in "qk")
        return q @ k[:, ::-1].transpose(0, 1, 3, 2) / 8

    read = effective_operands(black_box(bound, kernel), bound)
    keys = np.arange(2 * 24 * 32).reshape(1, 2, 24, 32)
    assert np.array_equal(read["k"], keys[:, ::-1].transpose(0, 1, 3, 2))
    assert np.array_equal(read["q"], np.arange(2 * 16 * 32).reshape(1, 2, 16, 32))
    with pytest.raises(ValueError, match="not a product"):
        effective_operands(lambda _: {}, attention_case(Sq=16, D=16))
