"""Faults of products and of addressing: a NumPy kernel with the fault, and the model that must name it."""

from __future__ import annotations

import numpy as np
import pytest
from faulty_runs import attention_case, case, filled, flash, product_case

from wmmadiag.diagnose.faults import fit


def first(bound, output):
    fits = fit(filled(bound, output))
    assert fits, "no model fits"
    assert not fits[0].partial, fits[0]
    assert fits[0].residual <= 1.0
    return fits[0]


def gemm(bound, a=None, b=None):
    inputs = {role: array.astype(np.float32) for role, array in bound.inputs().items()}
    return (inputs["a"] if a is None else a) @ (inputs["b"] if b is None else b)


def parts(bound):
    return bound.inputs()["a"].astype(np.float32), bound.inputs()["b"].astype(np.float32)


@pytest.mark.parametrize("inputs", ["", "small_integers", "positive", "wide_exponents"])
def test_a_right_product_fits_nothing(inputs):
    bound = product_case(inputs=inputs)
    assert fit(filled(bound, gemm(bound))) == ()


@pytest.mark.parametrize("inputs", ["normal", "small_integers", "indexed"])
@pytest.mark.parametrize(("step", "number"), [(16, 0), (16, 5), (32, 1), (8, 11)])
def test_a_slice_that_is_missing_or_taken_twice_or_alone(step, number, inputs):
    bound = product_case(inputs=inputs)
    a, b = parts(bound)
    part = slice(number * step, number * step + step)
    inside = a[:, part] @ b[part]
    for output, model in ((a @ b - inside, "slice-dropped"), (a @ b + inside, "slice-twice"), (inside, "slice-only")):
        found = first(bound, output)
        assert found.model == model
        assert (found.parameters["first"], found.parameters["last"]) == (part.start, part.stop - 1)


def test_terms_without_a_pattern_are_solved_for():
    bound = product_case()
    a, b = parts(bound)
    counts = np.ones(96, np.float32)
    counts[[3, 4, 5, 40, 77]] = 0
    counts[60] = 2
    found = first(bound, (a * counts) @ b)
    assert found.model == "terms-counted"
    assert "3-5, 40, 77" in found.words
    assert "60" in found.words


@pytest.mark.parametrize(
    ("output", "model"),
    [
        (lambda p, c: p + 0.5 * c, "alpha-missing"),
        (lambda p, c: 2 * p + c, "beta-missing"),
        (lambda p, c: 2 * p, "c-not-added"),
        (lambda p, c: 0.5 * p + 2 * c, "alpha-beta-exchanged"),
        (lambda p, c: 0.5 * c, "only-c"),
    ],
)
def test_alpha_and_beta(output, model):
    bound = product_case(computes="alpha = 2\nbeta = 0.5", c=True)
    assert first(bound, output(gemm(bound), bound.inputs()["c"])).model == model


@pytest.mark.parametrize(
    ("alpha", "beta", "times", "named"),
    [(1, 3, 3, "beta-on-both"), (0.5, 4, 4, "beta-on-both"), (0.5, 3, 2, "alpha-missing"), (1, 3, 2, "terms-counted")],
)
def test_a_factor_on_the_whole_sum_is_no_loop_that_runs_too_often(alpha, beta, times, named):
    bound = product_case(computes=f"alpha = {alpha}\nbeta = {beta}", c=True)
    fits = fit(filled(bound, times * alpha * gemm(bound) + beta * bound.inputs()["c"]))
    assert fits[0].model == named
    assert {one.model for one in fits} & {"terms-counted"} == {named} & {"terms-counted"}


def test_transposed_operands_and_tiles():
    bound = product_case(64, 64, 64)
    a, b = parts(bound)
    found = first(bound, a @ b.T)
    assert (found.model, found.hypothesis) == ("transposed-b", "operand-layout")
    assert first(bound, a.T @ b).model == "transposed-a"
    assert first(bound, (a @ b).T).model == "transposed-output"
    assert first(bound, b @ a).model == "operands-exchanged"
    bound = product_case(48, 64, 96)
    a, b = parts(bound)
    turned = b.reshape(6, 16, 4, 16).transpose(0, 3, 2, 1).reshape(96, 64)
    found = first(bound, a @ turned)
    assert (found.model, found.parameters["tile"]) == ("tiles-transposed-b", 16)


@pytest.mark.parametrize("pitch", [48, 96, 72, 16])
def test_a_wrong_leading_dimension(pitch):
    bound = product_case(48, 64, 96)
    a, b = parts(bound)
    flat = np.concatenate([b.reshape(-1), np.full(96 * 64, np.nan, np.float32)])
    i, j = np.indices(b.shape)
    read = flat[i * pitch + j]
    fits = fit(filled(bound, a @ np.nan_to_num(read)))
    if pitch < 64:
        assert (fits[0].model, fits[0].parameters["pitch"], fits[0].partial) == ("pitch-b", pitch, False)
    # A tile's rows reach out of B from some row on: nothing is left to compare with.
    fragment = flat[i // 16 * 16 * 64 + j // 16 * 16 + i % 16 * pitch + j % 16]
    if np.isfinite(fragment).all():
        found = first(bound, a @ fragment)
        assert (found.model, found.parameters["pitch"]) == ("fragment-pitch-b", pitch)


def test_rows_shifted_in_an_operand():
    bound = product_case(64, 64, 32)
    a, b = parts(bound)
    fits = fit(filled(bound, np.concatenate([a[1:], np.ones((1, 32), np.float32)]) @ b))
    assert fits[0].model in ("rows-shifted-output", "rows-shifted-a", "rows-elsewhere")
    assert fits[0].hypothesis == "index-arithmetic"


def test_scaled_scores_and_p_times_v():
    bound = case("qkt", {"q": ("f16", ""), "k": ("f16", ""), "scores": ("f32", "")},
                 {"B": 1, "H": 2, "Sq": 40, "Skv": 48, "D": 32}, computes="scale = 0.125")  # fmt: skip
    q, k = (bound.inputs()[role].astype(np.float32) for role in "qk")
    plain = q @ k.transpose(0, 1, 3, 2)
    assert fit(filled(bound, plain * 0.125)) == ()
    assert first(bound, plain).model == "scale-missing"
    assert first(bound, plain / 64).model == "scale-twice"
    assert first(bound, plain[..., :32] @ np.zeros((32, 48)) + q[..., :16] @ k.transpose(0, 1, 3, 2)[..., :16, :] / 8
                 ).model == "slice-only"  # fmt: skip


def test_q_times_k_instead_of_its_transpose():
    bound = attention_case(Sq=64, D=64)
    q, k, v = (bound.inputs()[role].astype(np.float32) for role in "qkv")
    for size in (64, 128):
        bound = attention_case(Sq=size, D=64)
        q, k, v = (bound.inputs()[role].astype(np.float32) for role in "qkv")
        tiles = [q @ k[:, :, start : start + 64] for start in range(0, size, 64)]
        scores = np.concatenate(tiles, axis=-1) / 8
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        found = first(bound, weights / weights.sum(-1, keepdims=True) @ v)
        assert found.hypothesis == "operand-layout"
        assert "Q·K there instead" in found.words or "Q·K per tile" in found.words


@pytest.mark.parametrize("role", ["k", "v"])
def test_the_wrong_head(role):
    bound = attention_case(B=2, H=4, Hkv=2, Sq=48, D=32)
    inputs = {name: array.astype(np.float32) for name, array in bound.inputs().items()}
    maps = {"k": np.arange(4) // 2, "v": np.arange(4) // 2, role: np.arange(4) % 2}
    q, k, v = inputs["q"], inputs["k"][:, maps["k"]], inputs["v"][:, maps["v"]]
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(np.float32(32))
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    fits = fit(filled(bound, weights / weights.sum(-1, keepdims=True) @ v))
    assert (fits[0].model, fits[0].hypothesis, fits[0].partial) == (f"gqa-modulo-{role}", "tensor-strides", False)


def test_axes_of_a_tensor_in_another_order():
    bound = attention_case(B=1, H=3, Sq=48, D=32)
    for role in "qkv":
        array = bound.argument_of(role)
        kept = array.original.copy()
        shape = array.view(role).shape
        array.original[...] = np.ascontiguousarray(
            kept.reshape(shape[0], shape[2], shape[1], shape[3]).transpose(0, 2, 1, 3)
        ).reshape(-1)
        output = flash(bound)
        array.original[...] = kept
        found = first(bound, output)
        assert (found.model, found.hypothesis) == (f"read-as-BSHD-{role}", "tensor-strides")
    right = flash(bound)
    written = np.ascontiguousarray(right.transpose(0, 2, 1, 3)).reshape(right.shape)
    found = first(bound, written)
    assert (found.model, found.hypothesis) == ("written-as-BSHD", "tensor-strides")


def test_strides_in_memory():
    layouts = 'layout = "BSHD"'
    roles = dict.fromkeys("qkv", ("f16", layouts))
    bound = case("attention", {**roles, "o": ("f32", layouts)}, {"B": 2, "H": 3, "S": 40, "D": 32})
    argument = bound.argument_of("k")
    kept = argument.original.copy()
    view = argument.original_view("k")
    flat = np.concatenate([kept, np.zeros(40 * 32 * 32, np.float16)])
    b, h, s, d = np.indices(view.shape)
    # The row stride of one head where that of all heads is meant.
    view[...] = flat[b * 40 * 96 + h * 32 + s * 32 + d]
    output = flash(bound)
    argument.original[...] = kept
    found = first(bound, output)
    assert found.model == "row-stride-k"
    assert (found.parameters["value"], found.parameters["true"]) == (32, 96)


def test_a_column_major_operand_with_the_wrong_leading_dimension():
    bound = product_case(48, 32, 64, extra_b='layout = "NK"')
    a, b = parts(bound)
    memory = bound.argument_of("b").original.astype(np.float32)
    k, n = np.indices(b.shape)
    found = first(bound, a @ memory[n * 32 + k])
    assert (found.model, found.hypothesis) == ("column-stride-b", "leading-dimension")
    assert found.parameters["value"] == 32


def test_zeros_are_not_explained_by_reads_outside():
    bound = product_case(16, 128, 64)
    output = gemm(bound)
    output[:, 64:] = 0
    assert not [one for one in fit(filled(bound, output)) if one.explains > 900 and one.hypothesis == "operand-layout"]
