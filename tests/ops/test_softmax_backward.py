"""dX = scale · Y ∘ (dY − Σ Y ∘ dY), against slopes of the softmax by differences."""

import numpy as np
import pytest

import wmmadiag
from wmmadiag.cli.main import main


def softmax(x):
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize(("of", "forward"), [("softmax", softmax), ("logarithm", lambda x: np.log(softmax(x)))])
def test_it_is_the_slope(of, forward):
    rng = np.random.default_rng(1)
    x, dy = rng.standard_normal((2, 3, 10))
    wanted = wmmadiag.reference("softmax_backward", dy=dy, y=forward(x), of=of).value
    for m, n in np.ndindex(x.shape):
        ahead, behind = x.copy(), x.copy()
        ahead[m, n] += 1e-6
        behind[m, n] -= 1e-6
        assert abs(wanted[m, n] - ((forward(ahead) - forward(behind)) * dy).sum() / 2e-6) < 1e-7


def test_what_a_causal_mask_leaves_out_counts_for_nothing():
    rng = np.random.default_rng(2)
    y, dy = rng.random((2, 6, 6))
    wanted = wmmadiag.reference("softmax_backward", dy=dy, y=y, causal=True, scale=0.5).value
    for row in range(6):
        own = slice(0, row + 1)
        assert np.allclose(wanted[row, own], 0.5 * y[row, own] * (dy[row, own] - y[row, own] @ dy[row, own]))
        assert not wanted[row, row + 1 :].any()


@pytest.mark.parametrize("of", ["softmax", "logarithm"])
def test_rounding_is_within_the_bound_and_another_count_is_not(of):
    rng = np.random.default_rng(3)
    y = softmax(rng.standard_normal((20, 300))).astype(np.float32)
    dy = rng.standard_normal((20, 300)).astype(np.float32)
    y = np.log(y) if of == "logarithm" else y
    wanted = wmmadiag.reference("softmax_backward", dy=dy, y=y, of=of)

    def gradient(counted):
        if of == "logarithm":
            return dy - np.exp(y) * dy[:, :counted].sum(axis=1, keepdims=True, dtype=np.float32)
        return y * (dy - (y * dy)[:, :counted].sum(axis=1, keepdims=True, dtype=np.float32))

    assert (np.abs(gradient(300) - wanted.value) <= wanted.bound).all()
    assert (np.abs(gradient(299) - wanted.value) > wanted.bound).mean() > 0.4


SOURCE = """
__global__ void softmax_grad(const float* grad_output, const float* output, float* grad_input, int rows, int cols) {
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += 32) sum += grad_output[row * cols + i] * output[row * cols + i];
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, o);
    for (int i = threadIdx.x; i < cols; i += 32)
        grad_input[row * cols + i] = (grad_output[row * cols + i] - sum) * output[row * cols + i];
}
void launch(const float* dy, const float* y, float* dx, int rows, int cols) {
    softmax_grad<<<(rows + 3) / 4, dim3(32, 4)>>>(dy, y, dx, rows, cols);
}
"""


@pytest.mark.parametrize(("start", "code"), [("o = 16", 0), ("o = 8", 3)])
def test_a_source_alone_tells_it(tmp_path, capsys, start, code):
    path = tmp_path / "softmax.cu"
    path.write_text(SOURCE.replace("o = 16", start))
    assert main(["check", str(path)]) == code
    assert "taken as softmax_backward" in " ".join(capsys.readouterr().out.split())
