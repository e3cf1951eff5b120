"""Which elements a product reads, found out from outside."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest

from wmmadiag.probes.subject.effective_operands import NOTHING, SEVERAL, effective_operands
from wmmadiag.probes.subject.rerun import run_of
from wmmadiag.subject.binding import bind
from wmmadiag.subject.card_files.read import parse_card


def case(operation, roles, symbols, computes=""):
    """A bound case whose outputs are still poison. `roles`: name → dtype."""
    lines = ["format = 1", 'source = "k.cu"', 'entry = "f"']
    for role, dtype in roles.items():
        lines += ["[[arguments]]", f'role = "{role}"', f'dtype = "{dtype}"']
    lines += ["[launch]", "grid = 1", "block = 32", "[computes]", f'operation = "{operation}"', computes]
    lines += ["[[cases]]", 'name = "one"', *(f"{name} = {value}" for name, value in symbols.items())]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "k.cu").write_text("")
        card = parse_card("\n".join(lines), Path(folder) / "k.toml")
    return bind(card, card.cases[0], card.variants[0])


def product_case(m, n, k, *, computes="", dtype="f16"):
    return case("gemm", {"a": dtype, "b": dtype, "d": "f32"}, {"M": m, "N": n, "K": k}, computes)


def black_box(bound, kernel):
    """`kernel` computes outputs from the case's inputs; here it sees what the launch's arrays hold."""

    def launch(_):
        for argument in bound.arguments:
            if argument.spec.direction == "in":
                argument.original[...], kept[argument.index] = argument.storage, argument.original.copy()
        output = next(iter(bound.outputs().values()))
        output[...] = np.asarray(kernel(bound)).reshape(output.shape)
        for index, content in kept.items():
            bound.arguments[index].original[...] = content

    kept = {}
    return run_of(bound, launch)


def product(change_a=lambda a: a, change_b=lambda b: b):
    def kernel(bound):
        a, b = (bound.inputs()[role].astype(np.float32) for role in "ab")
        a = a.T if bound.parameters["transpose_a"] else a
        b = b.T if bound.parameters["transpose_b"] else b
        return 2 * (change_a(a) @ change_b(b))

    return kernel


def test_the_arrays_are_as_before():
    bound = product_case(16, 16, 16)
    bound.outputs()["d"][...] = 7.0
    before = [argument.storage.copy() for argument in bound.arguments]
    effective_operands(black_box(bound, product()), bound, "d")
    for argument, content in zip(bound.arguments, before, strict=True):
        assert np.array_equal(argument.storage, content)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("turned", ["", "transpose_b = true", "transpose_a = true"])
def test_a_right_product_reads_what_it_should(turned, dtype):
    bound = product_case(20, 24, 56, computes=f"alpha = 2\n{turned}", dtype=dtype)
    read = effective_operands(black_box(bound, product()), bound, "d")
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

    read = effective_operands(black_box(bound, product(shifted)), bound, "d")["a"][0, 0]
    own = np.arange(16 * 48).reshape(16, 48)
    assert np.array_equal(read[:, :16], np.roll(own[:, :16], 1, axis=0))
    assert (read[:, 16:32] == NOTHING).all()
    assert not (read[:, 32:] == own[:, 32:]).any()
    spoiled = effective_operands(black_box(bound, product(lambda a: a * np.float32(0.3))), bound, "d")["a"]
    assert (spoiled == SEVERAL).mean() > 0.5


def test_scores_and_p_times_v():
    roles = {"q": "f16", "k": "f16", "scores": "f32"}
    bound = case("qkt", roles, {"B": 1, "H": 2, "Sq": 16, "Skv": 24, "D": 32}, "scale = 0.125")

    def kernel(b):
        q, k = (b.inputs()[role].astype(np.float32) for role in "qk")
        return q @ k[:, ::-1].transpose(0, 1, 3, 2) / 8

    read = effective_operands(black_box(bound, kernel), bound, "scores")
    keys = np.arange(2 * 24 * 32).reshape(1, 2, 24, 32)
    assert np.array_equal(read["k"], keys[:, ::-1].transpose(0, 1, 3, 2))
    assert np.array_equal(read["q"], np.arange(2 * 16 * 32).reshape(1, 2, 16, 32))
    softmax = case("softmax", {"x": "f32", "y": "f32"}, {"M": 4, "N": 8})
    with pytest.raises(ValueError, match="not a product"):
        effective_operands(lambda _: {}, softmax, "y")
