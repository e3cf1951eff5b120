"""Convolutions of sequences, against sums written out."""

import numpy as np
import pytest

import wmmadiag
from wmmadiag.cli.main import main


def written_out(x, weight, bias, left, dilation):
    result = np.zeros(x.shape)
    for b, d, t in np.ndindex(x.shape):
        total = bias[d]
        for w in range(weight.shape[1]):
            at = t + w * dilation - left
            total += weight[d, w] * x[b, d, at] if 0 <= at < x.shape[2] else 0.0
        result[b, d, t] = total
    return result


@pytest.mark.parametrize(
    ("said", "left", "dilation"), [({}, 3, 1), ({"dilation": 2}, 6, 2), ({"left": 1}, 1, 1), ({"left": 0}, 0, 1)]
)
def test_sums_written_out(said, left, dilation):
    rng = np.random.default_rng(1)
    x, weight, bias = rng.standard_normal((2, 3, 11)), rng.standard_normal((3, 4)), rng.standard_normal(3)
    wanted = wmmadiag.reference("conv1d", x=x, weight=weight, bias=bias, activation="silu", **said).value
    sums = written_out(x, weight, bias, left, dilation)
    assert np.allclose(wanted, sums / (1 + np.exp(-sums)))


def test_rounding_is_within_the_bound_and_a_tap_elsewhere_is_not():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((2, 3, 50)).astype(np.float32)
    weight, bias = rng.standard_normal((3, 4)).astype(np.float32), rng.standard_normal(3).astype(np.float32)
    wanted = wmmadiag.reference("conv1d", x=x, weight=weight, bias=bias)
    sums = np.broadcast_to(bias[:, None], x.shape).copy()
    for w in range(4):
        sums += weight[:, w, None] * np.pad(x, ((0, 0), (0, 0), (3, 0)))[..., w : w + 50]
    assert (np.abs(sums - wanted.value) <= wanted.bound).all()
    assert (np.abs(written_out(x, weight, bias, 2, 1) - wanted.value) > wanted.bound).mean() > 0.9


SOURCE = """
__global__ void conv1d_same(const float* input, const float* mask, float* output, int n, int mask_width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0.0f;
    for (int j = 0; j < mask_width; j++) {
        int at = i - mask_width / 2 + j;
        if (at >= 0 && at < n) sum += input[at] * mask[j];
    }
    output[i] = sum;
}
void run(const float* in, const float* mask, float* out, int n, int mask_width) {
    conv1d_same<<<(n + 255) / 256, 256>>>(in, mask, out, n, mask_width);
}
"""


@pytest.mark.parametrize(("first", "code"), [("j = 0", 0), ("j = 1", 3)])
def test_one_channel_and_a_filter_about_its_element(tmp_path, capsys, first, code):
    path = tmp_path / "conv.cu"
    path.write_text(SOURCE.replace("j = 0", first))
    assert main(["check", str(path)]) == code
    assert "taken as conv1d" in " ".join(capsys.readouterr().out.split())
