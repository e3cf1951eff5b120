"""Host functions of a project's other files: a header's kernels are right by them, wrong where the user says so."""

from __future__ import annotations

import pytest

import wmmadiag
from wmmadiag.errors import ConfigurationError
from wmmadiag.hostcode.machine import OF_CASES
from wmmadiag.subject import card_keys

KERNELS = """\
#pragma once
__global__ void scale_add_kernel2(float* out, const float* left, const float* right, float factor) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = left[i] + factor * right[i];
}

template <typename T>
__global__ void shifted_sum_kernel(T* out, const T* inp, int count, unsigned seed) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = (T)((float)inp[i] + (float)inp[(i + 1) % count] + (float)(seed - seed));
}

void scale_add(float* out, const float* left, const float* right, float factor, int n) {
    scale_add_kernel2<<<n / 64, 64>>>(out, left, right, factor);
}

void scale_add_rows(float* out, const float* left, const float* right, float factor, int rows, int n) {
    scale_add(out, left, right, factor, rows * n);
}

template <typename Type>
void shifted_sum(Type* out, const Type* inp, int count, unsigned seed) {
    shifted_sum_kernel<<<(count + 63) / 64, 64>>>(out, inp, count, seed);
}
"""
REFERENCE = """\
#include <stdio.h>
void scale_add(float* out, float* left, float* right, float factor, int n) {
    for (int i = 0; i < n; i++) out[i] = left[i] + factor * right[i];
}
void shifted_sum_cpu(float* out, float* inp, int count) {
    for (int i = 0; i < count; i++) out[i] = inp[i] + inp[(i + 1) % count];
}
int main() { return 0; }
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "Makefile").write_text("all:\n")
    (tmp_path / "plain.c").write_text(REFERENCE)
    (tmp_path / "kernels").mkdir()
    header = tmp_path / "kernels" / "device.cuh"
    header.write_text(KERNELS)
    return header


def test_a_kernel_is_right_by_a_function_of_another_file(project):
    report = wmmadiag.check(project, entry="scale_add_kernel2")
    assert report.status == "passed"
    (said,) = [one for one in report.assumed if "judged by scale_add" in one]
    # The launch's `n` is what the outer function passes, not a number of its own name.
    assert "plain.c:2" in said and "scale_add(out, left, right, factor, rows * n)" in said


def test_a_kernel_that_does_not_fit_it_is_asked_about_and_wrong_where_the_user_names_the_function(project):
    project.write_text(KERNELS.replace("left[i] + factor", "left[i] - factor"))
    report = wmmadiag.check(project, entry="scale_add_kernel2")
    assert report.status == "undecided"
    assert any("does not compute what scale_add" in one and "plain.c" in one for one in report.assumed)
    assert wmmadiag.check(project, entry="scale_add_kernel2", computes="scale_add").status == "failed"


def test_a_function_whose_name_has_no_word_of_the_kernels_is_none(project):
    other = project.parent.parent / "plain.c"
    other.write_text(REFERENCE.replace("scale_add", "combine"))
    report = wmmadiag.check(project, entry="scale_add_kernel2")
    assert report.status == "undecided" and not any("combine" in one for one in report.assumed)
    assert wmmadiag.check(project, entry="scale_add_kernel2", computes="combine").status == "passed"


def test_a_template_that_nobody_instantiates_is_right_with_types_that_are_named(project):
    report = wmmadiag.check(project, entry="shifted_sum_kernel")
    assert report.status == "passed"
    assert any("taken with T = " in one for one in report.assumed)


def test_a_wrong_template_that_nobody_instantiates_is_asked_about(project):
    project.write_text(KERNELS.replace("(float)inp[i] + ", "(float)inp[i] * "))
    with pytest.raises(ConfigurationError, match="what should the kernel compute"):
        wmmadiag.check(project, entry="shifted_sum_kernel")


def test_no_symbol_of_host_code_is_called_as_a_cases_own_words():
    assert set(card_keys.CASE) == OF_CASES
