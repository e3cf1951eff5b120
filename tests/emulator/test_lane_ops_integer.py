"""Integer arithmetic against Python's integers."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from integer_values import TYPES, clamp, operands, width_of, wrap
from lane_registers import run, run_pair

WORDS = ("u32", "s32", "u64", "s64")


def divide(a: int, b: int) -> int:
    """Toward zero; by zero all ones."""
    return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a: int, b: int) -> int:
    return -1 if b == 0 else int(math.copysign(1, a)) * (abs(a) % abs(b))


def check(
    name: str, type_name: str, result_type: str, function: Callable[..., int], count: int, **attributes: str
) -> None:
    sources = operands(type_name, count)
    got = run(name, TYPES[result_type], *sources, **attributes)
    expected = [wrap(function(*map(int, values)), result_type) for values in zip(*sources, strict=True)]
    np.testing.assert_array_equal(got, np.array(expected, TYPES[result_type]))


@pytest.mark.parametrize("type_name", TYPES)
def test_same_type_arithmetic(type_name: str) -> None:
    width = width_of(type_name)
    binary: dict[str, Callable[..., int]] = {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul.lo": lambda a, b: a * b,
        "mul.hi": lambda a, b: a * b >> width,
        "div": divide,
        "rem": remainder,
        "min": min,
        "max": max,
    }
    for name, function in binary.items():
        check(f"{name}.{type_name}", type_name, type_name, function, 2)
    check(f"mad.lo.{type_name}", type_name, type_name, lambda a, b, c: a * b + c, 3)
    check(f"mad.hi.{type_name}", type_name, type_name, lambda a, b, c: (a * b >> width) + c, 3)
    check(f"sad.{type_name}", type_name, type_name, lambda a, b, c: abs(a - b) + c, 3)
    if type_name[0] == "s":
        check(f"abs.{type_name}", type_name, type_name, abs, 1)
        check(f"neg.{type_name}", type_name, type_name, lambda a: -a, 1)


@pytest.mark.parametrize("type_name", ["u16", "s16", "u32", "s32"])
def test_wide_products(type_name: str) -> None:
    wide = f"{type_name[0]}{2 * width_of(type_name)}"
    check(f"mul.wide.{type_name}", type_name, wide, lambda a, b: a * b, 2)
    a, b = operands(type_name, 2)
    c = np.resize(operands(wide, 1)[0], len(a))
    got = run(f"mad.wide.{type_name}", TYPES[wide], a, b, c)
    expected = [wrap(int(x) * int(y) + int(z), wide) for x, y, z in zip(a, b, c, strict=True)]
    np.testing.assert_array_equal(got, np.array(expected, TYPES[wide]))


def test_saturation() -> None:
    check("add.s32", "s32", "s32", lambda a, b: clamp(a + b, "s32"), 2, sat="1")
    check("sub.s32", "s32", "s32", lambda a, b: clamp(a - b, "s32"), 2, sat="1")
    check("mad.hi.s32", "s32", "s32", lambda a, b, c: clamp((a * b >> 32) + c, "s32"), 3, sat="1")


@pytest.mark.parametrize("type_name", ["u32", "s32"])
def test_24_bit_products(type_name: str) -> None:
    def low(x: int) -> int:
        x &= 0xFFFFFF
        return x - (1 << 24) if type_name == "s32" and x >> 23 else x

    check(f"mul24.lo.{type_name}", type_name, type_name, lambda a, b: low(a) * low(b), 2)
    check(f"mul24.hi.{type_name}", type_name, type_name, lambda a, b: low(a) * low(b) >> 16, 2)
    check(f"mad24.lo.{type_name}", type_name, type_name, lambda a, b, c: low(a) * low(b) + c, 3)
    check(f"mad24.hi.{type_name}", type_name, type_name, lambda a, b, c: (low(a) * low(b) >> 16) + c, 3)
    if type_name == "s32":
        check("mad24.hi.s32", "s32", "s32", lambda a, b, c: clamp((low(a) * low(b) >> 16) + c, "s32"), 3, sat="1")


@pytest.mark.parametrize("type_name", ["u16x2", "s16x2"])
@pytest.mark.parametrize("name", ["add", "sub", "min", "max"])
def test_packed(name: str, type_name: str) -> None:
    functions: dict[str, Callable[..., int]] = {
        "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "min": min, "max": max,
    }  # fmt: skip
    element = type_name[:3]
    a, b = operands(element, 2)
    got = run(f"{name}.{type_name}", np.uint32, a.view(np.uint32), b.view(np.uint32)).view(TYPES[element])
    expected = [wrap(functions[name](int(x), int(y)), element) for x, y in zip(a, b, strict=True)]
    np.testing.assert_array_equal(got, np.array(expected, TYPES[element]))


@pytest.mark.parametrize("name", ["min", "max"])
def test_relu(name: str) -> None:
    function = min if name == "min" else max
    check(f"{name}.s32", "s32", "s32", lambda a, b: max(function(a, b), 0), 2, relu="1")
    a, b = operands("s16", 2)
    got = run(f"{name}.s16x2", np.uint32, a.view(np.uint32), b.view(np.uint32), relu="1").view(np.int16)
    np.testing.assert_array_equal(got, np.maximum((np.minimum if name == "min" else np.maximum)(a, b), 0))


@pytest.mark.parametrize("a_type", ["u32", "s32"])
@pytest.mark.parametrize("b_type", ["u32", "s32"])
def test_dot_products(a_type: str, b_type: str) -> None:
    a, b, c = operands("u32", 3)
    byte = {"u32": np.uint8, "s32": np.int8}
    half = {"u32": np.uint16, "s32": np.int16}
    bytes_a, bytes_b = (
        a.view(byte[a_type]).reshape(-1, 4).astype(object),
        b.view(byte[b_type]).reshape(-1, 4).astype(object),
    )
    halves = a.view(half[a_type]).reshape(-1, 2).astype(object)
    four = [wrap(int(sum(x * y)) + int(z), "u32") for x, y, z in zip(bytes_a, bytes_b, c, strict=True)]
    np.testing.assert_array_equal(run(f"dp4a.{a_type}.{b_type}", np.uint32, a, b, c), np.array(four, np.uint32))
    for part, columns in (("lo", slice(0, 2)), ("hi", slice(2, 4))):
        two = [wrap(int(sum(x * y[columns])) + int(z), "u32") for x, y, z in zip(halves, bytes_b, c, strict=True)]
        got = run(f"dp2a.{part}.{a_type}.{b_type}", np.uint32, a, b, c)
        np.testing.assert_array_equal(got, np.array(two, np.uint32))


@pytest.mark.parametrize("type_name", WORDS)
def test_carry(type_name: str) -> None:
    """Each carry form, with and without carry-in and carry-out; borrow for subtraction."""
    width = width_of(type_name)
    unsigned = f"u{width}"
    a, b, c = operands(type_name, 3)
    carry = np.random.default_rng(3).integers(0, 2, len(a)).astype(bool)

    def full(name: str, x: int, y: int, z: int, flag: int) -> int:
        if name in ("add", "sub"):
            x, y = wrap(x, unsigned), wrap(y, unsigned)
            return x + y + flag if name == "add" else x - y - flag
        product = x * y if name == "mad.hi" else wrap(x, unsigned) * wrap(y, unsigned)
        part = product >> width if name == "mad.hi" else product
        return wrap(part, unsigned) + wrap(z, unsigned) + flag

    for base in ("add", "sub", "mad.lo", "mad.hi"):
        head, _, part = base.partition(".")
        part = f".{part}" if part else ""
        for name, has_in, has_out in (
            (f"{head}{part}.cc", 0, 1),
            (f"{head}c{part}", 1, 0),
            (f"{head}c{part}.cc", 1, 1),
        ):
            sources = [a, b, c] if part else [a, b]
            got = run_pair(
                f"{name}.{type_name}", [TYPES[type_name], bool][: 1 + has_out], *sources, *([carry] if has_in else [])
            )
            values = [
                full(base, int(x), int(y), int(z), int(f) * has_in) for x, y, z, f in zip(a, b, c, carry, strict=True)
            ]
            expected = np.array([wrap(value, type_name) for value in values], TYPES[type_name])
            np.testing.assert_array_equal(got[0], expected, err_msg=name)
            if has_out:
                np.testing.assert_array_equal(got[1], [not 0 <= v < 1 << width for v in values], err_msg=name)


def test_the_smallest_integer_by_minus_one_does_not_trap() -> None:
    for type_name in ("s16", "s32", "s64"):
        dtype = TYPES[type_name]
        low = np.full(32, np.iinfo(dtype).min, dtype)
        minus_one = np.full(32, -1, dtype)
        np.testing.assert_array_equal(run(f"div.{type_name}", dtype, low, minus_one), low)
        np.testing.assert_array_equal(run(f"rem.{type_name}", dtype, low, minus_one), np.zeros(32, dtype))
