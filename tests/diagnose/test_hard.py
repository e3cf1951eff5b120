"""Hard inputs: which a change is held to though no case asks for them, and which not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from wmmadiag.diagnose.engine import case_bench
from wmmadiag.diagnose.hard import hard_names
from wmmadiag.numerics.element_types import TYPES
from wmmadiag.ops.catalogue.attention import OPERATION
from wmmadiag.subject.card import Card
from wmmadiag.subject.card_files.read import load_card
from wmmadiag.subject.inputs import draw

KERNELS = Path(__file__).resolve().parents[2] / "kernels"


def names_of(card: Card, inputs: str = "") -> tuple[str, ...]:
    bench = case_bench(card, card.variants[0].name, "sm_90", "emulator", "default", None, inputs, None)
    return hard_names(bench, card.cases[0])


@pytest.fixture(scope="module")
def attention() -> Card:
    return load_card(KERNELS / "attention" / "kernel.toml")


def test_a_card_that_leaves_its_inputs_open_is_held_to_those_that_are_hard_for_the_operation(attention: Card) -> None:
    assert names_of(attention) == ("growing_max", "late_max", "spike")
    assert names_of(replace(attention, inputs="spike")) == ("growing_max", "late_max", "spike")


def test_who_says_which_inputs_the_kernel_is_for_is_obeyed(attention: Card) -> None:
    assert names_of(replace(attention, inputs="small_integers")) == ()
    case = replace(attention.cases[0], inputs="positive")
    assert names_of(replace(attention, cases=(case,))) == ()
    assert names_of(attention, inputs="uniform") == ()
    own = tuple(replace(one, inputs="positive") if one.name == "q" else one for one in attention.arguments)
    assert names_of(replace(attention, arguments=own)) == ()


def test_what_changes_nothing_in_the_arrays_of_a_card_is_not_run() -> None:
    assert names_of(load_card(KERNELS / "gemm" / "kernel.toml")) == ()


def test_integers_stay_as_they_are_drawn_where_sums_are_hard() -> None:
    tensors = {"q": ((2, 4, 8), TYPES["f16"]), "k": ((2, 4, 8), TYPES["f16"]),
               "seqlens": ((4,), TYPES["s32"])}  # fmt: skip
    plain, hard = draw("", tensors, 3), draw("spike", tensors, 3, hard=OPERATION.hard_inputs)
    assert np.array_equal(plain["seqlens"], hard["seqlens"])
    assert not np.array_equal(plain["q"], hard["q"])
