"""Of a kernel that is right under no reading the one that its results go with: what a diagnosis then assumes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import wmmadiag
from wmmadiag.errors import QuestionError
from wmmadiag.subject.drafts.derive import derived_card
from wmmadiag.subject.likeliest import likeliest_card
from wmmadiag.subject.open_subject import SubjectOptions

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

READING = Path(__file__).parents[1] / "reading"


def broken(tmp_path, source, bug):
    path = READING / f"{source}.cu"
    change = tomllib.loads(path.with_suffix(".bugs.toml").read_text("utf-8"))[bug]
    text = path.read_text("utf-8")
    assert change["old"].strip("\n") in text
    changed = tmp_path / path.name
    changed.write_text(text.replace(change["old"].strip("\n"), change["new"].strip("\n")))
    return changed


@pytest.mark.parametrize(
    ("source", "bug", "operation", "said"),
    [
        ("unseen19/adaln_modulate_linear", "image", "modulated_gemm", "b_ is bias"),
        ("unseen19/w4a8_group_mma", "group_scale", "quantized_gemm", "a row of scales for each column of W"),
        ("unseen19/fmha_varlen_kvpacked", "correction", "packed_attention", "aligned to the bottom-right corner"),
        ("unseen18/gqa_decode_static_kv_cache", "length", "decode_attention", "taken as decode_attention"),
    ],
)
@pytest.mark.corpus
def test_what_a_wrong_kernel_is_meant_to_compute_is_told_by_what_its_results_go_with(
    tmp_path, source, bug, operation, said
):
    card = likeliest_card(broken(tmp_path, source, bug), SubjectOptions())
    assert card is not None and card.computes.operation == operation
    assert said in card.assumed[-1] and "correlation" in card.assumed[-1]
    assert card.derived is not None and "operation" not in card.derived.stated


def test_what_a_name_speaks_of_is_tried_where_its_arrays_are_of_another_and_nothing_is_open():
    card = derived_card(READING / "unseen24" / "gqa_decode_wmma.cu", SubjectOptions())
    assert card.computes.operation == "decode_attention"
    assert "taken as decode_attention, which is what the result fits" in card.assumed


NOISE = """
#include <mma.h>
#include <cuda_fp16.h>
using namespace nvcuda;
__global__ void mix(const half* a, const half* b, float* c, int m, int n, int k) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> y;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    int row = blockIdx.y * 16, col = blockIdx.x * 16;
    for (int i = 0; i < k; i += 16) {
        wmma::load_matrix_sync(x, a + row * k + i, k);
        wmma::load_matrix_sync(y, b + i * n + col, n);
        wmma::mma_sync(sum, x, y, sum);
    }
    for (int i = 0; i < sum.num_elements; i++)
        sum.x[i] = __sinf(1000.0f * sum.x[i] + (clock() & 0) + 31.0f * threadIdx.x + 7.0f * i);
    wmma::store_matrix_sync(c + row * n + col, sum, n, wmma::mem_row_major);
}
void run(const half* a, const half* b, float* c, int m, int n, int k) {
    mix<<<dim3(n / 16, m / 16), 32>>>(a, b, c, m, n, k);
}
"""


def test_what_goes_with_nothing_is_asked_about(tmp_path):
    path = tmp_path / "mix.cu"
    path.write_text(NOISE.replace(" + (clock() & 0)", ""))
    assert likeliest_card(path, SubjectOptions()) is None


@pytest.mark.corpus
def test_a_diagnosis_goes_on_where_a_check_asks_and_proves_nothing(tmp_path):
    path = broken(tmp_path, "unseen19/adaln_modulate_linear", "bias")
    with pytest.raises(QuestionError, match="what should the kernel compute"):
        wmmadiag.check(path)
    found = wmmadiag.diagnosis(path, effort="quick")
    assert any("correlation" in one for one in found.assumed)
    assert found.causes and found.causes[0].verdict != "proven"
    assert ":107" in found.causes[0].place


@pytest.mark.corpus
def test_where_most_elements_are_near_with_a_reading_the_question_names_it_and_the_diagnosis(tmp_path):
    path = broken(tmp_path, "unseen25/varlen_gqa_attn", "diagonal_masked")
    report = wmmadiag.check(path, entry="varlen_gqa_attn_kernel<64>")
    problem = report.cases[0].problem
    assert report.status == "undecided" and problem is not None and problem.hint is not None
    assert "are near with a causal mask" in problem.message
    assert f"`wmmadiag diagnose {path} --entry 'varlen_gqa_attn_kernel<64>'` tells what is wrong if so" in problem.hint


@pytest.mark.corpus
def test_types_that_some_cases_are_right_in_are_taken_for_the_others(tmp_path):
    """With a factor of one, what lacks it is right but for a product that is kept in bf16, coarser than f16."""
    path = broken(tmp_path, "unseen25/lora_linear_cuda", "scaling_forgotten")
    found = wmmadiag.diagnosis(path, effort="quick")
    assert any(one.startswith("the narrow product kept in bf16") for one in found.assumed)
    line = path.read_text("utf-8").split("__float2bfloat16(acc[j][i]);")[0].count("\n") + 1
    assert f":{line}" in found.causes[0].place and found.causes[0].fix.status == "verified"
