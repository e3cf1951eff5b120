"""What arrays hold before a host function and its kernel run: what is added to, only read, rounded, or returned."""

from __future__ import annotations

import pytest
from host_sources import source

import wmmadiag
from wmmadiag.errors import ConfigurationError

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


def test_an_array_that_the_code_writes_is_no_input_though_no_run_wrote_it(tmp_path):
    text = READS.replace("BODY", "inp[i] / peak[i / cols];\n    if (rows < 0) peak[0] = 1.0f")
    with pytest.raises(ConfigurationError):
        wmmadiag.check(source(tmp_path, text))


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
