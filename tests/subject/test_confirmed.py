"""`init`: what the result fits is written into the card; what fits nothing stays a TODO."""

from __future__ import annotations

import pytest
from small_kernels import RIGHT

from wmmadiag.subject.card_files.read import load_card
from wmmadiag.subject.drafts.new_card import new_card

TURNED = RIGHT.replace("(b, B + k * N + c, N)", "(b, B + c * K + k, K)").replace(
    "matrix_b, 16, 16, 16, half, wmma::row_major", "matrix_b, 16, 16, 16, half, wmma::col_major"
)


def drafted(tmp_path, text, computes=""):
    source = tmp_path / "gemm.cu"
    source.write_text(text)
    return new_card(source, None, "", computes, {}, ())


@pytest.mark.parametrize(("text", "transposed"), [(RIGHT, False), (TURNED, True)])
def test_a_card_says_how_operands_are_stored(tmp_path, text, transposed):
    card, todos = drafted(tmp_path, text)
    assert todos == 0
    (tmp_path / "gemm.toml").write_text(card)
    assert bool(load_card(tmp_path / "gemm.toml").computes.parameters.get("transpose_b")) is transposed
    assert ("B stored as N×K, as nn.Linear has it, which is what the result fits" in card) is transposed


def test_what_makes_no_kernel_right_is_asked_for_but_where_the_user_said_it(tmp_path):
    wrong = RIGHT.replace("0.0f", "0.5f")
    card, todos = drafted(tmp_path, wrong)
    assert todos == 1 and 'operation = "TODO"  # gemm?' in card
    card, todos = drafted(tmp_path, wrong, "gemm")
    assert todos == 0 and 'operation = "gemm"' in card


ELEMENTWISE = """
__global__ void clip_add(const float* u, const float* w, float* r, int count, float least) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) r[i] = fmaxf(u[i], least) + w[i] * w[i];
}
%s
int main() {
  float *u, *w, *r; int count = 1000;
  cudaMalloc(&u, count * 4); cudaMalloc(&w, count * 4); cudaMalloc(&r, count * 4);
  clip_add<<<(count + 255) / 256, 256>>>(u, w, r, count, 0.5f);
}
"""


def test_what_nothing_tells_is_for_a_function_of_the_users(tmp_path):
    card, _ = drafted(tmp_path, ELEMENTWISE % "")
    assert 'operation = "python"' in card and 'shape = ["count"]' in card
    assert 'value = "0.5"' in card  # as host code passes it
