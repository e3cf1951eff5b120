"""Casts that take memory for other numbers than it is declared of, and casts that are none of that."""

from __future__ import annotations

from wmmadiag.diagnose.source.casts import mistyped
from wmmadiag.diagnose.source.read import read_source

_SOURCE = """__global__ void k(const signed char* a, float* out, int n) {
    extern __shared__ unsigned char raw[];
    float* sums = (float*)raw;
    half* again = reinterpret_cast<half*>(sums);
    __shared__ half tile[256];
    out[n] = ((half*)sums)[n];
    *reinterpret_cast<float*>(&tile[n]) = 1.0f;
    f((const unsigned char*)a + n);
    *(float*)(raw + n) = 0.0f;
    *reinterpret_cast<uint4*>(&tile[8 * n]) = make_uint4(0, 0, 0, 0);
    out[n] = ((float*)sums)[n] + (float)tile[n] * 2;
}
"""


def test_accesses_through_pointers_to_other_numbers() -> None:
    found = [(one.line, one.array, one.declared, one.taken, one.wider) for one in mistyped(read_source(_SOURCE))]
    assert found == [
        (6, "sums", "float", "half", False),
        (7, "tile", "half", "float", True),
        (8, "a", "signed char", "unsigned char", False),
    ]
