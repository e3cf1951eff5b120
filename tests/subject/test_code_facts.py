"""What the text of a kernel shows of its arrays and tiles."""

from __future__ import annotations

import pytest

from wmmadiag.ops import OPERATIONS
from wmmadiag.subject.drafts.code_facts import reads_one, tile_names, tile_shapes, told_by_formulas


@pytest.mark.parametrize(
    ("code", "one"),
    [
        ("k(const half* alpha) { y = *alpha * x; }", True),
        ("k(const half* __restrict__ alpha) { y = alpha[0]; }", True),
        ("k(P params) { y = *params.alpha; }", True),
        ("k(const half* alpha) { y = alpha[i]; }", False),
        ("k(const half* alpha) { y = *(alpha + i); }", False),
        ("k(const half* alpha) { y = *alpha; load(alpha, 4); }", False),
        ("k(const half* other) { y = *other; }", False),
    ],
)
def test_a_pointer_to_one_number(code, one):
    assert reads_one(code, "alpha") == one


def test_names_of_tiles():
    code = "__shared__ half As[BS * KS]; int row = blockIdx.y * ROWS, col = N * blockIdx.x; x[M] = 0;"
    assert tile_names(code) == {"BS", "KS", "ROWS"}


def test_shapes_of_tiles():
    code = (
        "wmma::fragment<wmma::matrix_a, WM, WN, 16, half, wmma::row_major> a; /* matrix_b, 8, 8, 8, */"
        'asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32");'
    )
    assert tile_shapes(code, {"WM": 32, "WN": 8}) == [(32, 8, 16), (16, 8, 8)]
    assert tile_shapes(code, {}) == [(16, 8, 8)]


@pytest.mark.parametrize(
    ("code", "bits"),
    [
        ("w = __int2half_rn(q.x) + __int2half_rn(q.y);", "8"),
        ("w = (q >> 8) & 0xff; mask = 0xffffffff;", "8"),
        ("w = q & 0xF;", None),
        ("w = q & 0x000f000f;", None),
        ("w = (q >> (4 * i)) & mask;", None),
        ("w = (q >> (i * 4)) & 7u;", None),
        ("low = (b << 4) >> 4;", None),
        ('asm("lop3.b32 %0, %1, %2, %3, 234;");', None),
    ],
)
def test_bytes_are_values_where_no_four_bits_are_taken(code, bits):
    assert told_by_formulas("quantized_gemm", code).get("bits") == bits
    assert OPERATIONS["quantized_gemm"].parameters["bits"].default == "4"


@pytest.mark.parametrize(
    ("code", "word"),
    [
        ("y = fminf(fmaxf(x, 0.f), 6.f);", "relu6"),
        ("y = fmaxf(x, 0.f);", "relu"),
        ("y = fminf(fmaxf(x, 0.f), 6.f); z = fmaxf(x, 0.f);", None),  # both
    ],
)
def test_a_formula_within_another_is_none_of_its_own(code, word):
    assert told_by_formulas("gemm", code).get("activation") == word
