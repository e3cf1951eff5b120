"""Which products are fused into sums: the table is what ptxas 13.5 makes of the same PTX for sm_90."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from ptx_kernels import module, run

from wmmadiag.emulator.contraction import contracted
from wmmadiag.ptx import parse

BRANCH = "setp.gt.f32 %p0, %f2, %f3; @%p0 bra $a;"
CASES = [
    ("mul.f32 %f4, %f0, %f1; sub.f32 %f5, %f4, %f2;", "fma neg"),
    ("mul.f32 %f4, %f0, %f1; sub.f32 %f5, %f2, %f4;", "fma neg"),
    ("mul.f32 %f4, %f0, %f1; add.f32 %f5, %f2, %f4;", "fma"),
    ("mul.rn.f32 %f4, %f0, %f1; add.f32 %f5, %f4, %f2;", "mul add"),
    ("mul.f32 %f4, %f0, %f1; add.rn.f32 %f5, %f4, %f2;", "mul add"),
    ("mul.f32 %f4, %f0, %f1; add.f32 %f5, %f4, %f2; st.global.f32 [%to], %f4;", "mul add"),
    ("mul.f32 %f4, %f0, %f1; add.f32 %f5, %f4, %f2; add.f32 %f6, %f4, %f3;", "fma fma"),
    ("mul.f32 %f4, %f0, %f1; mul.f32 %f5, %f2, %f3; add.f32 %f6, %f4, %f5;", "mul fma"),
    ("mul.f32 %f4, %f0, %f1; add.f32 %f6, %f4, %f4;", "mul add"),
    ("mul.f32 %f4, %f0, %f1; neg.f32 %f5, %f4; add.f32 %f6, %f2, %f5;", "fma neg"),
    ("mul.f32 %f4, %f0, %f1; mov.f32 %f7, %f4; add.f32 %f5, %f7, %f2;", "fma"),
    ("mul.f32 %f4, %f0, %f1; abs.f32 %f7, %f4; add.f32 %f5, %f7, %f2;", "mul abs add"),
    (f"mul.f32 %f4, %f0, %f1; {BRANCH} st.global.f32 [%to], %f2; $a: add.f32 %f6, %f4, %f2;", "mul add"),
    (f"mul.f32 %f4, %f0, %f1; {BRANCH} add.f32 %f6, %f4, %f2; $a:", "mul add"),
    ("mul.f32 %f4, %f0, %f1; setp.gt.f32 %p0, %f2, %f3; @%p0 add.f32 %f2, %f4, %f2;", "fma"),
    ("setp.gt.f32 %p0, %f2, %f3; @%p0 mul.f32 %f4, %f0, %f1; add.f32 %f6, %f4, %f2;", "mul add"),
    ("mul.ftz.f32 %f4, %f0, %f1; add.f32 %f5, %f4, %f2;", "mul add"),
    ("mul.f32 %f4, %f0, %f1; add.ftz.f32 %f5, %f4, %f2;", "mul add"),
    ("mul.ftz.f32 %f4, %f0, %f1; add.ftz.f32 %f5, %f4, %f2;", "fma"),
    ("mul.sat.f32 %f4, %f0, %f1; add.f32 %f5, %f4, %f2;", "mul add"),
    ("mul.f32 %f4, %f0, %f1; add.sat.f32 %f5, %f4, %f2;", "fma"),
    ("mul.f64 %fd4, %fd0, %fd1; add.f64 %fd5, %fd4, %fd2;", "fma"),
    ("mul.f16 %h4, %h0, %h1; sub.f16 %h5, %h4, %h2;", "fma neg"),
    ("mul.bf16x2 %r4, %r0, %r1; add.bf16x2 %r5, %r4, %r2;", "fma"),
    ("mul.f16x2 %r4, %r0, %r1; add.f16 %h5, %h4, %h2;", "mul add"),
    # The factor is another value by the time of the addition.
    ("mul.f32 %f4, %f0, %f1; mov.f32 %f0, %f3; add.f32 %f5, %f4, %f2;", "mul add"),
    ("mul.lo.u32 %r4, %r0, %r1; add.u32 %r5, %r4, %r2;", "mul add"),
]
NAMES = ("mul", "add", "sub", "fma", "neg", "abs")


@pytest.mark.parametrize(("body", "expected"), CASES, ids=[str(number) for number in range(len(CASES))])
def test_what_is_fused(body: str, expected: str) -> None:
    text = module(body, preset=False)
    (function,) = parse(text).functions.values()
    seen = Counter(one.op.partition(".")[0] for one in contracted(function).instructions)
    assert {name: seen[name] for name in NAMES if seen[name]} == dict(Counter(expected.split()))


@pytest.mark.parametrize(
    ("body", "sign_of_product", "sign_of_other"),
    [("add.f32 %f3, %f9, %f2;", 1, 1), ("sub.f32 %f3, %f9, %f2;", 1, -1), ("sub.f32 %f3, %f2, %f9;", -1, 1)],
    ids=["add", "product-c", "c-product"],
)
def test_the_sum_is_rounded_once(body: str, sign_of_product: int, sign_of_other: int) -> None:
    x, y = np.float32(1 + 2**-12), np.float32(1 + 2**-13)
    z = np.float32(1)
    out = np.zeros(32, np.float32)
    loads = f"mov.f32 %f0, 0f{x.view(np.uint32):08X}; mov.f32 %f1, 0f{y.view(np.uint32):08X}; mov.f32 %f2, 0f3F800000;"
    run(f"{loads} mul.f32 %f9, %f0, %f1; {body} st.global.f32 [%to], %f3;", out)
    exact = sign_of_product * float(x) * float(y) + sign_of_other * float(z)
    assert (out == np.float32(exact)).all()
    assert np.float32(sign_of_product * (x * y) + sign_of_other * z) != np.float32(exact) or body.startswith("add")


def test_labels_stay_with_their_instructions() -> None:
    body = (
        "mov.f32 %f0, 0f40000000; mov.u32 %r0, 0; $top: mul.f32 %f4, %f0, %f0; sub.f32 %f5, %f4, %f0;\n"
        "add.u32 %r0, %r0, 1; setp.lt.u32 %p0, %r0, 3; @%p0 bra $top; st.global.f32 [%to], %f5;"
    )
    out = np.zeros(32, np.float32)
    run(body, out)
    assert (out == 2).all()
