"""The softmax of given scores times the values: its definition, what attention makes of the same scores, its bound."""

from __future__ import annotations

import numpy as np
import pytest

from wmmadiag.numerics.element_types import TYPES
from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.evaluation import judge, reference


def parameters(operation, **said):
    return (
        {name: one.default for name, one in OPERATIONS[operation].parameters.items()}
        | {"causal": 0, "mask_hides": 0}
        | said
    )


def tensors(seed, h=4, kv=2, sq=3, skv=5, dv=6):
    rng = np.random.default_rng(seed)
    return {"s": rng.standard_normal((2, h, sq, skv)), "v": rng.standard_normal((2, kv, skv, dv))}


def test_it_is_its_definition():
    data = tensors(0)
    mask = np.array([[1, 1, 0, 1, 0], [1, 0, 1, 1, 1]])[:, None, None, :]
    got = reference("softmax_pv", parameters("softmax_pv", scale=0.5), {**data, "mask": mask})["o"]
    for b, h, i in np.ndindex(2, 4, 3):
        weights = np.exp(0.5 * data["s"][b, h, i]) * mask[b, 0, 0]
        want = weights / weights.sum() @ data["v"][b, h // 2]
        np.testing.assert_allclose(got[b, h, i], want, rtol=1e-12)


@pytest.mark.parametrize("alignment", ["top-left", "bottom-right"])
def test_of_the_scores_of_an_attention_it_is_the_attention(alignment):
    rng = np.random.default_rng(1)
    q, k, v = rng.standard_normal((4, 8)), rng.standard_normal((7, 8)), rng.standard_normal((7, 5))
    masks = {"causal": 1, "alignment": alignment}
    whole = reference("attention", parameters("attention", scale=0.25, softcap=0.0, **masks), {"q": q, "k": k, "v": v})
    half = reference("softmax_pv", parameters("softmax_pv", scale=0.25, **masks), {"s": q @ k.T, "v": v})
    np.testing.assert_allclose(half["o"], whole["o"], rtol=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_weights_in_halves_are_within_the_bound_and_sums_of_others_are_not(seed):
    data = {role: one.astype(np.float16) for role, one in tensors(seed, 2, 2, 16, 48, 16).items()}
    said = parameters("softmax_pv", scale=1.0, accumulate_step=8)
    expected = reference("softmax_pv", said, data)
    bound = judge("softmax_pv", said, data, expected, dict.fromkeys([*data, "o"], TYPES["f16"]))["o"].bound

    def run(keys):
        scores = data["s"].astype(np.float32)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        p = (weights / weights[..., :keys].sum(axis=-1, keepdims=True)).astype(np.float16).astype(np.float32)
        return np.abs((p @ data["v"].astype(np.float32)).astype(np.float16) - expected["o"]) > bound

    assert not run(48).any()
    assert run(47).mean() > 0.2
