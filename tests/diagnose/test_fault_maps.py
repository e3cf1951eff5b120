"""Outputs that lie elsewhere, and sums and scores in a narrower type."""

from __future__ import annotations

import numpy as np
import pytest
from faulty_runs import attention_case, filled, flash, half, operands, product_case

from wmmadiag.diagnose.faults import fit
from wmmadiag.diagnose.faults.index_maps import closed_form, fragment_guesses
from wmmadiag.fragments import wmma_map


def first(bound, output):
    fits = fit(filled(bound, output))
    assert fits, "no model fits"
    return fits[0]


def gemm(bound):
    a, b = (bound.inputs()[role].astype(np.float32) for role in "ab")
    return a @ b


def test_rows_in_an_affine_or_bitwise_order():
    bound = product_case(64, 48, 32)
    right = gemm(bound)
    r = np.arange(64)
    for source, words in ((r ^ 21, "r xor 21"), ((3 * r) % 64, "3r mod 64"), ((r + 5) % 64, "(r+5) mod 64")):
        found = first(bound, right[source])
        assert (found.model, found.hypothesis) == ("rows-elsewhere", "index-arithmetic")
        assert words in found.words
    assert first(bound, right[r ^ 5]).hypothesis == "fragment-map"  # inside every 16 rows
    found = first(bound, right[:, np.arange(48) ^ 2])
    assert (found.model, found.parameters["map"]) == ("columns-elsewhere", "r xor 2")
    swapped = r.copy()
    swapped[[3, 40]] = [40, 3]
    found = first(bound, right[swapped])
    assert "3→40, 40→3" in found.words


def test_tiles_in_another_order():
    bound = product_case(64, 64, 32)
    right = gemm(bound)
    blocks = right.reshape(4, 16, 4, 16).transpose(2, 1, 0, 3).reshape(64, 64)
    found = first(bound, blocks)
    assert (found.model, found.hypothesis, found.partial) == ("tiles-elsewhere", "index-arithmetic", False)


@pytest.mark.parametrize("filling", [False, True])
def test_a_guessed_fragment_map(filling):
    bound = product_case(48, 32, 32)
    right = gemm(bound)
    real = wmma_map("m16n16k16", "c", "f32", "sm_80")
    lane, i = np.indices((32, 8))
    row, column = (lane * 8 + i) // 16, (lane * 8 + i) % 16
    output = right.copy()
    for top in range(0, 48, 16):
        for left in range(0, 32, 16):
            tile, stored = right[top : top + 16, left : left + 16], output[top : top + 16, left : left + 16]
            if filling:
                stored[real.row, real.col] = tile[row, column]
            else:
                stored[row, column] = tile[real.row, real.col]
    found = first(bound, output)
    assert (found.model, found.hypothesis, found.partial) == ("fragment-map-guessed", "fragment-map", False)
    assert ("filled" in found.words) == filling
    assert len(fragment_guesses()) > 8


def test_a_closed_form_completes_what_was_not_seen():
    found = np.array([8, 9, -1, 11, 12, 13, 14, -1, 0, 1, 2, 3, -1, 5, 6, 7])
    name, whole = closed_form(found)
    assert name == "r xor 8" or name == "(r+8) mod 16"
    assert whole[2] == 10


def summed_in_half(a, b, step):
    total = np.zeros((*a.shape[:-1], b.shape[-1]), np.float32)
    for start in range(0, a.shape[-1], step):
        total = half(total + a[..., start : start + step] @ b[..., start : start + step, :])
    return total


@pytest.mark.parametrize("step", [16, 8, 4])
def test_sums_in_half(step):
    bound = product_case(48, 48, 512)
    a, b = (bound.inputs()[role].astype(np.float32) for role in "ab")
    found = first(bound, summed_in_half(a, b, step))
    assert (found.model, found.hypothesis, found.partial) == ("half-accumulation", "half-accumulation", False)
    # The same errors all on one side are no rounding.
    right = a @ b
    assert not [one for one in fit(filled(bound, right + 3e-2)) if one.model == "half-accumulation"]
    # A few wrong elements are neither: most rounding errs everywhere.
    few = right.copy()
    few[3, 5] += 0.05
    assert not [one for one in fit(filled(bound, few)) if one.model == "half-accumulation"]


def test_scores_rounded_too_early():
    bound = attention_case(Sq=64, D=64, computes='p_dtype = "f32"', inputs="growing_max")
    q, k, v = operands(bound)
    scores = half(q @ k.transpose(0, 1, 3, 2) * np.float32(0.125))
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    found = first(bound, weights / weights.sum(-1, keepdims=True) @ v)
    assert (found.model, found.hypothesis) == ("scores-rounded", "p-precision")


def test_exponentials_that_overflow():
    bound = attention_case(Sq=64, D=64, computes="scale = 0.5")
    q, k, v = operands(bound)
    with np.errstate(over="ignore", invalid="ignore"):
        weights = half(np.exp(q @ k.transpose(0, 1, 3, 2) * np.float32(0.5)))
        output = weights @ v / weights.sum(-1, keepdims=True)
    assert 0 < np.isnan(output[..., 0]).sum() < output[..., 0].size
    found = first(bound, output)
    assert (found.model, found.hypothesis) == ("exponentials-overflow", "p-precision")
    # NaN everywhere says nothing.
    assert fit(filled(bound, np.full_like(output, np.nan))) == ()


def test_a_right_kernel_with_half_p_fits_nothing():
    bound = attention_case(Sq=64, D=64, inputs="growing_max")
    assert fit(filled(bound, flash(bound))) == ()
