"""Products of groups of rows against their definition, with drawn groups; a GEMM whose operand is shared."""

from __future__ import annotations

import math

import numpy as np
import pytest
from operation_cards import card_of

import wmmadiag
from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.evaluation import judge, reference
from wmmadiag.subject.binding import bind


def test_each_row_meets_the_matrix_of_its_group():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((9, 5)).astype(np.float32), rng.standard_normal((3, 5, 4)).astype(np.float32)
    starts = np.array([0, 4, 4, 7], np.int32)  # the second has none, rows 7 and 8 are no group's
    got = wmmadiag.reference("grouped_gemm", a=a, b=b, starts=starts).value
    for i, j in np.ndindex(got.shape):
        group = next((g for g in range(3) if starts[g] <= i < starts[g + 1]), None)
        want = 0.0 if group is None else math.fsum(a[i].astype(float) * b[group, :, j].astype(float))
        assert math.isclose(got[i, j], want, rel_tol=1e-12, abs_tol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_drawn_groups_cover_all_rows_and_have_different_lengths(tmp_path, seed):
    card = card_of(OPERATIONS["grouped_gemm"], tmp_path)
    bound = bind(card, card.cases[1], card.variants[0], seed=seed)
    starts = bound.inputs()["starts"]
    assert starts[0] == 0 and starts[-1] == bound.inputs()["a"].shape[0] and (np.diff(starts) >= 0).all()
    assert (np.diff(starts) == 0).any() and len(set(np.diff(starts).tolist())) > 1


def test_single_precision_is_within_the_bound_and_the_next_groups_matrix_is_not():
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((40, 64)).astype(np.float16), rng.standard_normal((4, 64, 16)).astype(np.float16)
    starts = np.array([0, 3, 20, 20, 40], np.int32)
    want = wmmadiag.reference("grouped_gemm", a=a, b=b, starts=starts, dtype="f32")
    group = np.searchsorted(starts, np.arange(40), side="right") - 1
    for shift in (0, 1):
        rows = [a[i].astype(np.float32) @ b[(group[i] + shift) % 4].astype(np.float32) for i in range(40)]
        assert wmmadiag.compare_arrays(np.stack(rows), want).passed == (shift == 0)


PARAMETERS = {
    "alpha": 1.0, "beta": 1.0, "transpose_a": False, "transpose_b": False, "activation": "none",
    "epilogue_dtype": "auto", "accumulate": "auto", "accumulate_step": 8, "multiply": "auto",
}  # fmt: skip


@pytest.mark.parametrize("shared", ["a", "b", "c"])
@pytest.mark.parametrize("form", ["left out", "extent 1", "stride 0"])
def test_a_batched_gemm_may_share_an_operand(tmp_path, shared, form):
    extents = {"a": ("M", "K"), "b": ("K", "N"), "c": ("M", "N")}[shared]
    said = {
        "left out": f'shape = ["{extents[0]}", "{extents[1]}"]',
        "extent 1": f'shape = [1, "{extents[0]}", "{extents[1]}"]',
        "stride 0": f'strides = [0, "{extents[1]}", 1]',
    }[form]
    card = card_of(OPERATIONS["gemm"], tmp_path, {shared: said, "c": said if shared == "c" else ""})
    bound = bind(card, card.cases[1], card.variants[0])
    inputs = bound.inputs()
    expected = reference("gemm", PARAMETERS, inputs)["d"]
    assert expected.shape == bound.outputs()["d"].shape == (3, 16, 24)
    one = {role: array[0] if array.ndim == 3 else array for role, array in inputs.items() if role == shared}
    for batch in range(3):
        parts = {role: one[role] if role in one else inputs[role][batch] for role in "abc"}
        np.testing.assert_allclose(expected[batch], parts["a"].astype(float) @ parts["b"] + parts["c"], rtol=1e-6)
    assert judge("gemm", PARAMETERS, inputs, {"d": expected}, bound.elements())["d"].bound.shape == expected.shape


@pytest.mark.parametrize(("layout", "shape"), [("M", (1, 16, 1)), ("N", (1, 1, 24)), ("BN", (3, 1, 24))])
def test_a_bias_is_one_per_row_or_column_as_its_layout_says(tmp_path, layout, shape):
    card = card_of(OPERATIONS["gemm"], tmp_path, {"bias": f'layout = "{layout}"'})
    bound = bind(card, card.cases[1], card.variants[0])
    inputs = bound.inputs()
    assert inputs["bias"].shape == shape
    got = reference("gemm", {**PARAMETERS, "beta": 0.0}, inputs)["d"]
    np.testing.assert_allclose(got, inputs["a"].astype(float) @ inputs["b"] + inputs["bias"], rtol=1e-6)


def test_each_slot_meets_the_matrix_of_its_blocks_expert():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((3, 5)).astype(np.float32), rng.standard_normal((2, 5, 4)).astype(np.float32)
    weights = rng.standard_normal(6).astype(np.float32)
    ids, experts = np.array([[4, 0], [1, 6], [3, 5], [2, 6]], np.int32), np.array([1, 0, 0, 1], np.int32)
    sized = {"ids": ids, "experts": experts, "choices": 2}
    got = wmmadiag.reference("routed_gemm", a=a, b=b, slot_weights=weights, **sized).value
    plain = wmmadiag.reference("routed_gemm", a=a, b=b, slot_weights=weights, weighted=False, **sized).value
    for slot, expert in zip([4, 0, 1, 3, 5, 2], [1, 1, 0, 0, 0, 1], strict=True):
        want = a[slot // 2].astype(float) @ b[expert].astype(float)
        np.testing.assert_allclose(plain[slot], want, rtol=1e-12)
        np.testing.assert_allclose(got[slot], want * float(weights[slot]), rtol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_drawn_slots_are_each_there_once_with_padding_at_the_ends_of_blocks(tmp_path, seed):
    card = card_of(OPERATIONS["routed_gemm"], tmp_path)
    inputs = bind(card, card.cases[1], card.variants[0], seed=seed).inputs()
    ids, slots = inputs["ids"], 2 * len(inputs["a"])
    assert sorted(ids[ids < slots]) == list(range(slots)) and (ids == slots).any()
    assert all((np.diff((row == slots).astype(int)) >= 0).all() for row in ids)
    assert inputs["experts"].max() == len(inputs["b"]) - 1
