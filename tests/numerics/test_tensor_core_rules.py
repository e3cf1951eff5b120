"""The table of rules: published values, and what each architecture has."""

from __future__ import annotations

import numpy as np
import pytest
from native_parts import mma, pack_a, pack_b
from plain_mma import reference_mma

from wmmadiag.errors import UnsupportedError
from wmmadiag.numerics.architecture import FAMILIES, architecture
from wmmadiag.numerics.tensor_core import SUM_TABLE, mma_rule
from wmmadiag.numerics.tensor_core_forms import FORMS, parse_shape, shapes


@pytest.mark.parametrize(
    ("arch", "instruction", "shape", "a", "c", "d", "expected"),
    [
        ("sm_70", "wmma", "m16n16k16", "f16", "f32", "f32", (23, 4, -131)),
        ("sm_75", "wmma", "m16n16k16", "f16", "f32", "f32", (24, 8, -132)),
        ("sm_75", "mma", "m8n8k4", "f16", "f16", "f16", (23, 4, -19)),
        ("sm_80", "wmma", "m16n16k16", "f16", "f16", "f16", (24, 8, -20)),
        ("sm_86", "mma", "m16n8k16", "bf16", "f32", "f32", (24, 8, -132)),
        ("sm_89", "mma", "m16n8k16", "f16", "f32", "f32", (24, 8, -132)),
        ("sm_89", "mma", "m16n8k32", "e4m3", "f32", "f32", (13, 16, -132)),
        ("sm_89", "mma", "m16n8k8", "tf32", "f32", "f32", (24, 4, -132)),
        ("sm_90", "wmma", "m16n16k16", "bf16", "f32", "f32", (25, 16, -133)),
        ("sm_90a", "mma", "m16n8k8", "f16", "f32", "f32", (25, 8, -133)),
        ("sm_90", "mma", "m16n8k8", "tf32", "f32", "f32", (25, 8, -133)),
        ("sm_90", "wmma", "m16n16k8", "tf32", "f32", "f32", (25, 4, -133)),
        ("sm_120", "wmma", "m16n16k8", "tf32", "f32", "f32", (25, 4, -133)),
        ("sm_90", "wmma", "m16n16k16", "f16", "f32", "f16", (25, 16, -133)),
        ("sm_90", "wmma", "m16n16k16", "f16", "f16", "f16", (25, 16, -21)),
        ("sm_103", "mma", "m16n8k16", "f16", "f16", "f16", (25, 16, -21)),
        ("sm_121a", "mma", "m16n8k32", "e4m3", "f32", "f32", (25, 32, -133)),
    ],
)
def test_published_rows(
    arch: str, instruction: str, shape: str, a: str, c: str, d: str, expected: tuple[int, int, int]
) -> None:
    rule = mma_rule(arch, instruction, shape, a, a, c, d)
    assert (rule.fraction_bits, rule.step, rule.zero_exponent) == expected
    assert rule.source


def test_ada_fp8_keeps_thirteen_bits() -> None:
    assert mma_rule("sm_89", "mma", "m16n8k32", "e4m3", "e5m2", "f32", "f32").result_bits == 13
    assert mma_rule("sm_120", "mma", "m16n8k32", "e4m3", "e5m2", "f32", "f32").result_bits == 23


def test_fp8_is_widened_where_there_is_no_unit() -> None:
    for arch, widened in (("sm_89", False), ("sm_90", True), ("sm_100", True), ("sm_120", False)):
        assert mma_rule(arch, "mma", "m16n8k32", "e4m3", "e4m3", "f32", "f32").widen is widened
    rule = mma_rule("sm_90", "mma", "m16n8k16", "e4m3", "e4m3", "f32", "f32")
    assert rule.step == 8  # two HMMA.1688


def test_software_m8n8k4() -> None:
    assert mma_rule("sm_80", "mma", "m8n8k4", "f16", "f16", "f32", "f32").software
    assert not mma_rule("sm_75", "mma", "m8n8k4", "f16", "f16", "f32", "f32").software


@pytest.mark.slow
def test_software_m8n8k4_with_an_f16_result_adds_pairs_to_c_one_after_the_other() -> None:
    """The order of FMUL, FFMA and FADD in the SASS of ptxas 13.0; a chain over k gives other bits here."""
    rule = mma_rule("sm_90", "mma", "m8n8k4", "f16", "f16", "f16", "f16")
    rng = np.random.default_rng(1)
    chains = 0
    for _ in range(50):
        a, b = (rng.normal(size=shape).astype(np.float16) for shape in ((8, 4), (4, 8)))
        x, y = a.astype(np.float32), b.astype(np.float32)
        terms = [x[:, p, None] * y[None, p] for p in range(4)]  # exact: 11 + 11 bits
        c = -np.sum(terms, axis=0).astype(np.float16)  # what is left shows the bits that the order decides
        pairs = (c.astype(np.float32) + (terms[0] + terms[1])) + (terms[2] + terms[3])
        chain = ((terms[0] + terms[1]) + terms[2]) + terms[3] + c.astype(np.float32)
        bits = [one.view(np.uint16) for one in (a, b, c)]
        found = reference_mma(rule, *bits)
        native_found = mma(rule, pack_a(bits[0], "f16"), pack_b(bits[1], "f16"), bits[2])
        assert (found == pairs.astype(np.float16).view(np.uint16)).all()
        assert (found == np.asarray(native_found).view(np.uint16).reshape(8, 8)).all()
        chains += int((found != chain.astype(np.float16).view(np.uint16)).sum())
    assert chains > 100, chains  # of 3,200 elements


@pytest.mark.parametrize(
    ("arch", "arguments", "message", "hint"),
    [
        (
            "sm_75",
            ("wmma", "m16n16k16", "bf16", "bf16", "f32", "f32"),
            "sm_75 has no wmma m16n16k16",
            "sm_80 and later",
        ),
        ("sm_80", ("mma", "m16n8k32", "e4m3", "e4m3", "f32", "f32"), "sm_80 has no mma", "sm_89 and later"),
        ("sm_86", ("mma", "m16n8k16", "f64", "f64", "f64", "f64"), "sm_86 has no mma", "sm_90 and later"),
        ("sm_120", ("mma", "m16n8k32", "e2m1", "e2m1", "f32", "f32"), "sm_120 has no mma", "sm_120a"),
        ("sm_90", ("wmma", "m16n8k16", "f16", "f16", "f32", "f32"), "no architecture has", "m16n16k16, m32n8k16"),
        ("sm_90", ("wmma", "m16n16k16", "s8", "u8", "s32", "s32"), "no architecture has", "m16n16k16"),
        ("sm_90", ("mma", "m16n8k16", "bf16", "bf16", "f16", "f16"), "no architecture has", "m16n8k8"),
        ("sm_90", ("wmma", "m16n16k16", "e4m3", "e4m3", "f32", "f32"), "no architecture has", "no wmma takes e4m3"),
        ("sm_60", ("wmma", "m16n16k16", "f16", "f16", "f32", "f32"), "sm_60", "sm_75"),
        ("sm_80a", ("wmma", "m16n16k16", "f16", "f16", "f32", "f32"), "sm_80a", "sm_90"),
    ],
)
def test_missing_forms_are_refused_by_name(
    arch: str, arguments: tuple[str, str, str, str, str, str], message: str, hint: str
) -> None:
    with pytest.raises(UnsupportedError) as refusal:
        mma_rule(arch, *arguments)
    assert message in refusal.value.message
    assert hint in refusal.value.hint


def test_satfinite_belongs_to_integers() -> None:
    assert mma_rule("sm_80", "wmma", "m16n16k16", "s8", "s8", "s32", "s32", satfinite=True).satfinite
    with pytest.raises(UnsupportedError, match="satfinite"):
        mma_rule("sm_80", "wmma", "m16n16k16", "f16", "f16", "f32", "f32", satfinite=True)


def test_bit_operations() -> None:
    assert mma_rule("sm_75", "wmma", "m8n8k128", "b1", "b1", "s32", "s32", bitop="xor_popc").bit_op == "xor_popc"
    with pytest.raises(UnsupportedError):
        mma_rule("sm_75", "wmma", "m8n8k128", "b1", "b1", "s32", "s32", bitop="and_popc")
    with pytest.raises(UnsupportedError):
        mma_rule("sm_80", "wmma", "m8n8k128", "b1", "b1", "s32", "s32")


@pytest.mark.parametrize("number", FAMILIES)
def test_every_form_of_every_architecture_has_a_rule(number: int) -> None:
    target = architecture(f"sm_{number}" + ("a" if number >= 90 else ""))
    for form in FORMS:
        for c, d in form.cd:
            for bit_op in form.bit_ops:
                arguments = (form.instruction, form.shape, form.a[0], form.a[-1], c, d)
                if not form.mixed:
                    arguments = (form.instruction, form.shape, form.a[0], form.a[0], c, d)
                if form.available(target):
                    rule = mma_rule(target.name, *arguments, bitop=bit_op)
                    m, n, k = parse_shape(form.shape)
                    assert (rule.m, rule.n, rule.k) == (m, n, k)
                    assert rule.step <= k
                    assert rule.step == 0 or k % rule.step == 0


def test_shapes_follow_the_architecture() -> None:
    assert ("m16n16k8", "tf32") in shapes(architecture("sm_80"), "wmma")
    assert ("m16n16k8", "tf32") not in shapes(architecture("sm_75"), "wmma")
    assert ("m16n8k32", "e2m1") in shapes(architecture("sm_120f"), "mma")


def test_every_family_has_a_row() -> None:
    assert set(FAMILIES.values()) == set(SUM_TABLE)
