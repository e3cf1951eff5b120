"""What the engine calls right of an element is what the judge does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx_kernels import kernel

from wmmadiag.compare.comparison import wrong_elements
from wmmadiag.diagnose.trials.expected import _accepted
from wmmadiag.emulator.trials import (
    ElementRules,
    JudgedItems,
    StagedLaunch,
    TrialLaunch,
)
from wmmadiag.launch import Launch
from wmmadiag.numerics.element_types import TYPES, poison_pattern, storage_dtype
from wmmadiag.ops.parts.rounding import Judgement

ITEMS = 128
BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


SPECIAL = [0.0, -0.0, 1.0, 65504.0, 65519.0, 65520.0, 1e38, 3.5e38, np.inf, -np.inf, np.nan, 5e-8]


@pytest.mark.parametrize("name", sorted(set(TYPES) - {"bool"}))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_an_element_is_right_just_where_the_judge_says_so(name: str, data: st.DataObject) -> None:
    element = TYPES[name]
    dtype = storage_dtype(element)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    bits = rng.integers(0, 1 << (8 * element.bytes), ITEMS, BITS[element.bytes], endpoint=False)
    observed = (
        np.where(rng.random(ITEMS) < 0.2, poison_pattern(element, 0), bits).astype(BITS[element.bytes]).view(dtype)
    )
    with np.errstate(all="ignore"):
        near = observed.astype(np.float64)
        expected = np.where(rng.random(ITEMS) < 0.6, near, rng.choice(SPECIAL, ITEMS))
        expected = expected + np.where(rng.random(ITEMS) < 0.3, 0.25, 0.0)
    bound = rng.choice([0.0, 0.25, 0.5, 1e30, np.inf], ITEMS)
    free = rng.random(ITEMS) < 0.3
    judgement = Judgement(bound, free if data.draw(st.booleans()) else None)
    unwritten = observed.view(BITS[element.bytes]) == poison_pattern(element, 0)
    with np.errstate(all="ignore"):
        wrong = wrong_elements(observed, expected, judgement, element=element, unwritten=unwritten)
        limit, accepted = _accepted(expected, judgement, element)
    value = np.where(np.isfinite(expected), expected, 0.0)
    item = "f32" if name == "tf32" else name
    launch = TrialLaunch(
        [StagedLaunch(kernel("", "p"), Launch((1, 1, 1), (32, 1, 1), (observed.copy(),)))],
        "sel",
        [JudgedItems(0, item, np.arange(ITEMS, dtype=np.int32), poison_pattern(element, 0))],
        ElementRules(value, limit, accepted, np.zeros(ITEMS, np.uint8)),
    )
    assert np.array_equal(launch.base(0).wrong, wrong)
