"""How PTX forms become lane operations: predicate results, negated predicates, registers wider than their types."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_kernels import run

LANES = np.arange(32, dtype=np.int64)
STORE = "st.global.u32 [%to], %r9;"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            "setp.lt.u32 %p1, %tid, 5; lop3.or.b32 %r2|%p2, %tid, 12, 0, 192, %p1;"
            "selp.u32 %r3, 1, 0, %p2; shl.b32 %r9, %r2, 8; or.b32 %r9, %r9, %r3;",
            (LANES & 12) << 8 | (((LANES & 12) != 0) | (LANES < 5)),
            id="lop3-or",
        ),
        pytest.param(
            "setp.lt.u32 %p1, %tid, 5; lop3.and.b32 _|%p2, %tid, 12, 0, 192, !%p1; selp.u32 %r9, 1, 0, %p2;",
            ((LANES & 12) != 0) & ~(LANES < 5),
            id="lop3-and-sink-negated",
        ),
        pytest.param(
            "setp.lt.u32 %p1, %tid, 9; setp.gt.and.u32 %p2|%p3, %tid, 3, !%p1;"
            "selp.u32 %r1, 1, 0, %p2; selp.u32 %r2, 2, 0, %p3; or.b32 %r9, %r1, %r2;",
            ((LANES > 3) & ~(LANES < 9)) | (~(LANES > 3) & ~(LANES < 9)) * 2,
            id="setp-pair-negated",
        ),
        pytest.param("sub.u32 %r1, %tid, 16; cvt.s8.s32 %r9, %r1;", LANES - 16, id="cvt-s8-into-32-bits"),
        # 0x0507fe03 and the lane's number in two of its bytes.
        pytest.param(
            "mul.lo.u32 %r1, %tid, 65537; vabsdiff4.u32.u32.u32.add %r9, %r1, 84409859, 1000;",
            1000 + abs(LANES - 3) + 254 + abs(LANES - 7) + 5,
            id="vabsdiff4-sum",
        ),
        pytest.param(
            "mul.lo.u32 %r1, %tid, 65537; vabsdiff4.u32.u32.u32 %r9, %r1, 84409859, 0;",
            abs(LANES - 3) | 254 << 8 | abs(LANES - 7) << 16 | 5 << 24,
            id="vabsdiff4",
        ),
        pytest.param(
            "mul.lo.u32 %r1, %tid, 65537; vabsdiff4.u32.s32.s32.add %r9, %r1, 84409859, 0;",
            abs(LANES - 3) + 2 + abs(LANES - 7) + 5,
            id="vabsdiff4-signed",
        ),
        pytest.param(
            "mul.lo.u32 %r1, %tid, 65537; vadd2.u32.u32.u32 %r9, %r1, 4294901776, 0;",
            (LANES + 16) & 0xFFFF | ((LANES + 0xFFFF) & 0xFFFF) << 16,
            id="vadd2",
        ),
        pytest.param(
            "mul.lo.u32 %r1, %tid, 65537; vmax2.s32.s32.s32 %r9, %r1, 4294901776, 0;",
            np.maximum(LANES, 16) | LANES << 16,
            id="vmax2-signed",
        ),
        pytest.param("add.u32 %r1, %tid, 250; cvt.u8.u32 %r9, %r1;", (LANES + 250) & 255, id="cvt-u8-into-32-bits"),
        pytest.param("sub.u32 %r1, %tid, 16; cvt.s32.s16 %r9, %r1;", LANES - 16, id="cvt-from-a-wider-register"),
        pytest.param("sub.u32 %r1, %tid, 16; cvt.s32.s8 %r9, %r1;", LANES - 16, id="cvt-s8-from-32-bits"),
        pytest.param(
            "cvt.u16.u32 %h1, %tid; mov.b32 %r1, {%h1, %h1}; mov.b32 {%h2, %h3}, %r1; cvt.u32.u16 %r9, %h3;",
            LANES,
            id="pack-and-unpack",
        ),
        pytest.param(
            "mov.f32 %f1, 0d3FF8000000000000; mov.b32 %r9, %f1;", LANES * 0 + 0x3FC00000, id="f64-literal-in-f32"
        ),
    ],
)
def test_lane_forms(body: str, expected: np.ndarray) -> None:
    output = np.zeros(32, np.uint32)
    run(body + STORE, output)
    assert (output == (expected & 0xFFFFFFFF).astype(np.uint32)).all()
