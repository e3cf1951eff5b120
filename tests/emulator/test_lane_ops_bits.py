"""Bit counting, fields, masks, permutes, shifts and logic against the pseudo-code of the PTX ISA."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from integer_values import TYPES, operands, width_of, wrap
from lane_registers import Array, combinations, padded, random_bits, run, run_pair

ONES32 = 0xFFFFFFFF
AMOUNTS = [0, 1, 4, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 255, 256, 0x80000000, ONES32]


def amounts(count: int, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    picked = rng.choice(np.array(AMOUNTS, np.uint32), count)
    return np.where(rng.integers(0, 2, count) == 1, picked, rng.integers(0, 70, count).astype(np.uint32))


def check(name: str, result_type: str, function: Callable[..., int], *sources: Array, **attributes: str) -> None:
    got = run(name, TYPES[result_type], *sources, **attributes)
    expected = [wrap(function(*map(int, values)), result_type) for values in zip(*sources, strict=True)]
    np.testing.assert_array_equal(got, np.array(expected, TYPES[result_type]), err_msg=name)


@pytest.mark.parametrize("width", [32, 64])
def test_counting(width: int) -> None:
    (a,) = operands(f"u{width}", 1)
    shifts = np.arange(len(a)) % (width + 1)
    a = np.concatenate([a, padded([(1 << width) - 1 >> int(s) for s in shifts], a.dtype)])
    check(f"popc.b{width}", "u32", lambda x: x.bit_count(), a)
    check(f"clz.b{width}", "u32", lambda x: width - x.bit_length(), a)
    check(f"brev.b{width}", f"u{width}", lambda x: int(f"{x:0{width}b}"[::-1], 2), a)
    for kind in "us":
        value = a.view(TYPES[f"{kind}{width}"])
        check(f"bfind.{kind}{width}", "u32", lambda x: (x if x >= 0 else ~x).bit_length() - 1, value)

        def shift_amount(x: int) -> int:
            length = (x if x >= 0 else ~x).bit_length()
            return width - length if length else -1

        check(f"bfind.shiftamt.{kind}{width}", "u32", shift_amount, value)


@pytest.mark.parametrize("type_name", ["u32", "s32", "u64", "s64"])
def test_bfe(type_name: str) -> None:
    width = width_of(type_name)

    def bfe(a: int, b: int, c: int) -> int:
        position, length = (b & 255, c & 255) if width == 32 else (min(b, 255), min(c, 255))
        a = wrap(a, f"u{width}")
        sign = 0 if type_name[0] == "u" or length == 0 else a >> min(position + length - 1, width - 1) & 1
        bits = [(a >> (position + i) & 1) if i < length and position + i < width else sign for i in range(width)]
        return sum(bit << i for i, bit in enumerate(bits))

    a = random_bits(512, TYPES[type_name], 5)
    check(f"bfe.{type_name}", type_name, bfe, a, amounts(512, 6), amounts(512, 7))


@pytest.mark.parametrize("width", [32, 64])
def test_bfi(width: int) -> None:
    def bfi(a: int, b: int, c: int, d: int) -> int:
        position, length = (c & 255, d & 255) if width == 32 else (min(c, 255), min(d, 255))
        for i in range(length):
            if position + i < width:
                b = b & ~(1 << (position + i)) | (a >> i & 1) << (position + i)
        return b

    a, b = random_bits(512, TYPES[f"u{width}"], 8), random_bits(512, TYPES[f"u{width}"], 9)
    check(f"bfi.b{width}", f"u{width}", bfi, a, b, amounts(512, 10), amounts(512, 11))


def test_fns() -> None:
    def fns(mask: int, base: int, offset: int) -> int:
        if offset == 0:
            return base if mask >> base & 1 else -1
        left, step, at = abs(offset), (1 if offset > 0 else -1), base
        while 0 <= at < 32:
            left -= mask >> at & 1
            if left == 0:
                return at
            at += step
        return -1

    rng = np.random.default_rng(12)
    mask = random_bits(1024, np.uint32, 13)
    base = rng.integers(0, 32, 1024).astype(np.uint32)
    offset = rng.integers(-20, 21, 1024).astype(np.int32)
    check("fns.b32", "u32", fns, mask, base, offset)


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_masks_and_extensions(mode: str) -> None:
    a, b = combinations(AMOUNTS, 2, np.uint32)

    def bmsk(position: int, width: int) -> int:
        if mode == "wrap":
            position, width = position & 31, width & 31
        return ((1 << min(width, 32)) - 1) << position if position < 32 else 0

    check(f"bmsk.{mode}.b32", "u32", bmsk, a, b)
    value = random_bits(512, np.uint32, 14)
    length = amounts(512, 15)
    for kind in "us":

        def szext(x: int, n: int, kind: str = kind) -> int:
            n = n & 31 if mode == "wrap" else min(n, 32)
            x &= (1 << n) - 1
            return x - (1 << n) if kind == "s" and n and x >> (n - 1) else x

        check(f"szext.{mode}.{kind}32", f"{kind}32", szext, value, length)


def test_prmt() -> None:
    a, b, c = (random_bits(512, np.uint32, seed) for seed in (16, 17, 18))

    def select(x: int, y: int, selectors: list[int]) -> int:
        data = [(y << 32 | x) >> 8 * i & 255 for i in range(8)]
        byte = [data[s & 7] if s < 8 else (255 if data[s & 7] & 128 else 0) for s in selectors]
        return sum(value << 8 * i for i, value in enumerate(byte))

    check("prmt.b32", "u32", lambda x, y, s: select(x, y, [s >> 4 * i & 15 for i in range(4)]), a, b, c)
    modes: dict[str, Callable[[int], list[int]]] = {  # byte 0 first
        "f4e": lambda s: [s, s + 1, s + 2, s + 3],
        "b4e": lambda s: [s, (s - 1) & 7, (s - 2) & 7, (s - 3) & 7],
        "rc8": lambda s: [s] * 4,
        "ecl": lambda s: [max(i, s) for i in range(4)],
        "ecr": lambda s: [min(i, s) for i in range(4)],
        "rc16": lambda s: [2 * (s & 1), 2 * (s & 1) + 1] * 2,
    }
    for mode, selectors in modes.items():
        check("prmt.b32", "u32", lambda x, y, s, f=selectors: select(x, y, f(s & 3)), a, b, c, mode=mode)


@pytest.mark.parametrize("width", [16, 32, 64])
def test_shifts(width: int) -> None:
    a = random_bits(512, TYPES[f"u{width}"], 19)
    n = amounts(512, 20)
    signed = a.view(TYPES[f"s{width}"])
    check(f"shl.b{width}", f"u{width}", lambda x, s: x << min(s, width), a, n)
    for kind in "bu":
        check(f"shr.{kind}{width}", f"u{width}", lambda x, s: x >> min(s, width), a, n)
    check(f"shr.s{width}", f"s{width}", lambda x, s: x >> min(s, width), signed, n)


def test_funnel_shifts() -> None:
    a, b = random_bits(512, np.uint32, 21), random_bits(512, np.uint32, 22)
    n = amounts(512, 23)
    amount = {"wrap": lambda s: s & 31, "clamp": lambda s: min(s, 32)}
    for mode, limit in amount.items():
        check(f"shf.l.{mode}.b32", "u32", lambda x, y, s, f=limit: (y << 32 | x) << f(s) >> 32, a, b, n)
        check(f"shf.r.{mode}.b32", "u32", lambda x, y, s, f=limit: (y << 32 | x) >> f(s), a, b, n)


@pytest.mark.parametrize("width", [16, 32, 64])
def test_logic(width: int) -> None:
    a, b = operands(f"u{width}", 2)
    check(f"and.b{width}", f"u{width}", lambda x, y: x & y, a, b)
    check(f"or.b{width}", f"u{width}", lambda x, y: x | y, a, b)
    check(f"xor.b{width}", f"u{width}", lambda x, y: x ^ y, a, b)
    check(f"not.b{width}", f"u{width}", lambda x: ~x, a)
    check(f"cnot.b{width}", f"u{width}", lambda x: int(x == 0), a)
    check(f"mov.b{width}", f"u{width}", lambda x: x, a)


def lop3(a: int, b: int, c: int, table: int) -> int:
    return sum((table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1) & 1) << i for i in range(32))


def test_lop3_all_tables() -> None:
    a, b, c = (np.full(256, v, np.uint32) for v in (0xF0F0F0F0, 0xCCCCCCCC, 0xAAAAAAAA))
    check("lop3.b32", "u32", lop3, a, b, c, np.arange(256, dtype=np.uint32))
    a, b, c = (random_bits(256, np.uint32, seed) for seed in (24, 25, 26))
    check("lop3.b32", "u32", lop3, a, b, c, np.arange(256, dtype=np.uint32) | np.uint32(0xABCDEF00))


@pytest.mark.parametrize("operation", ["and", "or"])
def test_lop3_with_a_predicate(operation: str) -> None:
    a, b, c = (random_bits(64, np.uint32, seed) & np.uint32(1) for seed in (27, 28, 29))
    q = random_bits(64, np.uint8, 30) > 127
    attributes = {"mode": str(0x80), "bool": operation}
    value, p = run_pair("lop3.bool.b32", [np.uint32, bool], a, b, c, q, attributes=attributes)
    np.testing.assert_array_equal(value, a & b & c)
    np.testing.assert_array_equal(p, ((a & b & c) != 0) & q if operation == "and" else ((a & b & c) != 0) | q)


def test_predicates() -> None:
    a, b = (random_bits(64, np.uint8, seed) > 127 for seed in (31, 32))
    np.testing.assert_array_equal(run("and.pred", bool, a, b), a & b)
    np.testing.assert_array_equal(run("or.pred", bool, a, b), a | b)
    np.testing.assert_array_equal(run("xor.pred", bool, a, b), a ^ b)
    np.testing.assert_array_equal(run("not.pred", bool, a), ~a)
    np.testing.assert_array_equal(run("mov.pred", bool, a), a)
    np.testing.assert_array_equal(run("and.pred", bool, a, b, neg_a="1"), ~a & b)
    np.testing.assert_array_equal(run("or.pred", bool, a, b, neg_b="1"), a | ~b)


@pytest.mark.parametrize("width", [16, 32, 64])
def test_selects(width: int) -> None:
    dtype = TYPES[f"u{width}"]
    a, b = random_bits(64, dtype, 33), random_bits(64, dtype, 34)
    p = random_bits(64, np.uint8, 35) > 127
    np.testing.assert_array_equal(run(f"selp.b{width}", dtype, a, b, p), np.where(p, a, b))
    np.testing.assert_array_equal(run(f"selp.b{width}", dtype, a, b, p, neg_c="1"), np.where(p, b, a))
    c = padded([0, 1, ONES32, 1 << 31, 5], np.int32)[:32]
    np.testing.assert_array_equal(run(f"slct.b{width}.s32", dtype, a[:32], b[:32], c), np.where(c >= 0, a[:32], b[:32]))
    f = padded([0, 1 << 31, 0x3F800000, 0xBF800000, 0x7FC00000, 0xFFC00000, 0x80000001, 1], np.float32)
    with np.errstate(invalid="ignore"):
        first = f >= 0
    np.testing.assert_array_equal(run(f"slct.b{width}.f32", dtype, a[:32], b[:32], f), np.where(first, a[:32], b[:32]))
    flushed = first | (f.view(np.uint32) == 0x80000001)
    got = run(f"slct.b{width}.f32", dtype, a[:32], b[:32], f, ftz="1")
    np.testing.assert_array_equal(got, np.where(flushed, a[:32], b[:32]))


def test_wide_move() -> None:
    a = random_bits(64, np.uint64, 36).view([("lo", np.uint64), ("hi", np.uint64)])
    np.testing.assert_array_equal(run("mov.b128", a.dtype, a), a)
