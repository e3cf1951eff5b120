"""The product with a low-rank update against its formula, written out; narrow types between; the bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wmmadiag
from wmmadiag.numerics.element_types import TYPES
from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.evaluation import judge, reference

SHAPES = {"x": "mk", "w": "nk", "down": "rk", "up": "nr", "c": "mn", "bias": "n"}


def matrices(seed, m=5, n=4, k=6, r=3, dtype=np.float32, roles=tuple(SHAPES)):
    rng, sizes = np.random.default_rng(seed), {"m": m, "n": n, "k": k, "r": r}
    return {
        role: rng.standard_normal([sizes[axis] for axis in axes]).astype(dtype)
        for role, axes in SHAPES.items()
        if role in roles
    }


@pytest.mark.parametrize("roles", [tuple(SHAPES), ("x", "down", "up"), ("x", "w", "down", "up")])
def test_it_is_its_definition(roles):
    data = matrices(0, roles=roles)
    got = wmmadiag.reference("lora", **data, alpha=0.5, beta=3.0).value
    plain = {role: one.astype(float) for role, one in data.items()}
    for i, j in np.ndindex(got.shape):
        narrow = [math.fsum(plain["x"][i] * plain["down"][r]) for r in range(3)]
        want = 0.5 * math.fsum(narrow[r] * plain["up"][j, r] for r in range(3))
        want += math.fsum(plain["x"][i] * plain["w"][j]) if "w" in plain else 0.0
        want += 3.0 * plain["c"][i, j] + plain["bias"][j] if "c" in plain else 0.0
        assert math.isclose(got[i, j], want, rel_tol=1e-9, abs_tol=1e-12)


def in_halves(data, alpha, *, forget=()):
    """As kernels have it: sums in single precision, the narrow product and the wide one in halves between."""
    x = data["x"].astype(np.float32)
    middle = (x @ data["down"].astype(np.float32).T).astype(np.float16)
    base = (x @ data["w"].astype(np.float32).T).astype(np.float16)
    factor = np.float32(1 if "alpha" in forget else alpha)
    update = factor * (middle.astype(np.float32) @ data["up"].astype(np.float32).T)
    update[:, -1:] *= "column" not in forget
    return (base.astype(np.float32) + update + data["bias"].astype(np.float32)).astype(np.float16)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 99), depth=st.sampled_from([16, 48, 160]), size=st.sampled_from([0.05, 1.0, 8.0]))
def test_halves_are_within_the_bound_and_what_is_forgotten_is_not(seed, depth, size):
    data = matrices(seed, 8, 8, depth, 16, np.float16, ("x", "w", "down", "up", "bias"))
    data["x"] = (data["x"] * np.float16(size)).astype(np.float16)
    parameters = {name: one.default for name, one in OPERATIONS["lora"].parameters.items()}
    parameters |= {"alpha": 2.0, "beta": 0.0, "middle_dtype": "f16", "base_dtype": "f16", "accumulate_step": 8}
    expected = reference("lora", parameters, data)
    bound = judge("lora", parameters, data, expected, dict.fromkeys([*data, "d"], TYPES["f16"]))["d"].bound

    def off(**changes):
        return np.abs(in_halves(data, 2.0, **changes).astype(float) - expected["d"]) > bound

    assert not off().any()
    assert off(forget=("alpha",)).mean() > 0.5 and off(forget=("column",))[:, -1].any()


def test_what_is_kept_in_a_narrow_type_widens_the_bound():
    data = matrices(1, 8, 8, 64, 16, np.float16, ("x", "w", "down", "up"))
    one, other = (wmmadiag.reference("lora", **data, dtype="f32", middle_dtype=kind).bound for kind in ("auto", "f16"))
    assert (other > 2 * one).all()
