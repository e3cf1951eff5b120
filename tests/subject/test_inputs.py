from __future__ import annotations

import numpy as np
import pytest

from wmmadiag.errors import ConfigurationError
from wmmadiag.numerics.element_types import TYPES, element_type, poison_pattern, storage_dtype
from wmmadiag.subject import inputs
from wmmadiag.subject.distributions import DISTRIBUTIONS
from wmmadiag.subject.inputs import draw, rounded
from wmmadiag.subject.storage import Placement, damage, is_poison, poisoned

SHAPE = (2, 3, 32, 32)


@pytest.mark.parametrize("name", sorted(DISTRIBUTIONS))
@pytest.mark.parametrize("dtype", ["f16", "bf16", "tf32", "f32", "f64", "s8", "u8", "s32"])
def test_finite_asymmetric_and_repeatable(name, dtype):
    element = TYPES[dtype]
    drawn = draw(name, dict.fromkeys("qkv", (SHAPE, element)), 3)
    again = draw(name, {"v": (SHAPE, element), "q": (SHAPE, element), "k": (SHAPE, element)}, 3)
    for role, values in drawn.items():
        assert values.dtype == storage_dtype(element)
        np.testing.assert_array_equal(values, again[role])
        wide = values.astype(np.float64)
        assert np.isfinite(wide).all()
        assert np.abs(wide).max() <= element.largest + 1
        heads = wide.reshape(6, 32, 32)
        assert len({head.tobytes() for head in heads}) == 6
        for head in heads:
            assert len({row.tobytes() for row in head}) == 32
            assert len({column.tobytes() for column in head.T}) == 32
            assert (head != head.T).any()
    assert (drawn["q"] != drawn["k"]).any()


@pytest.mark.parametrize(("name", "check"), [
    ("growing_max", lambda s: (np.diff(s.mean(axis=0)) > 0).mean() > 0.7 and s.max() > 10),
    ("late_max", lambda s: (s.argmax(axis=1) >= 60).all()),
    ("spike", lambda s: (np.sort(s, axis=1)[:, -1] - np.sort(s, axis=1)[:, -2] > 3).mean() > 0.8),
])  # fmt: skip
def test_softmax_stress_does_what_it_says(name, check):
    drawn = draw(name, {"q": ((1, 1, 64, 64), TYPES["f16"]), "k": ((1, 1, 64, 64), TYPES["f16"])}, 0)
    q, k = (drawn[role][0, 0].astype(np.float64) for role in "qk")
    assert check(q @ k.T / 8)


@pytest.mark.parametrize("name", ["growing_max", "late_max", "spike"])
def test_scores_of_arrays_that_are_stored_otherwise_are_asked_for(name):
    """Pages of keys, as somebody's own reference may have them: which rows meet is not known."""
    with pytest.raises(ConfigurationError, match="which rows make a score"):
        draw(name, {"q": ((3, 6, 32), TYPES["f16"]), "k": ((13, 32, 3, 32), TYPES["f16"])}, 0)
    grouped = draw(name, {"q": ((2, 6, 16, 32), TYPES["f16"]), "k": ((2, 3, 24, 32), TYPES["f16"])}, 0)
    assert grouped["k"].shape == (2, 3, 24, 32)


def test_rounding_to_types():
    assert rounded(np.array([1 + 2**-11, 1 + 3 * 2**-11]), TYPES["tf32"]).tolist() == [1.0, 1 + 2**-9]
    assert float(rounded(np.array([1 + 2**-9]), TYPES["bf16"])[0]) == 1.0
    assert rounded(np.array([300.0, -300.0, 2.5]), TYPES["s8"]).tolist() == [127, -128, 2]
    assert element_type("__nv_bfloat16") is TYPES["bf16"]
    assert element_type("fp4") is None


@pytest.mark.parametrize("dtype", sorted(TYPES))
def test_poison_is_recognised_and_no_arithmetic_makes_it(dtype):
    element = TYPES[dtype]
    storage = poisoned(element, 8, 5)
    assert is_poison(storage, element, 5).all()
    storage[2:4] = 1
    assert is_poison(storage, element, 5).sum() == 6
    if element.is_float:
        assert np.isnan(storage[0].astype(np.float64))
        canonical = {1: 0x7F, 2: 0x7FFF, 4: 0x7FFFFFFF, 8: 0x7FF8000000000000}[element.bytes]
        assert canonical not in {poison_pattern(element, i) for i in range(300)}


def test_damage_outside_and_inside():
    element = TYPES["f32"]
    before = poisoned(element, 40, 0)
    rows = Placement((4, 8), (10, 1), 0)
    after = before.copy()
    rows.view(after)[...] = 2.0
    assert damage(before, after, [rows], "guard") is None
    after[19] = 7.0
    after[8] = -0.0
    found = damage(before, after, [rows], "guard")
    assert found is not None
    assert (found.count, found.first) == (2, 8)
    assert Placement((4, 8), (10, 1), 0).overlaps_itself() is False
    assert Placement((4, 8), (7, 1), 0).overlaps_itself() is True


def test_what_is_drawn_again_is_kept_within_a_bound(monkeypatch) -> None:
    monkeypatch.setattr(inputs, "_kept", {})
    monkeypatch.setattr(inputs, "_KEPT_BYTES", 4096)
    made = []
    monkeypatch.setattr(inputs, "_generator", lambda seed, name: made.append(name) or np.random.default_rng(seed))

    def drawn(name: str, elements: int) -> None:
        draw("", {name: ((elements,), TYPES["f32"])}, 1)
        assert sum(one.nbytes for one in inputs._kept.values()) <= 4096

    for name, elements in (("a", 512), ("b", 512), ("a", 512), ("c", 512), ("a", 512), ("b", 512)):
        drawn(name, elements)
    assert made == ["a", "b", "c", "b"]  # used last, "a" outlives "b"
    drawn("large", 2048)
    drawn("large", 2048)
    assert made[4:] == ["large", "large"]  # larger than all that is kept together
