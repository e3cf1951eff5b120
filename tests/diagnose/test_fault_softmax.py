"""Faults of attention and softmax: a NumPy kernel with the fault, and the model that must name it."""

from __future__ import annotations

import numpy as np
import pytest
from faulty_runs import attention_case, case, filled, flash, operands

from wmmadiag.diagnose.faults import fit, separate

SHAPES = {
    "square": {},
    "tails": {"Sq": 77, "Skv": 77, "D": 32},
    "causal": {"causal": True},
    "grouped": {"H": 4, "Hkv": 2, "Sq": 64, "Skv": 72, "D": 32, "B": 2},
    "bottom right": {"causal": True, "Sq": 48, "Skv": 80, "computes": 'alignment = "bottom-right"'},
    "half output": {"out": "f16", "Sq": 80, "D": 32},
}


def first(bound, output):
    filled(bound, output)
    fits = fit(bound)
    assert fits, "no model fits"
    assert not fits[0].partial, fits[0]
    assert fits[0].residual <= 1.0
    return fits[0]


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_right_kernel_fits_nothing(shape):
    bound = attention_case(**shape)
    assert fit(filled(bound, flash(bound))) == ()


FAULTS = [
    "alpha-missing-of-output",
    "alpha-missing-of-sum",
    "alpha-missing",
    "maximum-not-carried",
    "alpha-inverted-of-output",
    "alpha-twice-of-output",
    "sum-not-divided",
    "sum-divided-twice",
]
NAMES = list(SHAPES)


@pytest.mark.parametrize(("fault", "shape"), [(f, NAMES[(n + k) % 6]) for n, f in enumerate(FAULTS) for k in (0, 2, 3)])
def test_faults_of_the_online_softmax(fault, shape):
    bound = attention_case(**SHAPES[shape])
    found = first(bound, flash(bound, fault=fault, tile=16))
    assert found.model == fault
    assert found.parameters.get("tile", 16) == 16
    assert found.broken == 0
    assert found.explained["o"].shape == bound.outputs()["o"].shape


@pytest.mark.parametrize("tile", [8, 32, 64])
@pytest.mark.parametrize("reverse", [False, True])
def test_the_tile_size_and_order_are_found(tile, reverse):
    bound = attention_case(Sq=100, D=32, inputs="normal")
    found = first(bound, flash(bound, fault="alpha-missing-of-output", tile=tile, reverse=reverse))
    assert (found.model, found.hypothesis) == ("alpha-missing-of-output", "rescale-missing")
    if tile * 2 < 100:  # two tiles in either order are alike in some rows
        assert found.parameters["tile"] == tile
        assert found.parameters["order"] == ("descending" if reverse else "ascending")


@pytest.mark.parametrize("shape", [SHAPES["grouped"], SHAPES["bottom right"]], ids=["grouped", "bottom right"])
@pytest.mark.parametrize(
    ("scale", "exp", "model", "hypothesis"),
    [
        (1.0, np.exp, "scale-missing", "softmax-scale"),
        ("twice", np.exp, "scale-twice", "softmax-scale"),
        (None, np.exp2, "exp2-without-log2e", "exp-base"),
        ("log2e", np.exp, "exp-with-log2e", "exp-base"),
        ("odd", np.exp, "scale-fitted", "softmax-scale"),
    ],
)
def test_factors_of_the_scores(scale, exp, model, hypothesis, shape):
    bound = attention_case(**shape)
    own = bound.parameters["scale"]
    scale = {"twice": own * own, "log2e": own * np.log2(np.e), "odd": own * 1.7}.get(scale, scale)
    found = first(bound, flash(bound, scale=scale, exp=exp))
    assert (found.model, found.hypothesis) == (model, hypothesis)


@pytest.mark.parametrize(
    ("mask", "model"),
    [
        (lambda i, j: j < i, "causal-strict"),
        (lambda i, j: j <= i + 1, "causal-offset"),
        (lambda i, j: j < 1000, "causal-missing"),
        (lambda i, j: j >= i, "causal-inverted"),
        (lambda i, j: j // 32 <= i // 32, "causal-whole-tiles"),
        (lambda i, j: j % 32 <= i % 32, "causal-local"),
    ],
)
@pytest.mark.parametrize("size", [64, 100])
def test_masks(mask, model, size):
    bound = attention_case(Sq=size, D=32, causal=True)
    found = first(bound, flash(bound, mask=mask))
    assert (found.model, found.hypothesis) == (model, "causal-mask")


def test_the_wrong_corner_and_an_added_mask():
    bound = attention_case(Sq=48, Skv=80, causal=True)
    assert first(bound, flash(bound, mask=lambda i, j: j <= i + 32)).model == "causal-corner"
    bound = attention_case()
    assert first(bound, flash(bound, mask=lambda i, j: j <= i)).model == "causal-added"


@pytest.mark.parametrize(("padded", "size"), [(28, 100), (3, 77), (15, 17)])
def test_padding_counted(padded, size):
    bound = attention_case(Sq=size, D=32)
    found = first(bound, flash(bound, padded=padded))
    assert (found.model, found.hypothesis) == ("padding-in-sum", "tail-masking")
    assert found.parameters["keys"] == padded


def test_a_dropped_tail():
    bound = attention_case(Sq=100)
    found = first(bound, flash(bound, keys=96))
    assert (found.model, found.hypothesis) == ("tail-dropped", "loop-extent")
    assert (found.parameters["first"], found.parameters["last"]) == (96, 99)


def test_an_overwritten_output():
    bound = attention_case(Sq=96)
    found = first(bound, flash(bound, fault="last-tile-survives-of-output"))
    assert (found.model, found.hypothesis) == ("last-tile-survives-of-output", "tile-overwritten")


def test_two_dropped_tiles_are_solved_for():
    bound = attention_case(Sq=96, D=64)
    q, k, v = operands(bound)
    keep = np.ones(96, bool)
    keep[16:24] = keep[40:48] = False
    scores = (q @ k.transpose(0, 1, 3, 2)) * np.float32(0.125)
    weights = np.exp(scores - scores.max(-1, keepdims=True)) * keep
    found = first(bound, weights / weights.sum(-1, keepdims=True) @ v)
    assert found.model == "keys-counted"
    assert "16-23, 40-47" in found.words


def test_a_fault_of_one_head_is_partial():
    bound = attention_case(H=3, Sq=64)
    output = flash(bound)
    output[:, 1] = flash(bound, scale=1)[:, 1]
    output[:, 2] += 1
    fits = fit(filled(bound, output))
    assert fits[0].model == "scale-missing"
    assert fits[0].partial
    assert fits[0].explained["o"][:, 1].mean() > 0.9
    assert not fits[0].explained["o"][:, 0].any()


def test_noise_fits_nothing():
    bound = attention_case()
    rng = np.random.default_rng(1)
    assert fit(filled(bound, rng.standard_normal(bound.outputs()["o"].shape))) == ()


def test_an_output_that_nobody_wrote_fits_nothing():
    assert fit(attention_case(Sq=48)) == ()


def test_softmax_alone():
    bound = case("softmax", {"x": ("f32", ""), "y": ("f32", "")}, {"M": 40, "N": 100}, computes="scale = 0.5")
    x = bound.inputs()["x"]
    weights = np.exp(x * np.float32(0.5))
    right = weights / weights.sum(-1, keepdims=True)
    assert fit(filled(bound, right)) == ()
    assert first(bound, weights).model == "exponentials-plain"
    plain = np.exp(x - x.max(-1, keepdims=True))
    assert first(bound, plain / plain.sum(-1, keepdims=True)).model == "scale-missing"


def test_two_models_of_one_prediction_are_told_apart_on_other_inputs():
    # Two keys tiles: dropping the first in the output, and overwriting it, are the same.
    bound = attention_case(Sq=64, D=32)
    fits = fit(filled(bound, flash(bound, fault="alpha-missing-of-output", tile=32)))
    other = fit(filled(bound, flash(bound, scale=1)))
    apart = separate(fits[0], other[0], bound)
    assert apart is not None
    assert apart.elements > 100
    assert separate(fits[0], fits[0], bound) is None


@pytest.mark.parametrize("instead", ["nan", "mean"])
def test_rows_without_keys(instead):
    computes = 'alignment = "bottom-right"\nmasked_rows = "zero"'
    bound = attention_case(Sq=40, Skv=16, D=32, causal=True, computes=computes)
    output = flash(bound)
    output[:, :, :24] = 0
    assert fit(filled(bound, output)) == ()
    output[:, :, :24] = np.nan if instead == "nan" else operands(bound)[2].mean(axis=2, keepdims=True)
    found = fit(filled(bound, output))[0]
    assert (found.model, found.hypothesis) == (f"masked-row-{instead}", "masked-row")
    assert found.explains == 2 * 24 * 32


def test_rows_without_keys_speak_for_no_formula_that_is_undefined_there():
    bound = attention_case(
        Sq=40, Skv=32, D=32, causal=True, computes='alignment = "bottom-right"\nmasked_rows = "zero"'
    )
    output = flash(bound)
    output[:, :, :8] = np.nan
    assert {one.hypothesis for one in fit(filled(bound, output))} == {"masked-row"}


def test_scores_that_add_up_over_tiles():
    bound = attention_case(Sq=96, D=32)
    q, k, v = operands(bound)
    scores = (q @ k.transpose(0, 1, 3, 2) / np.sqrt(np.float32(32))).reshape(1, 2, 96, 3, 32).cumsum(axis=3)
    scores = scores.reshape(1, 2, 96, 96)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    found = first(bound, weights / weights.sum(-1, keepdims=True) @ v)
    assert (found.model, found.hypothesis) == ("rows-accumulated-k", "accumulator-init")
    assert found.parameters["tile"] == 32


def rows_case(keys=200):
    return case("softmax", {"x": ("f32", ""), "y": ("f32", "")}, {"M": 5, "N": keys})


def partly_reduced(bound, fault):
    """A row softmax of 128 threads, thread t with the columns t, t + 128, …; `fault` says what is not reduced."""
    x = bound.inputs()["x"].reshape(5, -1).astype(np.float64) * bound.parameters["scale"]
    thread = np.arange(x.shape[1]) % 128
    largest = np.broadcast_to(x.max(axis=1, keepdims=True), x.shape).copy()
    if fault == "shfl_down":  # each lane with those behind it in its own warp, of one warp that holds the row
        lane = np.arange(x.shape[1]) % 32
        largest = np.stack([np.where(lane >= own, x, -np.inf).max(axis=1) for own in lane], axis=1)
    e = np.exp(x - largest)
    total = np.broadcast_to(e.sum(axis=1, keepdims=True), e.shape)
    if fault == "half of the warps":
        total = np.broadcast_to(e[:, thread < 64].sum(axis=1, keepdims=True), e.shape)
    if fault == "warps alone":
        total = np.stack([e[:, thread // 32 == own // 32].sum(axis=1) for own in thread], axis=1)
    if fault == "no step of 16":
        total = np.stack([e[:, (thread & 16) == (own & 16)].sum(axis=1) for own in thread], axis=1)
    return e / total


@pytest.mark.parametrize(
    ("fault", "model"),
    [
        ("half of the warps", "first-threads-in-sum"),
        ("warps alone", "sum-of-lane"),
        ("no step of 16", "sum-of-lane"),
        ("shfl_down", "maximum-of-lanes-behind"),
    ],
)
def test_reductions_over_some_of_the_threads(fault, model):
    bound = rows_case()
    found = first(bound, partly_reduced(bound, fault))
    assert (found.model, found.hypothesis) == (model, "reduction")


def test_a_whole_reduction_fits_nothing():
    bound = rows_case()
    assert fit(filled(bound, partly_reduced(bound, ""))) == ()


@pytest.mark.parametrize("tile", [16, 32])
def test_a_mask_within_tiles_where_the_loop_ends_at_the_diagonal(tile):
    bound = attention_case(Sq=80, causal=True)
    mask = lambda i, j: (j % tile <= i % tile) & (j // tile <= i // tile)  # noqa: E731 - as flash takes it
    found = first(bound, flash(bound, mask=mask, tile=tile))
    assert (found.model, found.parameters["tile"]) == ("causal-local", tile)
