"""A formula where what a kernel was taken for leaves a question; numbers of a function and its caller called alike."""

import pytest

from wmmadiag.cli.main import main
from wmmadiag.ops.formulas.syntax import parsed

SOURCE = """
#include <functional>
#include <map>
#include <string>
// out[b, c] = sum over t of in[b, t, c] / T
__global__ void mean_pool(const float* in, float* out, int T, int C) {
    int c = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
    if (c >= C) return;
    float sum = 0;
    for (int t = 0; t < T; ++t) sum += in[(b * T + t) * C + c];
    out[b * C + c] = sum / T;
}
using Launcher = std::function<void(const float*, float*, int, int, int)>;
static const std::map<std::string, Launcher> registry = {
    {"mean", [](const float* in, float* out, int B, int T, int C) {
        mean_pool<<<dim3((C + 127) / 128, B), 128>>>(in, out, T, C);
    }},
};
void pool(const std::string& how, const float* in, float* out, int B, int T, int C) {
    registry.at(how)(in, out, B, T, C);
}
"""


@pytest.mark.parametrize(
    ("comment", "words"),
    [
        ("sum over t of in[b, t, c] / T", []),
        ("mean", ["--computes", "out[b, c] = (sum_t in[b, t, c]) / T"]),
        ("mean", ["--computes", "out[b, c] = (sum_t in[b, t, c]) / T; in [B, T, C]; out [B, C]"]),
    ],
)
def test_a_right_kernel_is_right_by_its_formula(tmp_path, capsys, comment, words):
    path = tmp_path / "pool.cu"
    path.write_text(SOURCE.replace("sum over t of in[b, t, c] / T", comment))
    assert main(["check", str(path), *words]) == 0
    assert "judged by" in capsys.readouterr().out


def test_an_array_may_be_called_as_a_word_of_sentences_is():
    assert parsed("y = 2 * in[i]", {"in", "y"}.__contains__).target == "y"
