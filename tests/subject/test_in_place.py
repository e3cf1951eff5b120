"""From the source alone: inputs that a kernel writes over, groups that an axis of the grid counts, warps too many."""

from __future__ import annotations

from pathlib import Path

import pytest

from wmmadiag.api import check
from wmmadiag.errors import ConfigurationError
from wmmadiag.subject.drafts.code_facts import writes_to

KERNELS = Path(__file__).parents[2] / "kernels"


def checked(tmp_path, name, old="", new="", **options):
    text = (KERNELS / name / "kernel.cu").read_text()
    assert old in text
    path = tmp_path / "k.cu"
    path.write_text(text.replace(old, new) if old else text)
    return check(path, **options)


def test_a_residual_that_is_written_over_is_judged(tmp_path):
    report = checked(tmp_path, "rmsnorm")
    assert report.status == "passed"
    judged = {one.output for case in report.cases for one in case.observations}
    assert judged == {"y", "residual"}


@pytest.mark.parametrize(
    ("old", "new"),
    [("residual[i] = sum;", "residual[i] = x[i];"), ("squares / cols + eps", "squares / pairs + eps")],
)
def test_a_wrong_one_is_not_right(tmp_path, old, new):
    with pytest.raises(ConfigurationError, match="how is it launched"):
        checked(tmp_path, "rmsnorm", old, new, computes="rmsnorm")


def test_groups_have_an_axis_of_the_grid(tmp_path):
    report = checked(tmp_path, "grouped_gemm")
    assert report.status == "passed"
    assert all(case.block == (32, 1, 1) and case.grid[2] == case.symbols["G"] > 1 for case in report.cases)


@pytest.mark.parametrize(
    "code",
    [
        "x[i] = y;",
        "x[i + 2] += y;",
        "vector.store(x + i);",
        "store<4>(&x[i], y);",
        "half* p = &x[4]; p[i] = y;",
        "float4* v = reinterpret_cast<float4*>(x); v[i] = q;",
        "auto v = reinterpret_cast<Vec<half, 8>*>(x) + row; v[i] = q;",
        "*(float4*)(x + i) = q;",
        "*reinterpret_cast<uint4*>(&x[i]) = q;",
        "((float4*)x)[i] = q;",
        "FLOAT4(x[i]) = q;",
    ],
)
def test_what_is_written(code):
    assert writes_to(code, "x")


@pytest.mark.parametrize(
    "code",
    [
        "y[i] = x[i];",
        "if (x[i] == 2) y = 0;",
        "xx[i] = 1;",
        "z = x[i] <= 2;",
        "v.store(y, x[i]);",
        "*(float4*)&y[i] = *(float4*)&x[i];",
        "auto v = reinterpret_cast<const V*>(x)[i]; v[0] = 1;",
        "int n = (int)x[3]; y[n] = 1;",
    ],
)
def test_what_is_read_alone(code):
    assert not writes_to(code, "x")


@pytest.mark.slow
def test_wrong_groups_are_not_right(tmp_path):
    with pytest.raises(ConfigurationError, match="how is it launched"):
        checked(tmp_path, "grouped_gemm", "depth = 0", "depth = 16", computes="grouped_gemm")


BY_VECTORS = """
__global__ void fused_add_rmsnorm(float* input, float* residual, const float* weight, float eps, int hidden) {
  float4* in = reinterpret_cast<float4*>(input) + blockIdx.x * (hidden / 4);
  auto kept = reinterpret_cast<float4*>(residual) + blockIdx.x * (hidden / 4);
  __shared__ float sums[32];
  float sum = 0;
  for (int i = threadIdx.x; i < hidden / 4; i += 32) {
    float4 x = in[i], r = kept[i];
    r = make_float4(r.x + x.x, r.y + x.y, r.z + x.z, r.w + x.w);
    sum += r.x * r.x + r.y * r.y + r.z * r.z + r.w * r.w;
    kept[i] = r;
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  float all = 0;
  for (int i = 0; i < 32; i++) all += sums[i];
  const float f = rsqrtf(all / hidden + eps);
  for (int i = threadIdx.x; i < hidden / 4; i += 32) {
    float4 r = kept[i], w = reinterpret_cast<const float4*>(weight)[i];
    in[i] = make_float4(r.x * f * w.x, r.y * f * w.y, r.z * f * w.z, r.w * f * w.w);
  }
}
void run(float* x, float* r, const float* w, float eps, int tokens, int hidden) {
  fused_add_rmsnorm<<<tokens, 32>>>(x, r, w, eps, hidden);
}
"""


@pytest.mark.slow
def test_what_is_written_over_by_vectors_is_judged(tmp_path):
    path = tmp_path / "k.cu"
    path.write_text(BY_VECTORS)
    report = check(path)
    assert report.status == "passed"
    assert {one.output for case in report.cases for one in case.observations} == {"input", "residual"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"), [("kept[i] = r;", "kept[i] = x;"), ("all / hidden", "all / 32"), ("r.w * f * w.w", "r.w * f")]
)
def test_mistakes_in_it_are_seen(tmp_path, old, new):
    path = tmp_path / "k.cu"
    path.write_text(BY_VECTORS.replace(old, new))
    assert check(path).status != "passed"


OVER = """
__global__ void add_rmsnorm(float* input, float* residual, const float* weight, int cols, float eps) {
  float *row = input + blockIdx.x * cols, *kept = residual + blockIdx.x * cols;
  __shared__ float sums[32];
  float sum = 0;
  for (int i = threadIdx.x; i < cols; i += 32) {
    kept[i] = row[i] + kept[i];
    sum += kept[i] * kept[i];
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  sum = 0;
  for (int i = 0; i < 32; ++i) sum += sums[i];
  for (int i = threadIdx.x; i < cols; i += 32) row[i] = kept[i] * rsqrtf(sum / cols + eps) * weight[i];
}
void launch(float* input, float* residual, const float* weight, int rows, int cols, float eps) {
  add_rmsnorm<<<rows, 32>>>(input, residual, weight, cols, eps);
}
"""


def test_a_result_without_an_array_takes_the_place_of_an_input_that_is_stored_to(tmp_path):
    path = tmp_path / "over.cu"
    path.write_text(OVER)
    report = check(path)
    assert report.status == "passed"
    assert {one.output for case in report.cases for one in case.observations} == {"input", "residual"}
    path.write_text(OVER.replace("row[i] = kept[i] *", "row[i] = row[i] *"))
    assert check(path).status == "undecided"
