"""What a program's own comparison says of sizes that it does not try."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from wmmadiag.cli.check_program import ProgramCheck
from wmmadiag.cli.main import main
from wmmadiag.gate.task import Task, TaskOutcome
from wmmadiag.programs.run import ProgramResult
from wmmadiag.results.model import CaseResult, KernelReport, Problem


def outcome(right: tuple[bool, ...], numbers: dict[str, int]) -> TaskOutcome:
    cases = (
        CaseResult(
            "default", f"case {at}", "passed" if one else "undecided", {"S": 64 * at},
            observations=(SimpleNamespace(passed=one),),
            problem=None if one else Problem("undecided", "the result fits none"),
        )
        for at, one in enumerate(right, start=1)
    )  # fmt: skip
    report = KernelReport(
        "k", "k.cu", "k.cu", "attention", "sm_90", "emulator", (), tuple(cases), assumed=("it is attention",)
    )
    return TaskOutcome(Task(Path("k.cu"), None, options={"symbols": numbers}), report, code=3)


@pytest.mark.parametrize(
    ("right", "launched", "code"),
    [
        ((True, False), None, 3),
        ((False, False), None, 0),
        ((True, False), {"seq_len": 512}, 0),  # a window, say: no sizes are between the two
        ((True, False), {"causal": 1}, 3),
    ],
)
def test_a_guess_that_is_right_in_part_is_asked_about_unless_the_program_refutes_it(right, launched, code):
    made = ProgramCheck(Path("k.cu"), ProgramResult(0, launches=1), compares=True)
    if launched is not None:
        made.judged.append(("k.cu:1", outcome((False,), launched)))
    assert made.code_with(outcome(right, {})) == code


CONVOLUTION = """
#include <cstdio>
#include <cmath>
#include <vector>
struct Shape { int n, c, h, w, k, r, s, pad, stride, dil, p, q; };
__global__ void conv2d(const float* input, const float* weight, float* output, Shape d) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= d.n * d.k * d.p * d.q) return;
    int q = at % d.q, p = at / d.q % d.p, k = at / (d.q * d.p) % d.k, n = at / (d.q * d.p * d.k);
    float sum = 0;
    for (int e = 0; e < d.c * d.r * d.s; ++e) {
        int t = e % (d.r * d.s), h = p * d.stride - d.pad + t / BY * d.dil;
        int w = q * d.stride - d.pad + t % d.s DILATED;
        if (h >= 0 && h < d.h && w >= 0 && w < d.w)
            sum += input[((n * d.c + e / (d.r * d.s)) * d.h + h) * d.w + w] * weight[k * d.c * d.r * d.s + e];
    }
    output[at] = sum;
}
int main() {
    Shape d{2, 3, 9, 11, 4, 3, 3, 1, 1, OWN};
    d.p = d.h + 2 - d.dil * 2; d.q = d.w + 2 - d.dil * 2;
    std::vector<float> x(d.n * d.c * d.h * d.w), f(d.k * d.c * 9), y(d.n * d.k * d.p * d.q);
    for (size_t i = 0; i < x.size(); ++i) x[i] = i * 7 % 13 - 6.f;
    for (size_t i = 0; i < f.size(); ++i) f[i] = i * 5 % 11 - 5.f;
    float *dx, *df, *dy;
    cudaMalloc(&dx, x.size() * 4); cudaMalloc(&df, f.size() * 4); cudaMalloc(&dy, y.size() * 4);
    cudaMemcpy(dx, x.data(), x.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(df, f.data(), f.size() * 4, cudaMemcpyHostToDevice);
    conv2d<<<(d.n * d.k * d.p * d.q + 127) / 128, 128>>>(dx, df, dy, d);
    cudaMemcpy(y.data(), dy, y.size() * 4, cudaMemcpyDeviceToHost);
    for (size_t i = 0; i < y.size(); ++i) {
        int q = i % d.q, p = i / d.q % d.p, k = i / (d.q * d.p) % d.k, n = i / (d.q * d.p * d.k);
        float sum = 0;
        for (int c = 0; c < d.c; ++c)
            for (int r = 0; r < 3; ++r)
                for (int s = 0; s < 3; ++s) {
                    int h = p - 1 + r * d.dil, w = q - 1 + s * d.dil;
                    if (h >= 0 && h < d.h && w >= 0 && w < d.w)
                        sum += x[((n * d.c + c) * d.h + h) * d.w + w] * f[((k * d.c + c) * 3 + r) * 3 + s];
                }
        if (std::fabs(sum - y[i]) > 1e-3f) return 1;
    }
    return 0;
}
"""


@pytest.mark.parametrize(
    ("by", "dilated", "own", "code", "told"),
    [
        ("d.s", "* d.dil", 1, 0, "ok"),
        ("d.r", "* d.dil", 1, 3, "right as conv2d at N=2"),  # which the program's square filter does not show
        ("d.s", "", 2, 1, "exit status says so"),
    ],
)
@pytest.mark.slow
def test_a_program_says_nothing_of_sizes_that_it_does_not_try(tmp_path, capsys, by, dilated, own, code, told):
    path = tmp_path / "convolution.cu"
    path.write_text(CONVOLUTION.replace("BY", by).replace("DILATED", dilated).replace("OWN", str(own)))
    assert main(["check", str(path)]) == code
    assert told in " ".join(capsys.readouterr().out.split())
