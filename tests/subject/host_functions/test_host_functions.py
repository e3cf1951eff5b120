"""Host functions beside a kernel as its reference: what they judge right, wrong, and leave open."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import wmmadiag
from wmmadiag.errors import ConfigurationError
from wmmadiag.results.model import Problem
from wmmadiag.subject.drafts.host_calls import derived, trying
from wmmadiag.subject.drafts.kernel import read_kernel
from wmmadiag.subject.host_functions import library, probe
from wmmadiag.subject.host_functions.reference import prepared, program_of
from wmmadiag.subject.open_subject import SubjectOptions

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


ADDS = """
#include <cmath>
void sum_cpu(float* total, const float* inp, int rows, int cols) {
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < cols; c++) total[c] += inp[r * cols + c];
}
__global__ void sum_kernel(float* total, const float* inp, int rows, int cols) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= cols) return;
    float mine = 0.0f;
    for (int r = 0; r < rows; r++) mine += inp[r * cols + c];
    total[c] SETS mine;
}
void sum(float* total, const float* inp, int rows, int cols) {
    sum_kernel<<<(cols + 63) / 64, 64>>>(total, inp, rows, cols);
}
"""


def test_a_kernel_that_adds_where_the_function_does_is_right_whatever_it_finds(tmp_path):
    report = wmmadiag.check(source(tmp_path, ADDS.replace("SETS", "+=")))
    assert report.status == "passed" and "zeros" not in " ".join(report.assumed)


def test_a_kernel_that_writes_over_what_the_function_adds_to_is_right_where_host_code_makes_it_zeros(tmp_path):
    over = ADDS.replace("SETS", "=")
    path = source(tmp_path, over.replace("    sum_kernel<<<", "    cudaMemset(total, 0, cols * 4);\n    sum_kernel<<<"))
    report = wmmadiag.check(path)
    assert report.status == "passed"
    assert "adds to 'total', and the kernel writes over it" in " ".join(report.assumed)


def test_a_kernel_that_writes_over_what_the_function_adds_to_is_asked_about_where_nobody_makes_it_zeros(tmp_path):
    path = source(tmp_path, ADDS.replace("SETS", "="))
    with pytest.raises(ConfigurationError, match="it is right if that begins as zeros, which nobody says"):
        wmmadiag.check(path)
    assert wmmadiag.check(path, computes="sum_cpu").status == "passed"


def test_a_kernel_that_is_wrong_whatever_its_output_begins_with_is_wrong(tmp_path):
    assert wmmadiag.check(source(tmp_path, ADDS.replace("SETS", "-="))).status == "failed"


WORKSPACE = (
    ADDS.replace(
        "float* total, const float* inp, int rows, int cols) {\n    int c",
        """float* total,
    float* flag, const float* inp, int rows, int cols) {
    if (flag[0] != 1.0f) return;
    int c""",
    )
    .replace("void sum(float* total,", "void sum(float* total, float* flag,")
    .replace("(total, inp, rows, cols);\n}", "(total, flag, inp, rows, cols);\n}")
)


def test_of_a_kernel_with_a_workspace_only_the_user_can_say_that_it_is_wrong(tmp_path):
    text = WORKSPACE.replace("SETS", "+=").replace("void sum(float* total, float* flag,", """void sum(float* total,""")
    text = text.replace("    sum_kernel<<<", "    float* flag;\n    cudaMalloc(&flag, 4);\n    sum_kernel<<<")
    path = source(tmp_path, "#include <cuda_runtime.h>\n" + text)
    with pytest.raises(ConfigurationError):
        wmmadiag.check(path)
    assert wmmadiag.check(path, computes="sum_cpu").status == "failed"


READS = """
#include <cmath>
void scale_cpu(float* out, float* peak, const float* inp, int rows, int cols) {
    for (int r = 0; r < rows; r++) {
        float top = 0.0f;
        for (int c = 0; c < cols; c++) top = fmaxf(top, fabsf(inp[r * cols + c]));
        peak[r] = top;
        for (int c = 0; c < cols; c++) out[r * cols + c] = inp[r * cols + c] / top;
    }
}
__global__ void divide_rows(float* out, float* peak, const float* inp, int rows, int cols) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) out[i] = BODY;
}
void divide(float* out, float* peak, const float* inp, int rows, int cols) {
    divide_rows<<<(rows * cols + 127) / 128, 128>>>(out, peak, inp, rows, cols);
}
"""


def test_an_array_that_the_kernel_reads_and_does_not_write_holds_what_the_function_leaves(tmp_path):
    report = wmmadiag.check(source(tmp_path, READS.replace("BODY", "inp[i] / peak[i / cols]")))
    assert report.status == "passed"
    assert "only reads 'peak'" in " ".join(report.assumed)


def test_an_output_that_the_kernel_forgot_is_not_taken_for_an_input(tmp_path):
    forgets = READS.replace("BODY", "inp[i]")  # names `peak` nowhere, and divides by nothing
    with pytest.raises(ConfigurationError):
        wmmadiag.check(source(tmp_path, forgets))


NARROW = """
#include <cuda_bf16.h>
void columns_cpu(float* total, const float* inp, int rows, int cols) {
    for (int c = 0; c < cols; c++) total[c] = 0.0f;
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < cols; c++) total[c] += inp[r * cols + c];
}
__global__ void columns_kernel(__nv_bfloat16* total, const __nv_bfloat16* inp, int rows, int cols) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= cols) return;
    TYPE mine = (TYPE)0.0f;
    for (int r = 0; r < rows; r++) mine = (TYPE)((float)mine + (float)inp[r * cols + c]);
    total[c] = (__nv_bfloat16)(FACTOR * (float)mine);
}
void columns(__nv_bfloat16* total, const __nv_bfloat16* inp, int rows, int cols) {
    columns_kernel<<<(cols + 63) / 64, 64>>>(total, inp, rows, cols);
}
"""


@pytest.mark.parametrize(("type_", "factor", "status"), [("float", "1.0f", "passed"), ("__nv_bfloat16", "1.0f", ""),
                                                         ("float", "1000.0f", "failed")])  # fmt: skip
def test_what_rounding_on_the_way_may_explain_is_neither_right_nor_wrong(tmp_path, type_, factor, status):
    path = source(tmp_path, NARROW.replace("TYPE", type_).replace("FACTOR", factor))
    if status:
        assert wmmadiag.check(path).status == status
    else:
        with pytest.raises(ConfigurationError):
            wmmadiag.check(path)


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


def test_an_array_that_the_code_writes_is_no_input_though_no_run_wrote_it(tmp_path):
    text = READS.replace("BODY", "inp[i] / peak[i / cols];\n    if (rows < 0) peak[0] = 1.0f")
    with pytest.raises(ConfigurationError):
        wmmadiag.check(source(tmp_path, text))


ENDLESS = """
void {name}(float* out, const float* inp, int n) {{
    volatile int turns = 0;
    for (int i = 0; i < n; i++) out[i] = 2.0f * inp[i];
    {loop}
}}
__global__ void {kernel}(float* out, const float* inp, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2.0f * inp[i];
}}
void launch(float* out, const float* inp, int n) {{ {kernel}<<<(n + 63) / 64, 64>>>(out, inp, n); }}
"""


def probed(tmp_path, monkeypatch, work, loop=""):
    """What each question to the calls is answered, asked in this process."""
    monkeypatch.setattr(probe, "_WORK", work)
    text = ENDLESS.format(name="twice_cpu", kernel="twice_kernel", loop=loop)
    path, found = source(tmp_path, text), []
    asked = lambda question: found.append(probe.probe(question)) or found[-1]  # noqa: E731
    monkeypatch.setattr("wmmadiag.subject.reference_process.asked_probe", asked)
    derived.host_card(path, read_kernel(path, text, SubjectOptions()), SubjectOptions(), ())
    return found


def test_what_a_function_may_cost_is_counted_in_operations_and_not_in_seconds(tmp_path, monkeypatch):
    assert all(probed(tmp_path, monkeypatch, 10_000_000))
    stopped = probed(tmp_path, monkeypatch, 10)  # a product for each of 64 elements, or more
    assert stopped and not any(stopped)


@pytest.mark.parametrize("loop", ["while (n) out[0] += 1.0f;", "while (n) turns = 0;"])
@pytest.mark.slow
def test_a_function_that_makes_no_end_is_no_reference(tmp_path, monkeypatch, loop):
    monkeypatch.setattr(library, "_STOPPED", 1)
    stopped = probed(tmp_path, monkeypatch, 100_000, loop)
    assert stopped and not any(stopped)


def test_an_access_a_little_outside_an_array_ends_the_call(tmp_path):
    source(tmp_path, GELU)
    card = source(tmp_path, CARD.replace("CALL", "gelu_cpu(out, inp, n + 1)"), "kernel.toml")
    report = wmmadiag.check(card)
    assert "reads or writes outside its arrays" in report.cases[0].problem.message


TWO_EXTENTS = """
void twice_cpu(float* out, const float* inp, int B, int T) {
    for (int i = 0; i < B * T; i++) out[i] = 2.0f * inp[i];
}
__global__ void twice_kernel(float* out, const float* inp, int B, int T) {
    for (int i = threadIdx.x; i < B * T; i += 32) out[i] = 2.0f * inp[i];
}
int main() {
    int B = 8, T = 1024;
    float *d_out, *d_inp;
    cudaMalloc(&d_out, B * T * sizeof(float));
    cudaMalloc(&d_inp, B * T * sizeof(float));
    twice_kernel<<<1, 32>>>(d_out, d_inp, B, T);
}
"""


def test_where_a_run_does_not_end_only_much_less_is_tried(tmp_path, monkeypatch):
    tried = []

    def takes_long(card, candidate, tries):
        tried.append(trying.weight(card))
        if tried[-1] > 64:
            tries.heavy = tried[-1]
        return tried[-1] <= 64

    monkeypatch.setattr(derived, "is_right", takes_long)
    path = source(tmp_path, TWO_EXTENTS)
    kernel = read_kernel(path, TWO_EXTENTS, SubjectOptions())
    card, _ = derived.host_card(path, kernel, SubjectOptions(), ())
    assert card is not None and card.cases[0].symbols["T"] == 16
    assert tried == [4 * 1024, 2 * 16]


def test_a_run_that_does_not_end_is_noted_with_its_sizes(tmp_path, monkeypatch):
    path = source(tmp_path, TWO_EXTENTS)
    card, _ = derived.host_card(path, read_kernel(path, TWO_EXTENTS, SubjectOptions()), SubjectOptions(), ())
    case = SimpleNamespace(warp_instructions=9, status="error", problem=Problem("budget", "too long"))
    monkeypatch.setattr("wmmadiag.subject.check.run_case", lambda *_: (case, None, None))
    tries = trying.Tries()
    assert not trying.is_right(card, None, tries)
    assert tries.heavy == trying.weight(card) == 4 * 1024


SQUARES = """
float squares_cpu(const float* data, size_t count) {
    double sum = 0.0;
    for (size_t i = 0; i < count; i++) sum += (double)data[i] * data[i];
    return sum;
}
__global__ void squares_kernel(float* out, const float* data, size_t count) {
    float sum = 0.0f;
    size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    for (; i < LAST; i += blockDim.x * gridDim.x) sum += data[i] * data[i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) atomicAdd(out, sum);
}
void squares(float* out, const float* data, size_t count) {
    cudaMemset(out, 0, sizeof(float));
    squares_kernel<<<4, 64>>>(out, data, count);
}
"""


def test_a_number_that_a_function_returns_is_the_first_element_of_the_array_that_it_does_not_take(tmp_path):
    report = wmmadiag.check(source(tmp_path, SQUARES.replace("LAST", "count")))
    assert report.status == "passed"
    assert "called as out[0] = squares_cpu(data, count)" in " ".join(report.assumed)
    # So few elements that a bound tells whether one of them was left out.
    assert report.cases[0].symbols["count"] == 1024


def test_a_sum_that_leaves_one_element_out_is_not_right(tmp_path):
    report = wmmadiag.check(source(tmp_path, SQUARES.replace("LAST", "count - 1")))
    assert report.status == "failed"


STRAYS = """
void first_cpu(float* out, float* own, const float* inp, int n) {
    for (int i = 0; i < n; i++) out[i] = own[(long)i * FAR] + inp[i];
}
"""


@pytest.mark.parametrize(("far", "ends"), [(1 << 10, True), (1 << 20, False), (-1, False)])
def test_an_array_that_only_the_function_has_is_large_and_nothing_lies_near_it(tmp_path, far, ends):
    path = source(tmp_path, STRAYS.replace("FAR", str(far)))
    call = prepared(program_of(path, (), ()), "first_cpu(out, own, inp, n)", {"n": False}, "k.cu")
    counts = {"out": 1000, "inp": 1000}
    done = library.run(call.made, call.arrays, {"inp": np.ones(1000)}, counts, [1000], (2.0**-24, 2.0**-22))
    assert (done is not None) == ends
