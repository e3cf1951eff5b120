"""The readings of a kernel: each is another one, has a name of its own, and is a card that can run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from wmmadiag.ops import OPERATIONS, Assumed, readings
from wmmadiag.subject.binding import bind
from wmmadiag.subject.card_files.read import load_card
from wmmadiag.subject.readings import assumed_reading, card_read_as, other_readings

KERNELS = Path(__file__).parents[2] / "kernels"


def named(operation: str, roles: str, types: Mapping[str, str] | None = None, **said) -> dict[str, object]:
    """Readings of one change, by name; `roles`: those that the kernel has, all f16 but for `types`."""
    known = {role: (types or {}).get(role, "f16") for role in roles.split()}
    return {one.name: one for one in readings(OPERATIONS[operation], Assumed(known, **said), changes=1)}


def test_a_gemm_may_store_each_matrix_otherwise_sum_otherwise_and_read_its_output():
    found = named("gemm", "a b d")
    assert {
        "A stored as K×M",
        "B stored as N×K, as nn.Linear has it",
        "the result stored by columns",
        "the product added to what the output held",
        "sums kept in f16",
        "the activation gelu_tanh",
    } <= set(found)
    assert found["B stored as N×K, as nn.Linear has it"].parameters == {"transpose_b": "1"}
    assert found["the result stored by columns"].layouts == {"d": "BNM"}
    assert found["the product added to what the output held"].roles == {"d": "c"}


@pytest.mark.parametrize(
    ("operation", "assumed", "absent"),
    [
        ("gemm", Assumed({"a": "f16", "b": "f16", "d": "f32"}, {"transpose_b": "1"}), "B stored as N×K, as nn.Linear"),
        ("gemm", Assumed({"a": "f16", "b": "f16", "d": "f32"}, {"transpose_b": True}), "B stored as N×K, as nn.Linear"),
        ("gemm", Assumed({"a": "f32", "b": "f32", "d": "f32"}), "sums kept in f16"),
        ("gemm", Assumed({"a": "f16", "b": "f16", "d": "f32"}), "inputs rounded"),
        ("gemm", Assumed({"a": "f16", "b": "f16", "c": "f32", "d": "f32"}), "the product added"),
        ("gemm", Assumed({"a": "f16", "b": "f16", "d": "f32"}, placed=frozenset("b")), "B stored"),
        ("attention", Assumed(dict.fromkeys("qkvo", "f16"), symbols=frozenset({"causal"})), "a causal mask"),
        ("attention", Assumed(dict.fromkeys("qkvo", "f16"), {"causal": 1}), "a causal mask and"),
    ],
)
def test_what_is_known_is_not_open(operation, assumed, absent):
    assert not [one.name for one in readings(OPERATIONS[operation], assumed) if absent in one.name]


def test_what_is_assumed_is_one_of_the_answers_and_the_others_are_readings():
    causal = named("attention", "q k v o", parameters={"causal": "1"})
    assert "no mask" in causal and "a causal mask aligned to the bottom-right corner" in causal
    assert "a causal mask" not in causal and "a causal mask" in named("attention", "q k v o")
    assert "inputs rounded to tf32 first" in named("gemm", "a b d", {"a": "f32", "b": "f32"})


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_readings_are_different_and_have_different_names(operation):
    roles = {name: "f16" for name, role in OPERATIONS[operation].roles.items() if role.required}
    found = list(readings(OPERATIONS[operation], Assumed(roles)))
    assert len({one.name for one in found}) == len(found)
    said = [(tuple(one.parameters.items()), tuple(one.layouts.items()), tuple(one.roles.items())) for one in found]
    assert len(set(said)) == len(found)
    counts = [len(one.questions) for one in found]
    assert counts == sorted(counts)


def test_a_left_out_scale_is_not_deliberate():
    found = named("attention", "q k v o")
    assert not found["a scale of 1"].deliberate and found["a causal mask"].deliberate


@pytest.mark.parametrize("name", ["gemm", "gemm_mma", "qkt", "pv", "attention"])
def test_every_reading_of_a_kernel_is_a_card_whose_cases_can_be_bound(name):
    card = load_card(KERNELS / name / "kernel.toml")
    found = list(other_readings(card, changes=1))
    assert found
    for reading, other in found:
        bound = bind(other, other.cases[0], other.variants[0])
        assert bound.outputs(), reading.name


def test_columns_of_the_result_are_the_rows_of_its_bytes():
    card = load_card(KERNELS / "gemm" / "kernel.toml")
    turned = next(one for one, _ in other_readings(card) if one.name == "the result stored by columns")
    case = next(case for case in card.cases if case.name == "odd")
    plain, other = bind(card, case, card.variants[0]), bind(card_read_as(card, turned), case, card.variants[0])
    assert plain.outputs()["c"].shape == other.outputs()["c"].shape == (77, 91)
    assert plain.outputs()["c"].strides == (91 * 2, 2) and other.outputs()["c"].strides == (2, 77 * 2)
    np.testing.assert_array_equal(plain.inputs()["a"], other.inputs()["a"])


def test_what_a_card_says_of_strides_is_no_assumption():
    card = load_card(KERNELS / "attention_fused" / "kernel.toml")
    assumed = assumed_reading(card)
    assert set(assumed.roles) >= {"q", "k", "v", "o"}
