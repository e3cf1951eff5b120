"""Products of tokens with the experts that are chosen for them, against their definition, however that is told."""

from __future__ import annotations

import numpy as np
import pytest

from wmmadiag.errors import ConfigurationError
from wmmadiag.numerics.element_types import TYPES
from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.evaluation import judge, reference

M, N, K, G, CHOICES = 7, 5, 6, 3, 2


def tensors(seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    return {
        "a": rng.standard_normal((M, K)).astype(dtype),
        "b": rng.standard_normal((G, K, N)).astype(dtype),
        "chosen": rng.integers(0, G, (M, CHOICES)).astype(np.int32),
        "weights": rng.random((M, CHOICES)).astype(np.float32),
    }


def parameters(**said):
    known = {name: one.default for name, one in OPERATIONS["expert_gemm"].parameters.items()}
    return {**known, "accumulate_step": 8, "choices": CHOICES, "weighted": 1, "combined": 0, **said}


@pytest.mark.parametrize("weighted", [0, 1])
@pytest.mark.parametrize("combined", [0, 1])
def test_it_is_its_definition(weighted, combined):
    data = tensors()
    got = reference("expert_gemm", parameters(weighted=weighted, combined=combined), data)["d"]
    each = np.empty((M, CHOICES, N))
    for token, choice in np.ndindex(M, CHOICES):
        product = data["a"][token].astype(float) @ data["b"][data["chosen"][token, choice]].astype(float)
        each[token, choice] = product * (data["weights"][token, choice] if weighted else 1.0)
    np.testing.assert_allclose(got, each.sum(axis=1) if combined else each.reshape(-1, N), rtol=1e-12)


def test_pairs_that_are_sorted_say_the_same():
    data = tensors(1)
    pairs = data["chosen"].reshape(-1)
    of_ids = {role: data[role] for role in ("a", "b", "weights")}
    of_ids["ids"] = np.argsort(pairs, kind="stable").astype(np.int32)
    of_ids["starts"] = np.searchsorted(np.sort(pairs), np.arange(G + 1)).astype(np.int32)
    one, other = (reference("expert_gemm", parameters(combined=1), given)["d"] for given in (data, of_ids))
    np.testing.assert_allclose(one, other, rtol=1e-12)


def test_something_has_to_say_which_experts_are_chosen():
    data = {role: one for role, one in tensors().items() if role != "chosen"}
    with pytest.raises(ConfigurationError, match="which experts"):
        reference("expert_gemm", parameters(), data)


def test_products_that_are_kept_in_halves_are_within_its_bound_and_no_other():
    data = tensors(2, np.float16)
    types = dict.fromkeys("ab", TYPES["f16"]) | {"chosen": TYPES["s32"], "weights": TYPES["f32"], "d": TYPES["f32"]}
    each = reference("expert_gemm", parameters(), data)["d"].reshape(M, CHOICES, N)
    kept = each.astype(np.float16).astype(np.float32).sum(axis=1)
    within = []
    for kind in ("auto", "f16"):
        said = parameters(combined=1, kept_dtype=kind)
        expected = reference("expert_gemm", said, data)
        bound = judge("expert_gemm", said, data, expected, types)["d"].bound
        within.append((np.abs(kept - expected["d"]) <= bound).mean())
    assert within[0] < 0.5 and within[1] == 1.0


@pytest.mark.parametrize("operation", ["expert_gemm", "grouped_gemm", "routed_gemm"])
def test_bytes_are_summed_exactly_and_scaled_by_rows_and_columns_of_each_matrix(operation):
    rng = np.random.default_rng(3)
    data = {"a": rng.integers(-9, 9, (M, K)).astype(np.int8), "b": rng.integers(-9, 9, (G, K, N)).astype(np.int8)}
    scales = {"a_scales": rng.random(M).astype(np.float32), "b_scales": rng.random((G, N)).astype(np.float32)}
    told = {
        "expert_gemm": {"chosen": rng.integers(0, G, (M, 1)).astype(np.int32)},
        "grouped_gemm": {"starts": np.array([0, 2, 2, M], np.int32)},
        "routed_gemm": {
            "ids": np.array([[0, 3, 6, 7], [1, 7, 7, 7], [2, 4, 5, 7]], np.int32),
            "experts": np.array([2, 0, 1], np.int32),
        },
    }[operation]
    known = {name: one.default for name, one in OPERATIONS[operation].parameters.items()}
    said = {**known, "accumulate_step": 8, "choices": 1, "weighted": 0, "combined": 0}
    expected = reference(operation, said, {**data, **told, **scales})
    by_hand = {
        "a": data["a"] * scales["a_scales"].astype(float)[:, None],
        "b": data["b"] * scales["b_scales"].astype(float)[:, None, :],
    }
    np.testing.assert_allclose(expected["d"], reference(operation, said, {**by_hand, **told})["d"], rtol=1e-12)
    types = dict.fromkeys("ab", TYPES["s8"]) | dict.fromkeys([*scales, "d"], TYPES["f32"])
    types |= dict.fromkeys(told, TYPES["s32"])
    bound = judge(operation, said, {**data, **told, **scales}, expected, types)["d"].bound
    # Four units of the terms, two for weights and one of the result, no more: sums of bytes are exact.
    sizes = reference(operation, said, {**{role: np.abs(one) for role, one in by_hand.items()}, **told})["d"]
    assert (bound <= 2.0**-24 * (6.001 * sizes + 1.001 * np.abs(expected["d"])) + 1e-30).all()
