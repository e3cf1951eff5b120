"""Host functions beside a kernel as its reference: what they judge right, wrong, and leave open."""

from __future__ import annotations

import pytest
from host_sources import CARD, GELU, source

import wmmadiag
from wmmadiag.errors import ConfigurationError


def test_a_kernel_is_right_by_the_function_of_its_own_file(tmp_path):
    report = wmmadiag.check(source(tmp_path, GELU))
    assert report.status == "passed"
    assert "judged by gelu_cpu" in " ".join(report.assumed)
    (seen,) = report.cases[0].observations
    assert 0 < seen.max_in_bounds < 1


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("(x + 0.044715f * x * x * x)));\n    }\n}\n\nvoid", "(x + 0.044725f * x * x * x)));\n    }\n}\n\nvoid"),
        ("0.7978845608f", "0.797f"),
        ("if (i < n) {\n        float x = inp[i];", "if (i < n) {\n        float x = inp[0];"),
    ],
)
def test_a_kernel_that_departs_from_the_function_of_its_own_name_is_wrong(tmp_path, right, wrong):
    assert right in GELU
    report = wmmadiag.check(source(tmp_path, GELU.replace(right, wrong)))
    assert report.status == "failed"
    assert "judged by gelu_cpu" in " ".join(report.assumed)


def test_a_function_of_another_name_that_the_kernel_does_not_fit_is_no_verdict(tmp_path):
    path = source(tmp_path, GELU.replace("gelu_cpu", "other_cpu").replace("0.7978845608f", "0.7f"))
    with pytest.raises(ConfigurationError, match=r"does not compute what other_cpu .* says that it is"):
        wmmadiag.check(path)


def test_a_function_that_the_user_names_decides(tmp_path):
    path = source(tmp_path, GELU.replace("gelu_cpu", "other_cpu").replace("0.7978845608f", "0.7f"))
    assert wmmadiag.check(path, computes="other_cpu").status == "failed"
    right = source(tmp_path, GELU.replace("gelu_cpu", "other_cpu"), "right.cu")
    assert wmmadiag.check(right, computes="other_cpu").status == "passed"


def test_a_named_function_with_other_arrays_is_refused(tmp_path):
    path = source(tmp_path, GELU + "void fill_cpu(float* zzz, int n) { for (int i = 0; i < n; i++) zzz[i] = 1; }\n")
    with pytest.raises(ConfigurationError, match="does not tell what"):
        wmmadiag.check(path, computes="fill_cpu")


COMPOSED = """
#include <cmath>
#include <cstdlib>
#include <cuda_runtime.h>

void add_cpu(float* sum, const float* a, const float* b, int n) {
    for (int i = 0; i < n; i++) sum[i] = a[i] + b[i];
}
void softmax_cpu(float* out, const float* inp, int rows, int cols) {
    for (int r = 0; r < rows; r++) {
        float top = -INFINITY, total = 0.0f;
        for (int c = 0; c < cols; c++) top = fmaxf(top, inp[r * cols + c]);
        for (int c = 0; c < cols; c++) total += expf(inp[r * cols + c] - top);
        for (int c = 0; c < cols; c++) out[r * cols + c] = expf(inp[r * cols + c] - top) / total;
    }
}

__global__ void fused(float* sum, float* probs, const float* a, const float* b, int rows, int cols) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float top = -INFINITY, total = 0.0f;
    for (int c = 0; c < cols; c++) {
        float x = a[r * cols + c] + b[r * cols + c];
        sum[r * cols + c] = x;
        top = fmaxf(top, x);
    }
    for (int c = 0; c < cols; c++) total += __expf(sum[r * cols + c] - top);
    for (int c = 0; c < cols; c++) probs[r * cols + c] = __expf(sum[r * cols + c] - top) / total;
}

int main() {
    int R = 512, C = 96;
    float* a = (float*)malloc(R * C * sizeof(float));
    float* b = (float*)malloc(R * C * sizeof(float));
    float* sum = (float*)malloc(R * C * sizeof(float));
    float* probs = (float*)malloc(R * C * sizeof(float));
    add_cpu(sum, a, b, R * C);
    softmax_cpu(probs, sum, R, C);
    float *d_a, *d_b, *d_sum, *d_probs;
    cudaMalloc(&d_a, R * C * sizeof(float));
    cudaMalloc(&d_b, R * C * sizeof(float));
    cudaMalloc(&d_sum, R * C * sizeof(float));
    cudaMalloc(&d_probs, R * C * sizeof(float));
    fused<<<(R + 63) / 64, 64>>>(d_sum, d_probs, d_a, d_b, R, C);
}
"""


def test_calls_in_a_row_compose(tmp_path):
    report = wmmadiag.check(source(tmp_path, COMPOSED))
    assert report.status == "passed"
    assert "add_cpu(sum, a, b, R * C); softmax_cpu(probs, sum, R, C)" in " ".join(report.assumed)
    assert {one.output for one in report.cases[0].observations} == {"sum", "probs"}


@pytest.mark.slow
def test_a_part_that_a_composed_kernel_leaves_out_is_no_right_result(tmp_path):
    broken = COMPOSED.replace("float x = a[r * cols + c] + b[r * cols + c];", "float x = a[r * cols + c];")
    with pytest.raises(ConfigurationError, match="what should the kernel compute"):
        wmmadiag.check(source(tmp_path, broken))


PARTS = """
#include <cmath>
void attend_cpu(float* out, float* score, const float* q, const float* k, int n, int d) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            float s = 0.0f;
            for (int c = 0; c < d; c++) s += q[i * d + c] * k[j * d + c];
            score[i * n + j] = s;
        }
    for (int i = 0; i < n; i++) {
        float total = 0.0f;
        for (int j = 0; j < n; j++) total += score[i * n + j];
        out[i] = total / n;
    }
}
__global__ void mean_of_rows(float* out, const float* score, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float total = 0.0f;
    for (int j = 0; j < n; j++) total += score[i * n + j];
    out[i] = FACTOR * total / n;
}
void attend(float* out, float* score, const float* q, const float* k, int n, int d) {
    mean_of_rows<<<(n + 127) / 128, 128>>>(out, score, n);
}
"""


def test_a_kernel_of_one_part_gets_what_the_other_part_leaves(tmp_path):
    report = wmmadiag.check(source(tmp_path, PARTS.replace("FACTOR", "1.0f")))
    assert report.status == "passed"
    assert "attend_cpu" in " ".join(report.assumed)
    with pytest.raises(ConfigurationError, match="what should the kernel compute"):
        wmmadiag.check(source(tmp_path, PARTS.replace("FACTOR", "0.99f")))


ROOT = """
#include <cmath>
void step_cpu(float* p, float* v, const float* g, int n, float rate) {
    for (int i = 0; i < n; i++) {
        v[i] = 0.9f * v[i] + 0.1f * g[i] * g[i];
        p[i] -= rate * g[i] / (sqrtf(v[i]) + 1e-8f);
    }
}
__global__ void step_kernel(float* p, float* v, const float* g, int n, float rate) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float now = 0.9f * v[i] + 0.1f * g[i] * g[i];
    v[i] = now;
    p[i] = p[i] - rate * g[i] / (sqrtf(now) + 1e-8f);
}
void step(float* p, float* v, const float* g, int n) {
    step_kernel<<<(n + 255) / 256, 256>>>(p, v, g, n, 0.001f);
}
"""


def test_a_function_that_makes_no_numbers_of_normal_inputs_gets_positive_ones(tmp_path):
    report = wmmadiag.check(source(tmp_path, ROOT))
    assert report.status == "passed"
    assert report.cases[0].distribution == "positive"
    wrong = wmmadiag.check(source(tmp_path, ROOT.replace("p[i] = p[i] - rate", "p[i] = p[i] + rate")))
    assert wrong.status == "failed"


def test_a_kernel_that_is_one_of_several_launched_together_is_not_called_wrong(tmp_path):
    text = GELU.replace("0.7978845608f", "0.7f").replace(
        "void gelu(float", "__global__ void finish(float* out, int n) { out[0] = n; }\nvoid gelu(float"
    )
    text = text.replace("(out, inp, n);\n}", "(out, inp, n);\n    finish<<<1, 1>>>(out, n);\n}")
    with pytest.raises(ConfigurationError, match="--computes gelu_cpu says that it is"):
        wmmadiag.check(source(tmp_path, text), entry="gelu_kernel")


def test_a_card_names_the_call(tmp_path):
    source(tmp_path, GELU)
    card = source(tmp_path, CARD.replace("CALL", "gelu_cpu(out, inp, n)"), "kernel.toml")
    assert wmmadiag.check(card).status == "passed"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("no_such(out, inp, n)", "has no host functions for 'no_such"),
        ("gelu_cpu(out, inp, n + 100000000)", "reads or writes outside its arrays, or does not end"),
        ("gelu_cpu(inp, out, n)", "has no array"),
    ],
)
def test_a_call_that_cannot_be_made_is_an_error_of_the_card(tmp_path, call, said):
    source(
        tmp_path,
        GELU.replace(
            "const float* inp, int n) {\n    for", "const float* inp, int n) {\n    if (n > 1 << 24) abort();\n    for"
        ),
    )
    text = CARD.replace("CALL", call)
    text = text.replace('role = "out"', 'role = "result"') if said == "has no array" else text
    text = text.replace("inp, out", "inp, inp") if said == "has no array" else text
    report = wmmadiag.check(source(tmp_path, text, "kernel.toml"))
    assert report.status == "error"
    assert said in report.cases[0].problem.message


LOOSE = """
#include <cmath>
void sums_cpu(float* out, const float* inp, int n) {
    for (int i = 0; i < n; i++) {
        float total = 0.0f;
        for (int j = 0; j < 64; j++) total += inp[i] * 1e30f - inp[i] * 1e30f;
        out[i] = total + inp[i];
    }
}
__global__ void sums_kernel(float* out, const float* inp, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = RESULT;
}
void sums(float* out, const float* inp, int n) { sums_kernel<<<(n + 127) / 128, 128>>>(out, inp, n); }
"""


@pytest.mark.parametrize("result", ["inp[i]", "0.0f"])
def test_a_bound_that_tells_nothing_makes_no_kernel_right(tmp_path, result):
    report = wmmadiag.check(source(tmp_path, LOOSE.replace("RESULT", result)))
    assert report.status == "undecided"


GUARDED = "if (i < n) {\n        float x = inp[i];"


def test_sizes_that_no_tile_divides_are_tried_where_the_code_guards_them(tmp_path):
    report = wmmadiag.check(source(tmp_path, GELU))
    assert [one.case for one in report.cases] == ["small", "tail"]
    assert report.cases[1].symbols["n"] % 32 != 0


def test_a_store_outside_at_such_sizes_is_wrong(tmp_path):
    report = wmmadiag.check(source(tmp_path, GELU.replace(GUARDED, "if (i <= n) {\n float x = i < n ? inp[i] : 0;")))
    assert report.status == "failed"
    assert any(one.problem is not None and "out of bounds" in one.problem.message for one in report.cases)


def test_a_kernel_without_a_guard_is_right_at_the_sizes_that_fit_it(tmp_path):
    report = wmmadiag.check(source(tmp_path, GELU.replace("if (i < n) {", "{")))
    assert report.status == "passed"
    assert [one.case for one in report.cases] == ["small"]


def test_wrong_numbers_at_such_sizes_alone_are_a_question(tmp_path):
    text = GELU.replace(GUARDED, "if (i < n) {\n float x = n & 31 ? 1.0f : inp[i];")
    with pytest.raises(ConfigurationError, match="right by a host function at multiples of its tiles, and not at"):
        wmmadiag.check(source(tmp_path, text))


def test_a_kernel_that_reads_outside_the_arrays_of_a_function_is_said_to(tmp_path):
    path = source(tmp_path, GELU.replace(GUARDED, "if (i < n) {\n float x = inp[i + 1];"))
    with pytest.raises(
        ConfigurationError, match=r"with the arrays of gelu_cpu .* it ends by: .*out of bounds"
    ) as raised:
        wmmadiag.check(path)
    assert "--computes gelu_cpu" in str(raised.value)
    assert wmmadiag.check(path, computes="gelu_cpu").status == "failed"
