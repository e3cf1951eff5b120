"""`computes none`: only the checks judge, with a card and without."""

from __future__ import annotations

from pathlib import Path

import pytest

import wmmadiag
from wmmadiag.errors import ConfigurationError
from wmmadiag.subject.drafts.derive import drafted_text
from wmmadiag.subject.open_subject import SubjectOptions

SOURCE = """#include <cuda_runtime.h>
__global__ void rotate(const float* in, float* out, int* counter, int n) {
    __shared__ float tile[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i < n ? in[i] : 0.0f;
    __syncthreads();
    if (i < n) out[i] = 2 * tile[(threadIdx.x + 1) % 64];
    if (i == 0) *counter += 1;
}
int main() {
    int n = 100;
    float *in, *out;
    int *counter;
    cudaMalloc(&in, n * sizeof(float));
    cudaMalloc(&out, n * sizeof(float));
    cudaMalloc(&counter, sizeof(int));
    cudaMemset(counter, 0, sizeof(int));
    rotate<<<(n + 63) / 64, 64>>>(in, out, counter, n);
}
"""
MISTAKES = {
    "": "passed",
    "a race": ("    __syncthreads();\n", ""),
    "a read past the end": ("i < n ? in[i]", "i <= n ? in[i]"),
    "a write past the end": ("if (i < n) out", "if (i <= n) out"),
    "what nobody wrote is read": ("i < n ? in[i] : 0.0f;", "0.0f; if (i % 2) tile[threadIdx.x] = out[i % n];"),
}


def source(folder: Path, mistake: str = "") -> Path:
    path = folder / "rotate.cu"
    change = MISTAKES[mistake]
    path.write_text(SOURCE if isinstance(change, str) else SOURCE.replace(*change))
    return path


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_source_with_its_own_launch_needs_no_card(tmp_path, mistake):
    report = wmmadiag.check(source(tmp_path, mistake), computes="none")
    assert report.status == ("failed" if mistake else "passed")
    (case,) = report.cases
    assert case.observations == ()
    if not mistake:
        assert "nothing is expected of the numbers: only the checks judge" in case.notes
        assert dict(case.symbols) == {"n": 100}


def test_a_card_likewise(tmp_path):
    text = drafted_text(source(tmp_path), tmp_path / "rotate.toml", SubjectOptions(computes="none"))
    assert "TODO" not in text and 'initial = "zero"' in text and "python" not in text
    (tmp_path / "rotate.toml").write_text(text)
    assert wmmadiag.check(tmp_path / "rotate.toml").status == "passed"
    source(tmp_path, "a race")
    assert wmmadiag.check(tmp_path / "rotate.toml").status == "failed"


def test_sizes_can_be_said(tmp_path):
    (case,) = wmmadiag.check(source(tmp_path), computes="none", symbols={"n": 300}).cases
    assert case.grid == (5, 1, 1) and case.status == "passed"


def test_a_run_that_nothing_would_judge_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="nothing would judge"):
        wmmadiag.check(source(tmp_path), computes="none", checks="none")


def test_what_host_code_does_not_tell_is_asked(tmp_path):
    path = tmp_path / "k.cu"
    path.write_text("__global__ void k(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }\n")
    with pytest.raises(
        ConfigurationError, match="how many elements x has, how many elements y has, the grid, the b"
    ) as e:
        wmmadiag.check(path, computes="none")
    assert "--computes none" in e.value.hint


def test_a_diagnosis_of_a_right_kernel_finds_nothing(tmp_path):
    assert wmmadiag.diagnosis(source(tmp_path), computes="none").outcome == "right"
