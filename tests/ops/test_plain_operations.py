"""Operations beside products and attention against their formulas, written out, and what their bounds tell apart."""

from __future__ import annotations

import math

import numpy as np
import pytest

import wmmadiag

RNG = np.random.default_rng


def test_elementwise_is_its_definition():
    x, up, other = RNG(0).standard_normal((3, 4, 5))
    bias = RNG(1).standard_normal(5)
    got = wmmadiag.reference(
        "elementwise", x=x, factor=up, addend=other, bias=bias, activation="silu", alpha=2.0, beta=3.0
    ).value
    for i, j in np.ndindex(got.shape):
        z = 2.0 * (x[i, j] + bias[j])
        assert math.isclose(got[i, j], z / (1 + math.exp(-z)) * up[i, j] + 3.0 * other[i, j], rel_tol=1e-12)


@pytest.mark.parametrize("halves", ["behind", "alternate"])
@pytest.mark.parametrize("last", [False, True])
def test_glu_is_its_definition(halves, last):
    x = RNG(2).standard_normal((3, 8))
    got = wmmadiag.reference("glu", x=x, halves=halves, gate_last=last).value
    for i, j in np.ndindex(3, 4):
        first, second = (x[i, j], x[i, j + 4]) if halves == "behind" else (x[i, 2 * j], x[i, 2 * j + 1])
        gate, up = (second, first) if last else (first, second)
        assert math.isclose(got[i, j], gate / (1 + math.exp(-gate)) * up, rel_tol=1e-12)


def test_gemv_is_its_definition():
    a, x, c, bias = RNG(3).standard_normal((4, 6)), *(RNG(4).standard_normal(n) for n in (6, 4, 4))
    got = wmmadiag.reference("gemv", a=a, x=x, c=c, bias=bias, alpha=2.0, beta=0.5).value
    for i in range(4):
        want = 2.0 * math.fsum(a[i] * x) + bias[i] + 0.5 * c[i]
        assert math.isclose(got[i], want, rel_tol=1e-12)
    turned = wmmadiag.reference("gemv", a=np.ascontiguousarray(a.T), x=x, transpose_a=True).value
    np.testing.assert_allclose(turned, a @ x, rtol=1e-12)


def test_transposes_are_exact():
    x = RNG(5).standard_normal((2, 3, 4)).astype(np.float32)
    found = wmmadiag.reference("transpose", x=x)
    np.testing.assert_array_equal(found.value, np.swapaxes(x, 1, 2))
    assert not found.bound.any()


@pytest.mark.parametrize("pairs", ["halves", "neighbours"])
def test_rope_is_its_definition(pairs):
    x = RNG(6).standard_normal((5, 2, 8))
    got = wmmadiag.reference("rope", x=x[None], pairs=pairs, offset=3, theta=100.0).value[0]
    for t, h, i in np.ndindex(5, 2, 4):
        angle = (t + 3) * 100.0 ** (-2 * i / 8)
        one, other = (i, i + 4) if pairs == "halves" else (2 * i, 2 * i + 1)
        p, q = x[t, h, one], x[t, h, other]
        assert math.isclose(got[t, h, one], p * math.cos(angle) - q * math.sin(angle), abs_tol=1e-12)
        assert math.isclose(got[t, h, other], q * math.cos(angle) + p * math.sin(angle), abs_tol=1e-12)


def test_losses_are_their_definition():
    x, targets = RNG(7).standard_normal((4, 9)), np.array([0, 8, 3, 3], np.int32)
    found = wmmadiag.reference("cross_entropy", x=x.astype(np.float32), targets=targets)
    rows = x.astype(np.float32).astype(float)
    for t in range(4):
        want = math.log(math.fsum(map(math.exp, rows[t]))) - rows[t, targets[t]]
        assert math.isclose(found.value[t], want, rel_tol=1e-9)
    assert (found.bound < 1e-4).all()


def test_smoothed_losses_are_their_definition():
    x, targets = RNG(7).standard_normal((4, 9)).astype(np.float32), np.array([0, 8, 3, 3], np.int32)
    found = wmmadiag.reference("cross_entropy", x=x, targets=targets, smoothing=0.25)
    for t, row in enumerate(x.astype(float)):
        logarithms = row - math.log(math.fsum(map(math.exp, row)))
        want = -0.75 * logarithms[targets[t]] - 0.25 * math.fsum(logarithms) / 9
        assert math.isclose(found.value[t], want, rel_tol=1e-9)
    assert (found.bound < 1e-4).all()


def test_a_scaled_product_with_a_vector_is_its_definition():
    a, x = RNG(3).integers(-100, 100, (4, 6)).astype(np.int8), RNG(4).standard_normal(6).astype(np.float32)
    scale, bias = RNG(5).standard_normal((2, 4)).astype(np.float32)
    found = wmmadiag.reference("gemv", a=a, x=x, scale=scale, bias=bias, dtype="f32")
    for i in range(4):
        want = math.fsum(a[i].astype(float) * x) * float(scale[i]) + float(bias[i])
        assert math.isclose(found.value[i], want, rel_tol=1e-12)
    single = (a.astype(np.float32) @ x) * scale + bias
    assert np.allclose(single, found.value, rtol=0, atol=found.bound) and (found.bound < 0.1).all()


def test_embeddings_are_their_definition():
    table, positions = RNG(8).standard_normal((7, 3)), RNG(9).standard_normal((4, 3))
    rows = np.array([6, 0, 2, 2], np.int32)
    got = wmmadiag.reference("embedding", indices=rows, table=table, positions=positions).value
    np.testing.assert_allclose(got, table[rows] + positions, rtol=1e-12)


@pytest.mark.parametrize(("kind", "made"), [("sum", math.fsum), ("max", max), ("min", min)])
def test_reductions_are_their_definition(kind, made):
    x = RNG(10).standard_normal((3, 17))
    got = wmmadiag.reference("reduce", x=x, reduction=kind).value
    np.testing.assert_allclose(got, [made(row) for row in x], rtol=1e-12)


def test_sums_of_a_scan():
    x = RNG(11).standard_normal(9)
    whole, without = (wmmadiag.reference("scan", x=x, exclusive=one).value for one in (False, True))
    np.testing.assert_allclose(whole, [math.fsum(x[: i + 1]) for i in range(9)], rtol=1e-12)
    np.testing.assert_allclose(without, [math.fsum(x[:i]) for i in range(9)], rtol=1e-9, atol=1e-12)


def test_a_histogram_adds_to_what_is_there():
    x, start = np.array([0, 3, 3, 1], np.uint8), np.array([1, 0, 0, 5], np.uint32)
    got = wmmadiag.reference("histogram", x=x, start=start).value
    np.testing.assert_array_equal(got, [2, 1, 0, 7])


def several(operation, parameters, inputs, types):
    from wmmadiag.numerics.element_types import TYPES
    from wmmadiag.ops import OPERATIONS
    from wmmadiag.ops.evaluation import judge, reference

    defaults = {name: one.default for name, one in OPERATIONS[operation].parameters.items()}
    own = {**defaults, **parameters}
    expected = reference(operation, own, inputs)
    elements = {role: TYPES[kind] for role, kind in types.items()}
    return expected, judge(operation, own, inputs, expected, elements)


def test_bytes_are_rounded_to_the_nearest():
    x = RNG(12).standard_normal((3, 40)).astype(np.float32)
    expected, judged = several(
        "quantize", {"levels": 127.0, "reciprocal": False}, {"x": x}, {"x": "f32", "y": "s8", "scale": "f32"}
    )
    scale = np.abs(x).max(axis=1, keepdims=True) / np.float32(127)
    assert (np.abs(np.rint(x / scale) - expected["y"]) <= judged["y"].bound).all()
    assert (np.abs(np.trunc(x / scale) - expected["y"]) > judged["y"].bound).any()


@pytest.mark.parametrize(("name", "centred"), [("rmsnorm", False), ("layernorm", True)])
def test_quantised_rows_of_a_norm_are_within_half_a_level(name, centred):
    x = RNG(14).standard_normal((3, 64)).astype(np.float32)
    settings = {"eps": 1e-6, "gain": 1.0, "shift": 0.0, "unit_offset": False, "variance": "any", "levels": 127.0}
    settings |= {"normalized_dtype": "auto", "sum_dtype": "auto"}
    expected, judged = several(name, settings, {"x": x}, {"x": "f32", "y": "s8", "scale": "f32"})
    rows = x - x.mean(axis=1, keepdims=True) if centred else x
    rows = rows / np.sqrt((rows**2).mean(axis=1, keepdims=True) + np.float32(1e-6))
    scale = np.abs(rows).max(axis=1, keepdims=True) / np.float32(127)
    assert (np.abs(np.rint(rows / scale) - expected["y"]) <= judged["y"].bound).all()
    assert (np.abs(scale[:, 0] - expected["scale"]) <= judged["scale"].bound).all()
    assert (np.abs(np.trunc(rows / scale) - expected["y"]) > judged["y"].bound).any()
    assert (np.abs(scale[:, 0] * 1.001 - expected["scale"]) > judged["scale"].bound).all()


def test_norms_of_rows_are_roots_of_sums_of_squares():
    x = RNG(15).standard_normal((3, 64)).astype(np.float32)
    for then, power in (("nothing", 1.0), ("root", 0.5), ("reciprocal-root", -0.5)):
        settings = {"reduction": "sum", "of": "square", "then": then}
        expected, judged = several("reduce", settings, {"x": x}, {"x": "f32", "y": "f32"})
        norms = (x.astype(float) ** 2).sum(axis=1) ** power
        np.testing.assert_allclose(expected["y"], norms, rtol=1e-12)
        assert (np.abs(norms.astype(np.float32) - expected["y"]) <= judged["y"].bound).all()
        assert (judged["y"].bound < 1e-4 * norms).all()


@pytest.mark.parametrize("again", [False, True])
def test_the_largest_of_a_softmax(again):
    x = RNG(13).standard_normal((4, 16)).astype(np.float32)
    expected, judged = several(
        "topk_softmax",
        {"k": 3, "renormalize": again},
        {"x": x},
        {"x": "f32", "weights": "f32", "indices": "s32"},
    )
    for row, weights, places in zip(x.astype(float), expected["weights"], expected["indices"], strict=True):
        order = sorted(range(16), key=lambda i, row=row: -row[i])[:3]
        assert list(places) == order
        total = math.fsum(math.exp(row[i]) for i in (order if again else range(16)))
        np.testing.assert_allclose(weights, [math.exp(row[i]) / total for i in order], rtol=1e-12)
    assert (judged["weights"].bound < 1e-4).all()


@pytest.mark.parametrize("decay", ["decoupled", "of-gradient"])
def test_adam_is_its_definition(decay):
    p, g, m, v = RNG(14).standard_normal((4, 6))
    v = v**2
    own = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "eps": 0.01, "weight_decay": 0.2, "grad_scale": 1.0, "step": 3}
    own |= {"corrected": True, "decay": decay, "eps_inside": False}
    types = dict.fromkeys(("p", "grad", "m", "v", "p_out", "m_out", "v_out"), "f32")
    expected, judged = several("adam", own, {"p": p, "grad": g, "m": m, "v": v}, types)
    for i in range(6):
        gradient = g[i] + (0.2 * p[i] if decay == "of-gradient" else 0.0)
        first, second = 0.9 * m[i] + 0.1 * gradient, 0.99 * v[i] + 0.01 * gradient**2
        step = first / (1 - 0.9**3) / (math.sqrt(second / (1 - 0.99**3)) + 0.01)
        want = p[i] - 0.1 * (step + (0.2 * p[i] if decay == "decoupled" else 0.0))
        got = [expected[role][i] for role in ("p_out", "m_out", "v_out")]
        np.testing.assert_allclose(got, [want, first, second], rtol=1e-9)
    inside = np.sqrt(expected["v_out"] / (1 - 0.99**3) + 0.01)
    moved = 0.1 * expected["m_out"] / (1 - 0.9**3) / inside
    apart = 0.1 * 0.2 * p if decay == "decoupled" else 0.0
    assert (np.abs(p - moved - apart - expected["p_out"]) > judged["p_out"].bound).any()


def test_a_decoding_step_is_the_attention_of_one_query():
    q, k, v = (RNG(15 + i).standard_normal(shape) for i, shape in enumerate(((2, 4, 8), (2, 2, 5, 8), (2, 2, 5, 8))))
    lengths = np.array([3, 5], np.int32)
    got = wmmadiag.reference("decode_attention", q=q, k=k, v=v, lengths=lengths).value
    for b, h in np.ndindex(2, 4):
        keys, values = (one[b, h // 2, : lengths[b]] for one in (k, v))
        weights = np.exp(keys @ q[b, h] / math.sqrt(8))
        np.testing.assert_allclose(got[b, h], weights @ values / weights.sum(), rtol=1e-9)


def test_a_scale_of_each_row():
    x, scale = RNG(18).integers(-9, 9, (3, 4)).astype(np.int8), RNG(19).standard_normal((3, 1)).astype(np.float32)
    got = wmmadiag.reference("elementwise", x=x, scale=scale).value
    np.testing.assert_allclose(got, x * scale.astype(float), rtol=1e-12)


@pytest.mark.parametrize("operation", ["layernorm", "rmsnorm"])
def test_one_number_for_all_weights(operation):
    x = RNG(20).standard_normal((3, 6))
    plain = wmmadiag.reference(operation, x=x).value
    more = {"gain": 2.0, "shift": 0.5} if operation == "layernorm" else {"gain": 2.0}
    np.testing.assert_allclose(
        wmmadiag.reference(operation, x=x, **more).value, 2.0 * plain + more.get("shift", 0.0), rtol=1e-12
    )


def test_a_projection_of_queries_keys_and_values_is_its_definition():
    rng = RNG(16)
    inputs = {"x": rng.standard_normal((2, 3, 8))}
    for part, heads in (("q", 4), ("k", 2), ("v", 2)):
        inputs |= {f"w{part}": rng.standard_normal((heads, 5, 8)), f"b{part}": rng.standard_normal((heads, 5))}
    inputs = {name: one.astype(np.float16) for name, one in inputs.items()}
    expected, judged = several(
        "qkv_projection", {}, inputs, {**dict.fromkeys(inputs, "f16"), **dict.fromkeys("qkv", "f16")}
    )
    for part in "qkv":
        weight, bias = (inputs[f"{name}{part}"].astype(float) for name in "wb")
        for b, s, h, d in np.ndindex(expected[part].shape):
            want = math.fsum(inputs["x"][b, s].astype(float) * weight[h, d]) + bias[h, d]
            assert expected[part][b, s, h, d] == pytest.approx(want, rel=1e-12)
        assert (np.abs(expected[part].astype(np.float16) - expected[part]) <= judged[part].bound).all()
        assert (judged[part].bound < 0.02).all()
