"""Kernels of one token or of all elements at once, most of them in place: what decoders are made of."""

from __future__ import annotations

import pytest

from wmmadiag.api import check
from wmmadiag.errors import WmmadiagError

NORM = """
__global__ void rmsnorm_kernel(float* o, const float* x, const float* weight, int size) {
  __shared__ float partial[32];
  float ss = 0.0f;
  for (int j = threadIdx.x; j < size; j += blockDim.x) ss += x[j] * x[j];
  for (int d = 16; d > 0; d >>= 1) ss += __shfl_down_sync(0xffffffff, ss, d);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = ss;
  __syncthreads();
  float total = 0.f;
  for (int i = 0; i < (int)blockDim.x / 32; i++) total += partial[i];
  const float scale = rsqrtf(total / size + 1e-5f);
  for (int j = threadIdx.x; j < size; j += blockDim.x) o[j] = weight[j] * (scale * x[j]);
}
"""
NORM_LAUNCHED = NORM + (
    "void rmsnorm(float* o, float* x, float* weight, int size) { rmsnorm_kernel<<<1, 1024>>>(o, x, weight, size); }"
)
GATED = """
__global__ void silu_elementwise_mul_w3_kernel(float* hb, const float* hb2, int hidden_dim) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < hidden_dim) {
    float val = hb[i];
    val *= 1.0f / (1.0f + expf(-val));
    val *= hb2[i];
    hb[i] = val;
  }
}
void f_silu(float* hb, float* hb2, int hidden_dim) {
  silu_elementwise_mul_w3_kernel<<<(hidden_dim + 63) / 64, 64>>>(hb, hb2, hidden_dim);
}
"""
BIASED = """
__global__ void add_bias_relu(float* out, const float* bias, int m, int n) {
  for (int id = blockIdx.x * blockDim.x + threadIdx.x; id < m * n; id += blockDim.x * gridDim.x) {
    float x = out[id] + bias[id % n];
    out[id] = x > 0.f ? x : 0.f;
  }
}
void launch(float* out, const float* bias, int m, int n) { add_bias_relu<<<m, 64>>>(out, bias, m, n); }
"""


def status(tmp_path, text):
    path = tmp_path / "k.cu"
    path.write_text(text)
    try:
        return check(path).status
    except WmmadiagError:
        return "asked"


@pytest.mark.slow
@pytest.mark.parametrize("text", [NORM, NORM_LAUNCHED, GATED, BIASED], ids=["norm", "launched", "gated", "biased"])
def test_right_ones_are_right(tmp_path, text):
    assert status(tmp_path, text) == "passed"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (NORM_LAUNCHED, "total / size", "total / 1024"),
        (NORM_LAUNCHED, "total += partial[i]", "total = partial[i]"),
        (NORM, "(scale * x[j])", "(scale + x[j])"),
        # A kernel that knows nothing of rows, launched over several: one row is no reading of that.
        (NORM_LAUNCHED, "<<<1, 1024>>>", "<<<size, 1024>>>"),
        (GATED, "-val))", "val))"),
        (GATED, "val *= hb2[i]", "val *= hb2[threadIdx.x]"),
        (BIASED, "id % n", "id / n"),
        (BIASED, "id < m * n", "id < n"),
    ],
)
def test_mistakes_are_not(tmp_path, text, old, new):
    assert old in text
    assert status(tmp_path, text.replace(old, new)) != "passed"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("+ 1e-5f)", "+ 0.00001f)", "eps = 1e-5"),
        ("+ 1e-5f)", "+ EPSILON)", "eps = 1e-6"),
        (
            "rsqrtf(total / size + 1e-5f)",
            "0.f; total /= size; total += 1e-8f; scale = 1.0f / sqrtf(total)",
            "eps = 1e-8",
        ),
    ],
)
def test_what_is_added_under_the_root_is_read_off_the_code(tmp_path, old, new, said):
    path = tmp_path / "k.cu"
    path.write_text(
        "#define EPSILON 1e-6f\n" * ("EPSILON" in new)
        + NORM_LAUNCHED.replace("const float scale", "float scale").replace(old, new)
    )
    report = check(path)
    assert report.status == "passed"
    assert "eps = 1e-6" in said or any(said in one for one in report.assumed)
