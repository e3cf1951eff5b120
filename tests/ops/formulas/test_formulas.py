"""Formulas: what they mean, against NumPy, and that their bounds hold what rounding explains and little more."""

from __future__ import annotations

import numpy as np
import pytest

from wmmadiag.numerics.element_types import TYPES
from wmmadiag.ops.formulas.evaluate import evaluated
from wmmadiag.ops.formulas.functions import Reckoning
from wmmadiag.ops.formulas.indices import NamedTensor, Wanted
from wmmadiag.ops.formulas.syntax import parsed, parsed_prefix
from wmmadiag.ops.formulas.tree import FormulaError
from wmmadiag.ops.parts.rounding import arithmetic

M, N, K, B = 3, 5, 4, 2
RANDOM = np.random.default_rng(0)
TENSORS = {
    "x": (RANDOM.standard_normal((M, K)), ("M", "K")),
    "w": (RANDOM.standard_normal((N, K)), ("N", "K")),
    "v": (RANDOM.standard_normal((K, N)), ("K", "N")),
    "bias": (RANDOM.standard_normal(N), ("N",)),
    "g": (RANDOM.standard_normal(K), ("K",)),
    "a": (RANDOM.standard_normal((B, M, K)), ("B", "M", "K")),
    "c": (RANDOM.standard_normal((B, N, K)), ("B", "N", "K")),
    "index": (np.array([2.0, 0.0, 1.0]), ("M",)),
    "q": (RANDOM.standard_normal((B, M, 2, K)), ("B", "S", "H", "K")),
    "k": (RANDOM.standard_normal((B, M, 2, K)), ("B", "S", "H", "K")),
}
X, W, V, BIAS, G, A, C = (TENSORS[name][0] for name in ("x", "w", "v", "bias", "g", "a", "c"))
NUMBERS = {"alpha": 0.5, "M": M, "N": N, "K": K, "eps": 1e-3, "pad": 1}


def said(texts, shape, dims, before=None, meaning=None):
    """What statements say of `y`: its values and bounds."""
    names = {*TENSORS, "y", *(one.split("[")[0].split("=")[0].strip() for one in texts)}
    statements = [parsed(one, names.__contains__) for one in texts]
    tensors = {name: NamedTensor(value, own, whole=name == "index") for name, (value, own) in TENSORS.items()}
    meaning = meaning or Reckoning(arithmetic({}, TYPES["f32"]), numbers=NUMBERS)
    return evaluated(statements, tensors, NUMBERS, {"y": Wanted(shape, dims, before)}, meaning)["y"]


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y[m, n] = sum_k x[m, k] * w[n, k]", X @ W.T),
        ("y[m][n] = sum over k of x[m][k] w[n][k]", X @ W.T),
        ("y(m, n) = sum_{k} x_{m,k} w_{n,k}", X @ W.T),
        ("y[m, n] = x[m] . w[n] + bias[n]", X @ W.T + BIAS),
        ("y[m, n] = <x_m, w_n>", X @ W.T),
        ("y = x @ w.T", X @ W.T),
        ("y = x w^T + bias", X @ W.T + BIAS),
        ("y = alpha * x * v", 0.5 * X @ V),
        ("y = torch.nn.functional.linear(x, w, bias)", X @ W.T + BIAS),
        ("y = relu(x · wᵀ)", np.maximum(X @ W.T, 0)),
        ("y = silu(x @ v)", (X @ V) / (1 + np.exp(-(X @ V)))),
        ("y = softmax(alpha * x w^T)", softmax(0.5 * X @ W.T)),
        ("y[m, n] = softmax_n(sum_k x[m, k] w[n, k])", softmax(X @ W.T)),
        ("y[m, n] = |x_m - w_n|^2", ((X[:, None] - W) ** 2).sum(-1)),
        ("y(m, n)^2 = |x_m|^2 + |w_n|^2 - 2 <x_m, w_n>", np.sqrt(((X[:, None] - W) ** 2).sum(-1))),
        ("y = cdist(x, w)", np.sqrt(((X[:, None] - W) ** 2).sum(-1))),
        ("y = rmsnorm(x, g, eps) @ w^T", (X / np.sqrt((X**2).mean(-1, keepdims=True) + 1e-3) * G) @ W.T),
        ("y[m, n] = sum_{k <= n} x[m, k] * w[n, k]", np.einsum("mk,nk,nk->mn", X, W, np.tril(np.ones((N, K))))),
        ("y[m, n] = sum_k x[index[m], k] * w[n, k]", X[[2, 0, 1]] @ W.T),
        ("y[m, n] = max_k x[m, k] - bias[n]", X.max(-1)[:, None] - BIAS),
        ("y[m, n] = mean_k x[m, k] * w[n, k]", X @ W.T / K),
        ("y = clamp(round(x w^T), -1, 1)", np.clip(np.rint(X @ W.T), -1, 1)),
        ("y = tril(x w^T)", np.tril(X @ W.T)),
    ],
)
def test_a_formula_means_what_it_says(text, expected):
    found = said([text], (M, N), ("M", "N"))
    assert found.known.all()
    np.testing.assert_allclose(found.v, expected, rtol=1e-12, atol=1e-12)


def test_statements_build_on_names_of_others():
    found = said(["h[m, :] = x[m, :] @ v", "y[m, n] = tanh(h[m, n]) + bias[n]"], (M, N), ("M", "N"))
    np.testing.assert_allclose(found.v, np.tanh(X @ V) + BIAS)


def test_leading_axes_of_a_target_are_those_of_its_operands():
    batched = said(["y = a @ c^T"], (B, M, N), ("B", "M", "N"))
    np.testing.assert_allclose(batched.v, A @ C.transpose(0, 2, 1))
    q, k = TENSORS["q"][0], TENSORS["k"][0]
    scores = said(["y = q * k^T"], (B, 2, M, M), ("B", "H", "S", "S"))
    np.testing.assert_allclose(scores.v, np.einsum("bshd,bthd->bhst", q, k))


def test_what_lies_outside_of_a_tensor_is_zero():
    found = said(["y[m, k] = x[m - pad, k]"], (M, K), ("M", "K"))
    np.testing.assert_array_equal(found.v, np.vstack([np.zeros(K), X[:-1]]))


def test_a_target_may_be_said_in_part_and_added_to():
    before = RANDOM.standard_normal((M, N))
    added = said(["y += x @ v"], (M, N), ("M", "N"), before)
    np.testing.assert_allclose(added.v, before + X @ V)
    lower = said(["y[m, n] = sum_k x[m, k] * w[n, k] for n <= m"], (M, N), ("M", "N"))
    assert (lower.known == np.tril(np.ones((M, N), bool))).all()


def test_pairs_are_complex_numbers():
    z = TENSORS["x"][0] + 1j * RANDOM.standard_normal((M, K))
    statements = [parsed("y[i, j] = sum_t z[i, t] * conj(z[j, t])", {"y", "z"}.__contains__)]
    meaning = Reckoning(arithmetic({}, TYPES["f32"]))
    found = evaluated(statements, {"z": NamedTensor(z, ("M", "K"))}, {}, {"y": Wanted((M, M), ("M", "M"))}, meaning)[
        "y"
    ]
    np.testing.assert_allclose(found.v, z @ z.conj().T)


def test_pairs_may_be_numbered_along_an_axis():
    statements = ["pair(i, j) = i * (i + 1) / 2 + j for j <= i", "y(i, j) = sum over K of a_i * a_j"]
    found = said(statements, (B, M * (M + 1) // 2), ("B", "pair"))
    rows, columns = np.tril_indices(M)
    np.testing.assert_allclose(found.v, (A @ A.transpose(0, 2, 1))[:, rows, columns])
    assert found.known.all()


@pytest.mark.parametrize(
    "text",
    [
        "y[m, n] = tanh(sum_k x[m, k] * w[n, k]) * sigmoid(bias[n])",
        "y = softmax(x w^T)",
        "y = layernorm(x, g, eps) @ w^T",
        "y = cdist(x, w)",
        "y = exp(x w^T) / (1 + |x[0, 0]|)",
    ],
)
def test_the_bound_holds_what_single_precision_gives_and_little_more(text, monkeypatch):
    exact = said([text], (M, N), ("M", "N"))
    narrow = {name: (value.astype(np.float32), dims) for name, (value, dims) in TENSORS.items()}
    monkeypatch.setitem(globals(), "TENSORS", narrow)
    stored = said([text], (M, N), ("M", "N"))
    # float32 inputs computed in float64 move a result by their own rounding: about what one rounding of each does
    error = np.abs(stored.v - exact.v)
    assert (exact.e > 0).all()
    assert (error <= 16 * exact.e).all()
    assert exact.e.max() < 1e-2 * np.abs(exact.v).max()


def test_an_index_named_again_by_its_condition_counts_once():
    once, twice = (said([f"y[m] = sum_{{{of}}} x[m, k]"], (M,), ("M",)) for of in ("k <= m", "k, k <= m"))
    assert np.array_equal(once.v, twice.v) and np.array_equal(once.e, twice.e)


def test_narrow_values_on_the_way_widen_the_bound():
    model = arithmetic({}, TYPES["f32"])
    text = ["y = relu(x) @ w^T"]
    plain = said(text, (M, N), ("M", "N"), meaning=Reckoning(model))
    narrow = said(text, (M, N), ("M", "N"), meaning=Reckoning(model, TYPES["f16"].unit))
    half = np.maximum(X, 0).astype(np.float16).astype(np.float64) @ W.T
    assert (np.abs(half - plain.v) > plain.e).any()
    assert (np.abs(half - plain.v) <= narrow.e).all()


@pytest.mark.parametrize(
    "text",
    [
        "for each row = x",
        "y[m, n]",
        "y = ",
        "y[m, n] = sum_k x[m, k",
        "y = f(x",
        "y == x",
    ],
)
def test_what_is_no_formula_is_refused(text):
    with pytest.raises(FormulaError):
        parsed(text, TENSORS.__contains__)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("y = x @ w", "contracted"),
        ("y = x + w", "meet"),
        ("y[m, n] = unknown[m] * bias[n]", "unknown"),
        ("y[m, n] = x[m, z]", "'z'"),
        ("y[m, n] = x[m, k] * bias[n]", "'k' is left open"),
        ("y = clamp(x w^T)", "clamp"),
        ("y[m, n] = x[m, n, 0, 0]", "axes"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_with_its_reason(text, reason):
    with pytest.raises(FormulaError, match=reason):
        said([text], (M, N), ("M", "N"))


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("y = x @ w.T + bias     (bias may be null)", "(bias may be null)"),
        ("y = x w^T   one warp for each row", "one warp for each row"),
        ("y[m] = sum_k x[m, k], where k < K", ", where k < K"),
    ],
)
def test_prose_behind_a_formula_is_left(text, rest):
    assert parsed_prefix(text, TENSORS.__contains__)[1] == rest
