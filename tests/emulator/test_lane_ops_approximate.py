"""Approximations: special values of the PTX ISA's tables, and the error bounds that it documents.

The reference is the exact function in Python's floats (f64); the bounds are those of the ISA. That the bits are the
chip's is for test_approximation_digests.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from lane_registers import Array, padded, random_bits, run

INF, NAN = float("inf"), float("nan")
SUBNORMAL = 2.0**-130


def ulps(got: Array, exact: Array) -> Array:
    """Distance in units of the last place of the exact value."""
    return np.abs(got.astype(np.float64) - exact) / np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)


def samples(seed: int, low: float, high: float, count: int = 4096) -> Array:
    """Spread evenly, both signs if `low` is negative."""
    return np.random.default_rng(seed).uniform(low, high, count).astype(np.float32)


def bits(value: float) -> int:
    """With the canonical NaN."""
    return 0x7FFFFFFF if value != value else int(np.float32(value).view(np.uint32))


# Name, ftz → {argument: result}. PTX ISA, tables of "rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh".
SPECIAL: dict[tuple[str, str], list[tuple[float, float]]] = {
    ("rcp", "0"): [(-INF, -0.0), (-0.0, -INF), (0.0, INF), (INF, 0.0), (NAN, NAN), (SUBNORMAL, INF)],
    ("rcp", "1"): [(-INF, -0.0), (-SUBNORMAL, -INF), (-0.0, -INF), (0.0, INF), (SUBNORMAL, INF), (2.0**127, 0.0)],
    ("sqrt", "0"): [(-INF, NAN), (-1.0, NAN), (-SUBNORMAL, NAN), (-0.0, -0.0), (0.0, 0.0), (INF, INF), (NAN, NAN)],
    ("sqrt", "1"): [(-INF, NAN), (-1.0, NAN), (-SUBNORMAL, -0.0), (-0.0, -0.0), (SUBNORMAL, 0.0), (INF, INF)],
    ("rsqrt", "0"): [(-INF, NAN), (-1.0, NAN), (-SUBNORMAL, NAN), (-0.0, -INF), (0.0, INF), (INF, 0.0), (NAN, NAN)],
    ("rsqrt", "1"): [(-1.0, NAN), (-SUBNORMAL, -INF), (-0.0, -INF), (0.0, INF), (SUBNORMAL, INF), (INF, 0.0)],
    ("sin", "0"): [(-INF, NAN), (-0.0, -0.0), (0.0, 0.0), (INF, NAN), (NAN, NAN)],
    ("sin", "1"): [(-INF, NAN), (-SUBNORMAL, -0.0), (-0.0, -0.0), (0.0, 0.0), (SUBNORMAL, 0.0), (INF, NAN)],
    ("cos", "0"): [(-INF, NAN), (-SUBNORMAL, 1.0), (-0.0, 1.0), (0.0, 1.0), (SUBNORMAL, 1.0), (INF, NAN), (NAN, NAN)],
    ("lg2", "0"): [(-INF, NAN), (-1.0, NAN), (-0.0, -INF), (0.0, -INF), (1.0, 0.0), (INF, INF), (NAN, NAN)],
    ("lg2", "1"): [(-1.0, NAN), (-SUBNORMAL, -INF), (-0.0, -INF), (0.0, -INF), (SUBNORMAL, -INF), (INF, INF)],
    ("ex2", "0"): [(-INF, 0.0), (-200.0, 0.0), (-0.0, 1.0), (0.0, 1.0), (3.0, 8.0), (-140.0, 2.0**-140), (128.0, INF)],
    ("ex2", "1"): [(-INF, 0.0), (-SUBNORMAL, 1.0), (SUBNORMAL, 1.0), (-140.0, 0.0), (INF, INF), (NAN, NAN)],
    ("tanh", "0"): [(-INF, -1.0), (-0.0, -0.0), (0.0, 0.0), (INF, 1.0), (NAN, NAN), (20.0, 1.0)],
}  # fmt: skip


@pytest.mark.parametrize(("name", "ftz"), SPECIAL)
def test_special_values(name: str, ftz: str) -> None:
    arguments, results = zip(*SPECIAL[name, ftz], strict=True)
    a = padded([bits(x) for x in arguments], np.uint32)
    want = padded([bits(y) for y in results], np.uint32)
    np.testing.assert_array_equal(run(f"{name}.approx.f32", np.uint32, a, ftz=ftz), want)


def relative(bound: float) -> Callable[[Array, Array], Array]:
    return lambda got, exact: np.abs(got.astype(np.float64) - exact) <= bound * np.abs(exact)


def absolute(bound: float) -> Callable[[Array, Array], Array]:
    return lambda got, exact: np.abs(got.astype(np.float64) - exact) <= bound


def within_ulps(bound: float) -> Callable[[Array, Array], Array]:
    return lambda got, exact: ulps(got, exact) <= bound


ERRORS: list[tuple[str, Any, float, float, Callable[[Array, Array], Array]]] = [
    ("rcp", lambda x: 1 / x, 2.0**-10, 1000.0, within_ulps(1)),
    ("sqrt", np.sqrt, 0.0, 1e6, relative(2.0**-23)),
    ("rsqrt", lambda x: 1 / np.sqrt(x), 1e-6, 1e6, relative(2.0**-22.9)),
    ("sin", np.sin, -3.2, 3.2, absolute(2.0**-20.5)),
    ("cos", np.cos, -3.2, 3.2, absolute(2.0**-20.5)),
    ("lg2", np.log2, 0.5, 2.0, absolute(2.0**-22)),
    ("lg2", np.log2, 2.0, 1e30, relative(2.0**-22)),
    ("ex2", np.exp2, -126.0, 127.9, within_ulps(2.5)),  # the ISA: 2 from the correctly rounded result
    ("tanh", np.tanh, -9.0, 9.0, relative(2.0**-11)),
]


@pytest.mark.parametrize(
    ("name", "exact", "low", "high", "close"), ERRORS, ids=[row[0] + str(row[2]) for row in ERRORS]
)
def test_error_bounds(name: str, exact: Any, low: float, high: float, close: Any) -> None:
    x = samples(3, low, high)
    for ftz in ("0", "1"):
        got = run(f"{name}.approx.f32", np.float32, x, ftz=ftz)
        assert close(got, exact(x.astype(np.float64))).all()


def test_large_angles_lose_low_bits_as_on_the_chip() -> None:
    """The argument times 1 / (2 pi), truncated to f32, decides; recorded on an H200: error below 4e-7."""
    x = samples(4, -1e6, 1e6)
    product = x.astype(np.float64) * np.float64(np.float32(1 / (2 * np.pi)))
    turns = product.astype(np.float32)
    turns = np.where(np.abs(turns) > np.abs(product), np.nextafter(turns, np.float32(0)), turns).astype(np.float64)
    angle = 2 * np.pi * (turns - np.round(turns))
    for name, exact in (("sin", np.sin), ("cos", np.cos)):
        assert (np.abs(run(f"{name}.approx.f32", np.float32, x) - exact(angle)) < 4e-7).all()


@pytest.mark.parametrize("mode", ["approx", "full"])
def test_division(mode: str) -> None:
    a, b = samples(5, -1e5, 1e5), samples(6, 1e-3, 1e3)
    got = run(f"div.{mode}.f32", np.float32, a, b)
    assert (ulps(got, a.astype(np.float64) / b) <= 2).all()


def test_division_by_large_and_subnormal_values() -> None:
    a = padded([bits(x) for x in (1.0, INF, 0.0, -INF, 2.0**100)], np.uint32)
    large = padded([bits(2.0**127)], np.uint32)
    got = run("div.approx.f32", np.uint32, a, large)
    assert [hex(x) for x in got[:5]] == [hex(bits(x)) for x in (0.0, NAN, 0.0, NAN, 0.0)]
    got = run("div.full.f32", np.float32, a, large)
    np.testing.assert_array_equal(got[:5], np.array([2.0**-127, INF, 0.0, -INF, 2.0**-27], np.float32))
    tiny = padded([bits(SUBNORMAL)], np.uint32)
    for name in ("div.approx.f32", "div.full.f32"):
        got = run(name, np.float32, padded([bits(2.0**-126), 0], np.uint32), tiny)
        np.testing.assert_array_equal(got[:2], np.array([16.0, 0.0], np.float32))
        assert run(name, np.float32, padded([bits(1.0)], np.uint32), tiny, ftz="1")[0] == INF


@pytest.mark.parametrize(("name", "exact"), [("ex2", np.exp2), ("tanh", np.tanh)])
@pytest.mark.parametrize("form", ["f16", "bf16"])
def test_halves(name: str, exact: Any, form: str) -> None:
    """All 65,536 arguments against the errors that the ISA gives: relative ones for ex2, absolute ones for tanh."""
    every = np.arange(1 << 16, dtype=np.uint16)
    widen = {
        "f16": lambda v: v.view(np.float16).astype(np.float64),
        "bf16": lambda v: (v.astype(np.uint32) << 16).view(np.float32),
    }
    with np.errstate(over="ignore", invalid="ignore"):
        x = widen[form](every)
        y = exact(x.astype(np.float64))
    got = run(f"{name}.approx.{form}", np.uint16, every)
    np.testing.assert_array_equal(got[np.isnan(x)], 0x7FFF)
    value = widen[form](got)
    bound = {
        ("ex2", "f16"): 2.0**-9.9,
        ("tanh", "f16"): 2.0**-10.987,
        ("ex2", "bf16"): 2.0**-7,
        ("tanh", "bf16"): 1.01 * 2.0**-8,  # an ulp below 1 is 2^-8, and the chip truncates
    }
    smallest, largest = (2.0**-14, 65504.0) if form == "f16" else (2.0**-126, 3.3895e38)
    normal = (np.abs(y) >= smallest) & (np.abs(y) <= largest)
    unit = np.abs(y[normal]) if name == "ex2" else 1.0
    error = np.abs(value[normal].astype(np.float64) - y[normal]) / unit
    assert error.max() <= bound[name, form]
    packed = run(f"{name}.approx.{form}x2", np.uint32, every.view(np.uint32)).view(np.uint16)
    np.testing.assert_array_equal(packed, got)


def test_double_precision() -> None:
    x = np.abs(random_bits(1024, np.uint64, 8).view(np.float64))
    x = x[np.isfinite(x) & (x > 1e-290) & (x < 1e290)][:960]
    for name, exact in (("rcp", 1 / x), ("rsqrt", 1 / np.sqrt(x))):
        got = run(f"{name}.approx.f64", np.uint64, x, ftz="1")
        assert (got & 0xFFFFFFFF == 0).all()
        assert (np.abs(got.view(np.float64) / exact - 1) < 2.0**-19).all()
    assert (np.abs(run("rsqrt.approx.f64", np.float64, x) * np.sqrt(x) - 1) < 2.0**-51).all()
    special = padded([0, 1 << 63, 0x7FF0000000000000, 0xBFF0000000000000], np.uint64)
    assert [hex(v) for v in run("rsqrt.approx.f64", np.uint64, special, ftz="1")[:4]] == [
        "0x7ff0000000000000", "0xfff0000000000000", "0x0", "0x7fffffff00000000",
    ]  # fmt: skip
