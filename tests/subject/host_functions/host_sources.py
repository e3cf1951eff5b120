"""A kernel beside the host function that says what it computes, and a card that names the call."""

from __future__ import annotations

GELU = """
#include <cmath>
#include <cstdlib>

void gelu_cpu(float* out, const float* inp, int n) {
    for (int i = 0; i < n; i++) {
        float x = inp[i];
        out[i] = 0.5f * x * (1.0f + tanhf(sqrtf(2.0f / 3.14159265f) * (x + 0.044715f * x * x * x)));
    }
}

__global__ void gelu_kernel(float* out, const float* inp, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float x = inp[i];
        out[i] = 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
    }
}

void gelu(float* out, const float* inp, int n, int block_size) {
    gelu_kernel<<<(n + block_size - 1) / block_size, block_size>>>(out, inp, n);
}
"""


def source(tmp_path, text, name="kernel.cu"):
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return path


CARD = """
format = 1
source = "kernel.cu"
entry = "gelu_kernel"
arguments = [
  { name = "out", role = "out", dtype = "f32", shape = ["n"], direction = "out" },
  { name = "inp", role = "inp", dtype = "f32", shape = ["n"], direction = "in" },
  { name = "n", dtype = "s32", value = "n" },
]
launch = { grid = "ceil_div(n, 64)", block = 64 }
computes = { host = "kernel.cu", call = "CALL" }
cases = [{ name = "odd", n = 1000 }]
"""
