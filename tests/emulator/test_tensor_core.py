"""The native tensor core against the plain Python definition, and its fast paths against its scalar one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from native_parts import matrix_dtype, mma, pack_a, pack_b
from numpy.typing import NDArray
from plain_formats import FORMATS, encode
from plain_mma import reference_mma

from wmmadiag.emulator import native
from wmmadiag.errors import UnsupportedError
from wmmadiag.numerics.tensor_core import MmaRule, mma_rule
from wmmadiag.numerics.tensor_core_forms import FORMS

ARCHES = ("sm_70", "sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_120a")
Bits = NDArray[Any]


def _all_rules() -> list[Any]:
    """Every distinct sum: one rule per form, types and architecture, without those that only repeat another."""
    found: dict[Any, Any] = {}
    for arch in ARCHES:
        for form in FORMS:
            for a in form.a:
                for b in form.a if form.mixed else (a,):
                    for c, d in form.cd:
                        for bit_op in form.bit_ops:
                            for satfinite in (False, True) if d == "s32" and a != "b1" else (False,):
                                try:
                                    rule = mma_rule(arch, form.instruction, form.shape, a, b, c, d, satfinite, bit_op)
                                except UnsupportedError:  # this architecture lacks it; tests/numerics checks which
                                    continue
                                key = tuple(getattr(rule, name) for name in rule.__slots__ if name != "source")
                                name = f"{arch}-{form.instruction}-{form.shape}-{d}.{a}.{b}.{c}"
                                found.setdefault(key, pytest.param(rule, id=name + (".satfinite" if satfinite else "")))
    return list(found.values())


RULES = _all_rules()
FLOAT_RULES = [param for param in RULES if param.values[0].d in ("f16", "f32")]


def _random_bits(rng: np.random.Generator, shape: tuple[int, int], element: str, kind: str) -> Bits:
    """Bit patterns: "any" of all codes, "values" ordinary numbers, "spread" over many binades, "sparse" half zeros."""
    dtype = matrix_dtype(element)
    width = {"s4": 4, "u4": 4, "e2m1": 4, "e3m2": 6, "e2m3": 6, "b1": 1}.get(element, 8 * dtype.itemsize)
    codes = rng.integers(0, 2**width, shape, dtype=np.uint64, endpoint=False)
    if kind == "any" or element not in FORMATS:
        return codes.astype(dtype)
    values = rng.uniform(-2, 2, shape)
    if kind == "spread":
        values *= np.exp2(rng.integers(-14, 9, shape))
    if kind == "sparse":
        values *= rng.integers(0, 2, shape)
    return encode(values, element).astype(dtype)


def _operands(rule: MmaRule, seed: int, kind: str) -> tuple[Bits, Bits, Bits]:
    rng = np.random.default_rng(seed)
    a = _random_bits(rng, (rule.m, rule.k), rule.a, kind)
    b = _random_bits(rng, (rule.k, rule.n), rule.b, kind)
    c = _random_bits(rng, (rule.m, rule.n), rule.c, kind)
    return a, b, c


def _native(rule: MmaRule, a: Bits, b: Bits, c: Bits, *, reference: bool = False, isa: str | None = None) -> Bits:
    d = mma(rule, pack_a(a, rule.a), pack_b(b, rule.b), c, reference=reference, isa=isa)
    return np.asarray(d).view(matrix_dtype(rule.d)).reshape(rule.m, rule.n)


ISAS = native.isas()


@pytest.mark.parametrize("rule", RULES)
def test_scalar_definition_agrees_with_plain_python(rule: MmaRule) -> None:
    for kind in ("any", "spread"):
        a, b, c = _operands(rule, 1, kind)
        small = _corner(rule, 4)
        expected = reference_mma(small, a[:4], b[:, :4], c[:4, :4])
        got = _native(rule, a, b, c, reference=True)
        np.testing.assert_array_equal(got[:4, :4], expected)


def _corner(rule: MmaRule, size: int) -> MmaRule:
    """The same rule on a corner of the tile: outputs do not depend on each other, and plain Python is slow."""
    return replace(rule, m=size, n=size)


@pytest.mark.parametrize("kind", ["any", "values", "spread", "sparse"])
@pytest.mark.parametrize("rule", RULES)
def test_fast_path_agrees_with_scalar_definition(rule: MmaRule, kind: str) -> None:
    for seed in range(12):
        a, b, c = _operands(rule, seed, kind)
        if seed % 4 == 1:
            c = np.zeros_like(c)
        if seed % 4 == 2:
            a = np.zeros_like(a)
        expected = _native(rule, a, b, c, reference=True)
        for isa in ISAS:
            np.testing.assert_array_equal(_native(rule, a, b, c, isa=isa), expected, err_msg=isa)


# Codes at which a fast path could go wrong: zeros, ends of the ranges, special values.
_EDGES = {
    "f16": [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x3C00, 0x3FFF, 0xBFFF, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00,
            0x7E00],
    "bf16": [0x0000, 0x8000, 0x0001, 0x807F, 0x0080, 0x0D00, 0x3F80, 0x3FFF, 0xBFFF, 0x5F00, 0x7F7F, 0xFF7F, 0x7F80,
             0x7FC0],
    "f32": [0x0, 0x80000000, 0x1, 0x807FFFFF, 0x00800000, 0x0D000000, 0x3F800000, 0x3FFFFFFF, 0x7E800000, 0x7F000000,
            0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0x7F800001, 0xBFFFFFFF],
}  # fmt: skip
_EDGES["tf32"] = [*_EDGES["f32"], 0x7F800001, 0x1FFF, 0x3FFFE000]


@settings(max_examples=60, deadline=None)
@given(data=st.data(), index=st.integers(0, len(FLOAT_RULES) - 1))
def test_fast_path_on_edge_values(data: st.DataObject, index: int) -> None:
    rule: MmaRule = FLOAT_RULES[index].values[0]
    seed = data.draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)

    def matrix(shape: tuple[int, int], element: str) -> Bits:
        ordinary = _random_bits(rng, shape, element, data.draw(st.sampled_from(["any", "values", "sparse"])))
        if element not in _EDGES:
            return ordinary
        choice = rng.choice(np.array(_EDGES[element], dtype=matrix_dtype(element)), shape)
        share = data.draw(st.sampled_from([0.0, 0.02, 0.3, 1.0]))
        return np.where(rng.random(shape) < share, choice, ordinary)

    a, b = matrix((rule.m, rule.k), rule.a), matrix((rule.k, rule.n), rule.b)
    c = matrix((rule.m, rule.n), rule.c)
    expected = _native(rule, a, b, c, reference=True)
    for isa in ISAS:
        np.testing.assert_array_equal(_native(rule, a, b, c, isa=isa), expected, err_msg=isa)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_largest_significands_do_not_overflow_the_sum(arch: str) -> None:
    """16 products just below 4 and a C just below 2 leave 31 bits."""
    rule = mma_rule(arch, "wmma", "m16n16k16", "f16", "f16", "f32", "f32")
    for sign in (0, 0x8000):
        a = np.full((16, 16), 0x3FFF | sign, np.uint16)
        b = np.full((16, 16), 0x3FFF, np.uint16)
        c = np.full((16, 16), 0x407FFFFF | sign << 16, np.uint32)
        got = _native(rule, a, b, c)
        np.testing.assert_array_equal(got, _native(rule, a, b, c, reference=True))
        exact = (-1.0 if sign else 1.0) * (16 * float(np.float16(1.9990234)) ** 2 + 3.9999998)
        assert abs(got.view(np.float32)[0, 0] - exact) <= 2**-16


def test_rules_that_differ_give_different_bits() -> None:
    """sm_75, sm_80 and sm_90 add differently, and that must show."""
    outputs = {}
    rng = np.random.default_rng(3)
    a, b = (encode(rng.uniform(-1, 1, (16, 16)) * np.exp2(rng.integers(-8, 8, (16, 16))), "f16") for _ in range(2))
    c = encode(rng.uniform(-1, 1, (16, 16)), "f32")
    for arch in ("sm_70", "sm_80", "sm_90"):
        outputs[arch] = _native(mma_rule(arch, "wmma", "m16n16k16", "f16", "f16", "f32", "f32"), a, b, c)
    assert (outputs["sm_80"] != outputs["sm_90"]).any()
    assert (outputs["sm_70"] != outputs["sm_80"]).any()


@pytest.mark.parametrize(
    ("a", "b", "c", "expected"),
    [
        pytest.param(0x7C00, 0x3C00, 0x3F800000, 0x7F800000, id="infinite operand"),
        pytest.param(0xFC00, 0x3C00, 0x3F800000, 0xFF800000, id="negative infinite operand"),
        pytest.param(0x7C00, 0x0000, 0x00000000, 0x7FFFFFFF, id="infinity times zero"),
        pytest.param(0x7C00, 0x3C00, 0xFF800000, 0x7FFFFFFF, id="opposite infinities"),
        pytest.param(0x7E01, 0x3C00, 0x3F800000, 0x7FFFFFFF, id="NaN operand"),
        pytest.param(0x3C00, 0x3C00, 0xFFC00001, 0x7FFFFFFF, id="NaN addend"),
        pytest.param(0x3C00, 0x3C00, 0x7F7FFFFF, 0x7F7FFFFF, id="far below the last bit"),
    ],
)  # fmt: skip
def test_special_values(a: int, b: int, c: int, expected: int) -> None:
    rule = mma_rule("sm_80", "mma", "m16n8k16", "f16", "f16", "f32", "f32")
    left, right = np.zeros((16, 16), np.uint16), np.zeros((16, 8), np.uint16)
    left[3, 5], right[5, 2] = a, b
    addend = np.zeros((16, 8), np.uint32)
    addend[3, 2] = c
    got = _native(rule, left, right, addend)
    assert got[3, 2] == expected
    others = np.ones((16, 8), bool)
    others[3, :] = others[:, 2] = False
    assert not got[others].any()


def test_integer_saturation_and_wrap() -> None:
    a, b = np.full((16, 16), 0x7F, np.uint8), np.full((16, 16), 0x7F, np.uint8)
    c = np.full((16, 16), 0x7FFFFFFF, np.uint32)
    wrap = mma_rule("sm_80", "wmma", "m16n16k16", "s8", "s8", "s32", "s32")
    clamp = mma_rule("sm_80", "wmma", "m16n16k16", "s8", "s8", "s32", "s32", satfinite=True)
    assert (_native(wrap, a, b, c) == (0x7FFFFFFF + 16 * 127 * 127) % 2**32).all()
    assert (_native(clamp, a, b, c) == 0x7FFFFFFF).all()
