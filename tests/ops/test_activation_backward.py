"""dX = dY ∘ activation'(X), against its definition by differences."""

import math

import numpy as np
import pytest

import wmmadiag
from wmmadiag.cli.main import main

FORWARD = {
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + math.exp(-x)),
}


@pytest.mark.parametrize("activation", FORWARD)
def test_it_is_the_slope_of_the_activation(activation):
    rng = np.random.default_rng(1)
    x, dy = rng.standard_normal((2, 5, 40)).astype(np.float32)
    wanted = wmmadiag.reference("activation_backward", dy=dy, x=x, activation=activation)
    step = 1e-5
    slope = np.vectorize(lambda one: (FORWARD[activation](one + step) - FORWARD[activation](one - step)) / (2 * step))
    values = dy.astype(np.float64) * slope(x.astype(np.float64))
    assert np.allclose(wanted.value, values, rtol=1e-6, atol=1e-8)
    assert (np.abs(values.astype(np.float32) - wanted.value) <= wanted.bound + 1e-8 * np.abs(dy)).all()
    assert (np.abs(1.001 * values - wanted.value) > wanted.bound).mean() > 0.4


SOURCE = """
__global__ void silu_backward(const float* x, const float* grad_output, float* grad_input, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    float s = 1.0f / (1.0f + expf(-x[i]));
    grad_input[i] = grad_output[i] * s * (1.0f + x[i] * (1.0f - s));
}
void launch(const float* x, const float* dy, float* dx, int n) {
    silu_backward<<<(n + 255) / 256, 256>>>(x, dy, dx, n);
}
"""


@pytest.mark.parametrize(("other", "code"), [("(1.0f - s)", 0), ("(1.1f - s)", 3)])
def test_a_source_alone_tells_it(tmp_path, capsys, other, code):
    path = tmp_path / "silu.cu"
    path.write_text(SOURCE.replace("(1.0f - s)", other))
    assert main(["check", str(path)]) == code
    assert "taken as activation_backward" in " ".join(capsys.readouterr().out.split())


def test_a_gradient_that_is_written_over_is_told(tmp_path, capsys):
    path = tmp_path / "silu.cu"
    text = SOURCE.replace("const float* grad_output, float* grad_input", "float* d_in_out")
    text = text.replace("grad_input[i] = grad_output[i] *", "d_in_out[i] *=").replace(
        "const float* dy, float* dx", "float* d"
    )
    path.write_text(text.replace("(x, dy, dx, n)", "(x, d, n)"))
    assert main(["check", str(path)]) == 0
    assert "'d_in_out' is read, and written over" in " ".join(capsys.readouterr().out.split())
