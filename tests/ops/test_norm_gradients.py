"""The backward passes of LayerNorm and RMSNorm, against slopes by differences and their formulas written out."""

import numpy as np
import pytest

from wmmadiag.cli.main import main
from wmmadiag.numerics.element_types import TYPES
from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.catalogue.layernorm import layernorm
from wmmadiag.ops.catalogue.rmsnorm import rmsnorm
from wmmadiag.ops.evaluation import judge, reference

NORMS = {
    "layernorm_backward": lambda x, weight, eps: layernorm(x, weight, eps=eps)[0],
    "rmsnorm_backward": lambda x, weight, eps: rmsnorm(x, weight, eps=eps)[0],
}


def defaults(operation, **changes):
    return {
        **{name: one.default for name, one in OPERATIONS[operation].parameters.items()},
        "unit_offset": 0,
        **changes,
    }


@pytest.mark.parametrize("operation", NORMS)
def test_it_is_the_slope_of_the_norm(operation):
    rng = np.random.default_rng(1)
    x, dy = rng.standard_normal((2, 3, 12))
    weight = rng.standard_normal(12)
    wanted = reference(operation, defaults(operation, eps=0.25), {"dy": dy, "x": x, "weight": weight})
    norm, step = NORMS[operation], 1e-6
    for m, n in np.ndindex(x.shape):
        ahead, behind = x.copy(), x.copy()
        ahead[m, n] += step
        behind[m, n] -= step
        slope = ((norm(ahead, weight, 0.25) - norm(behind, weight, 0.25)) * dy).sum() / (2 * step)
        assert abs(wanted["dx"][m, n] - slope) < 1e-7
    for n in range(12):
        ahead, behind = weight.copy(), weight.copy()
        ahead[n] += step
        behind[n] -= step
        slope = ((norm(x, ahead, 0.25) - norm(x, behind, 0.25)) * dy).sum() / (2 * step)
        assert abs(wanted["dweight"][n] - slope) < 1e-7


def in_floats(dy, x, weight, mean, rstd, centred):
    """The gradients as kernels compute them, with every step in float32."""
    count = np.float32(x.shape[1])
    g = dy * weight
    normed = (x - mean[:, None]) * rstd[:, None] if centred else x * rstd[:, None]
    along = (g * normed).sum(axis=1, keepdims=True, dtype=np.float32) / count
    whole = g.sum(axis=1, keepdims=True, dtype=np.float32) / count if centred else np.float32(0)
    return {
        "dx": rstd[:, None] * (g - whole - normed * along),
        "dweight": (dy * normed).sum(axis=0, dtype=np.float32),
        **({"dbias": dy.sum(axis=0, dtype=np.float32)} if centred else {}),
    }


@pytest.mark.parametrize("given", [True, False], ids=["statistics given", "computed"])
@pytest.mark.parametrize("operation", NORMS)
def test_rounding_is_within_the_bound_and_mistakes_are_not(operation, given):
    rng = np.random.default_rng(2)
    centred = operation.startswith("layer")
    x, dy = (rng.standard_normal((2, 9, 257)) + 1).astype(np.float32)
    weight = rng.standard_normal(257).astype(np.float32)
    mean = x.mean(axis=1, dtype=np.float32) if centred else np.zeros(9, np.float32)
    rstd = (1 / np.sqrt(((x - mean[:, None]) ** 2).mean(axis=1, dtype=np.float32) + np.float32(1e-5))).astype(
        np.float32
    )
    statistics = {"rstd": rstd, **({"mean": mean} if centred else {})} if given else {}
    inputs, parameters = {"dy": dy, "x": x, "weight": weight, **statistics}, defaults(operation, eps=1e-5)
    wanted = reference(operation, parameters, inputs)
    elements = dict.fromkeys([*inputs, *wanted], TYPES["f32"])
    bounds = {role: one.bound for role, one in judge(operation, parameters, inputs, wanted, elements).items()}
    right = in_floats(dy, x, weight, mean, rstd, centred)
    assert right.keys() <= wanted.keys()
    for role, values in right.items():
        assert (np.abs(values - wanted[role]) <= bounds[role]).all(), role
    g = dy * weight
    normed = (x - mean[:, None]) * rstd[:, None]
    off = np.abs(rstd[:, None] * (g - normed * (g * normed).sum(axis=1, keepdims=True) / 256) - wanted["dx"])
    assert (off > bounds["dx"]).mean() > 0.5  # a count that is one less, and no mean of g
    assert (np.abs(right["dweight"] * 1.001 - wanted["dweight"]) > bounds["dweight"]).mean() > 0.4


SOURCE = """
template <typename T>
__global__ void ln_bwd(const T* dY, const T* X, const T* gamma, const float* mean, const float* rstd, T* dX,
                       float* dgamma, float* dbeta, int M, int N) {
  __shared__ float a[128], b[128];
  const size_t row = (size_t)blockIdx.x * N;
  const float m = mean[blockIdx.x], r = rstd[blockIdx.x];
  float s1 = 0, s2 = 0;
  for (int j = threadIdx.x; j < N; j += blockDim.x) {
    float g = (float)dY[row + j] * (float)gamma[j];
    s1 += g * ((float)X[row + j] - m) * r;
    s2 += g;
  }
  a[threadIdx.x] = s1;
  b[threadIdx.x] = s2;
  __syncthreads();
  for (int o = blockDim.x / 2; o > 0; o >>= 1) {
    if (threadIdx.x < o) { a[threadIdx.x] += a[threadIdx.x + o]; b[threadIdx.x] += b[threadIdx.x + o]; }
    __syncthreads();
  }
  for (int j = threadIdx.x; j < N; j += blockDim.x) {
    float normed = ((float)X[row + j] - m) * r;
    float g = (float)dY[row + j] * (float)gamma[j];
    dX[row + j] = (T)(r * (g - (b[0] + normed * a[0]) / N));
    atomicAdd(dgamma + j, (float)dY[row + j] * normed);
    atomicAdd(dbeta + j, (float)dY[row + j]);
  }
}
void layer_norm_backward(const half* dY, const half* X, const half* gamma, const float* mean, const float* rstd,
                         half* dX, float* dgamma, float* dbeta, int rows, int cols) {
  ln_bwd<half><<<rows, 128>>>(dY, X, gamma, mean, rstd, dX, dgamma, dbeta, rows, cols);
}
"""


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("", "", 0),
        ("+ normed * a[0])", "+ normed * b[0])", 3),
        ("dgamma + j, (float)dY[row + j] * normed", "dgamma + j, (float)dY[row + j]", 3),
    ],
    ids=["right", "the other sum", "the weight's gradient unnormalised"],
)
def test_a_source_alone_tells_it(tmp_path, capsys, old, new, code):
    """dX is written, and the sums are added to what was there: the code tells for each output of its own."""
    path = tmp_path / "ln.cu"
    path.write_text("#include <cuda_fp16.h>\n" + (SOURCE.replace(old, new) if old else SOURCE))
    assert main(["check", str(path)]) == code
    said = " ".join(capsys.readouterr().out.split())
    assert "taken as layernorm_backward" in said
    assert code or ("added to 'dgamma'" in said and "added to 'dX'" not in said)
