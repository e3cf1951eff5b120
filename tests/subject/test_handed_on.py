"""What later kernels of a host function do with an array tells what a kernel may have written into it."""

from __future__ import annotations

import pytest

from wmmadiag import check
from wmmadiag.subject.drafts.handed_on import taken

QUANTIZED = """
#include <cuda_fp16.h>
#include <cstdint>
__global__ void quantize_rows(const half* x, int8_t* xq, float* scale, int cols) {
  const half* row = x + (size_t)blockIdx.x * cols;
  float largest = 0.f;
  for (int i = 0; i < cols; ++i) largest = fmaxf(largest, fabsf(__half2float(row[i])));
  float s = largest / 127.f, inv = 1.f / s;
  if (threadIdx.x == 0) scale[blockIdx.x] = STORED;
  for (int i = threadIdx.x; i < cols; i += blockDim.x)
    xq[(size_t)blockIdx.x * cols + i] = (int8_t)__float2int_rn(__half2float(row[i]) * inv);
}
__global__ void dequantize_rows(const int8_t* xq, const float* factors, float* y, int cols) {
  for (int i = threadIdx.x; i < cols; i += blockDim.x) {
    size_t at = (size_t)blockIdx.x * cols + i;
    y[at] = (float)xq[at] TAKEN;
  }
}
void launch(const half* x, int8_t* xq, float* scale, float* y, int rows, int cols) {
  quantize_rows<<<rows, 128>>>(x, xq, scale, cols);
  dequantize_rows<<<rows, 128>>>(xq, scale, y, cols);
}
"""


@pytest.mark.parametrize(
    ("stored", "used", "status"),
    [
        ("s", "* factors[blockIdx.x]", "passed"),
        ("inv", "/ factors[blockIdx.x]", "passed"),
        ("inv", "* factors[blockIdx.x]", "undecided"),
    ],
)
def test_a_factor_is_what_the_kernel_behind_takes_it_for(tmp_path, stored, used, status):
    path = tmp_path / "rows.cu"
    path.write_text(QUANTIZED.replace("STORED", stored).replace("TAKEN", used))
    assert check(path, entry="quantize_rows").status == status


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("y = v * s[row] * t[col];", "multiplied"),
        ("y = s[rows[i]] * v;", "multiplied"),
        ("y *= __half2float(s[row]);", "multiplied"),
        ("y = v / s[row];", "divided"),
        ("y = v / (float)s[row];", "divided"),
        ("y = v / __half2float(s[row]);", "divided"),
        ("float f = s[row]; y = v * f;", "multiplied"),
        ("float f = s[row]; y = v / f;", "divided"),
        ("y = v / s[row] + w * s[row];", None),
        ("y = fmaf(v, s[row], w); // * s[row]", None),
        ("y = v * ss[row];", None),
    ],
)
def test_how_code_takes_an_array(code, found):
    assert taken(code, "s") == found
