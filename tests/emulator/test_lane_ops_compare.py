"""setp and set: every comparison of every type, combined with a predicate."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import integer_values
import numpy as np
import pytest
from float_values import FORMATS, decode, flushed, operands
from lane_registers import Array, random_bits, run, run_pair

RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
FLOAT_COMPARES = (*RELATIONS, *(f"{name}u" for name in RELATIONS), "num", "nan")
INTEGERS = [f"{kind}{width}" for kind in "bus" for width in (16, 32, 64)]
BOOL: dict[str, Callable[[Array, Array], Array]] = {
    "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor,
}  # fmt: skip


def number(bits: int, name: str) -> Any:
    value = decode(bits, FORMATS[name])
    return float(value) if isinstance(value, str) else value


def float_result(compare: str, x: Any, y: Any) -> bool:
    unordered = x != x or y != y
    if compare in ("num", "nan"):
        return unordered == (compare == "nan")
    if compare in RELATIONS:
        return not unordered and RELATIONS[compare](x, y)
    return unordered or RELATIONS[compare[:-1]](x, y)


@pytest.mark.parametrize("type_name", INTEGERS)
def test_integers(type_name: str) -> None:
    compares = ["eq", "ne"] if type_name[0] == "b" else [*RELATIONS, *(UNSIGNED if type_name[0] == "u" else ())]
    a, b = integer_values.operands(type_name.replace("b", "u"), 2)
    for compare in compares:
        expected = RELATIONS[UNSIGNED.get(compare, compare)](a, b)
        p, q = run_pair(f"setp.{type_name}", [bool, bool], a, b, attributes={"compare": compare})
        np.testing.assert_array_equal(p, expected, err_msg=compare)
        np.testing.assert_array_equal(q, ~expected, err_msg=compare)
        got = run(f"set.u32.{type_name}", np.uint32, a, b, compare=compare)
        np.testing.assert_array_equal(got, np.where(expected, 0xFFFFFFFF, 0), err_msg=compare)


@pytest.mark.parametrize("ftz", ["0", "1"])
@pytest.mark.parametrize("type_name", ["f32", "f64", "f16", "bf16"])
def test_floats(type_name: str, ftz: str) -> None:
    if ftz == "1" and type_name in ("f64", "bf16"):
        pytest.skip("no .ftz on this type")
    form = FORMATS[type_name]
    a, b = operands(form, 2, size=288)
    values = [
        tuple(number(flushed(int(v), form) if ftz == "1" else int(v), type_name) for v in pair)
        for pair in zip(a, b, strict=True)
    ]
    for compare in FLOAT_COMPARES:
        expected = np.array([float_result(compare, x, y) for x, y in values])
        p, q = run_pair(f"setp.{type_name}", [bool, bool], a, b, attributes={"compare": compare, "ftz": ftz})
        np.testing.assert_array_equal(p, expected, err_msg=compare)
        np.testing.assert_array_equal(q, ~expected, err_msg=compare)
        got = run(f"set.f32.{type_name}", np.float32, a, b, compare=compare, ftz=ftz)
        np.testing.assert_array_equal(got, np.where(expected, np.float32(1), np.float32(0)), err_msg=compare)


@pytest.mark.parametrize("type_name", ["f16", "bf16"])
def test_packed_halves_have_their_own_results(type_name: str) -> None:
    a, b = operands(FORMATS[type_name], 2, size=320)
    c = random_bits(len(a) // 2, np.uint8, 5) > 127
    for compare in FLOAT_COMPARES:
        scalar = run(f"setp.{type_name}", bool, a, b, compare=compare)
        packed = (a.view(np.uint32), b.view(np.uint32))
        p, q = run_pair(f"setp.{type_name}x2", [bool, bool], *packed, attributes={"compare": compare})
        np.testing.assert_array_equal(p, scalar[0::2], err_msg=compare)
        np.testing.assert_array_equal(q, scalar[1::2], err_msg=compare)
        for word, one in (("u32", 0xFFFF), ("f16x2", 0x3C00), ("bf16x2", 0x3F80)):
            got = run(f"set.{word}.{type_name}x2", np.uint32, *packed, compare=compare).view(np.uint16)
            np.testing.assert_array_equal(got, np.where(scalar, one, 0), err_msg=compare)
        attributes = {"compare": compare, "bool": "and", "neg_c": "1"}
        p, q = run_pair(f"setp.{type_name}x2", [bool, bool], *packed, c, attributes=attributes)
        np.testing.assert_array_equal(p, scalar[0::2] & ~c)
        np.testing.assert_array_equal(q, scalar[1::2] & ~c)


@pytest.mark.parametrize("negated", ["0", "1"])
@pytest.mark.parametrize("operation", BOOL)
def test_combination_with_a_predicate(operation: str, negated: str) -> None:
    a, b = integer_values.operands("s32", 2)
    c = random_bits(len(a), np.uint8, 6) > 127
    third = ~c if negated == "1" else c
    attributes = {"compare": "lt", "bool": operation, "neg_c": negated}
    p, q = run_pair("setp.s32", [bool, bool], a, b, c, attributes=attributes)
    np.testing.assert_array_equal(p, BOOL[operation](a < b, third))
    np.testing.assert_array_equal(q, BOOL[operation](a >= b, third))
    got = run("set.s32.s32", np.int32, a, b, c, **attributes)
    np.testing.assert_array_equal(got, -BOOL[operation](a < b, third).astype(np.int32))


@pytest.mark.parametrize(
    ("word", "dtype", "one"),
    [("u16", np.uint16, 0xFFFF), ("s16", np.uint16, 0xFFFF), ("f16", np.uint16, 0x3C00), ("bf16", np.uint16, 0x3F80),
     ("u32", np.uint32, 0xFFFFFFFF), ("s32", np.uint32, 0xFFFFFFFF), ("f32", np.uint32, 0x3F800000)],
)  # fmt: skip
def test_what_stands_for_true(word: str, dtype: Any, one: int) -> None:
    a, b = operands(FORMATS["f16"], 2)
    truth = run("setp.f16", bool, a, b, compare="geu")
    np.testing.assert_array_equal(run(f"set.{word}.f16", dtype, a, b, compare="geu"), np.where(truth, one, 0))
