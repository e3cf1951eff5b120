"""Whole files of operations beside tensor cores, from the source alone: right, and broken ones never so."""

from __future__ import annotations

from pathlib import Path

import pytest

import wmmadiag
from wmmadiag.errors import WmmadiagError
from wmmadiag.subject.drafts.code_facts import passed_on
from wmmadiag.subject.drafts.recognise import contradicts

UNSEEN = Path(__file__).parents[1] / "reading" / "unseen6"


@pytest.mark.parametrize(
    ("source", "operation", "said"),
    [
        ("adamw_update", "adam", "'m_memory' is read, and written over"),
        ("crossentropy_fwd", "cross_entropy", "block_size = 256"),
        ("encoder_embed", "embedding", ""),
        ("gemv_f16_warp", "gemv", ""),
        ("histogram_shared", "histogram", "'bins' is read, and written over"),
        ("paged_decode_gqa", "paged_attention", "how its pages lie"),
        ("per_token_quant_int8", "quantize", ""),
        ("rotary_neox", "rope", "'k' is read, and written over"),
        ("silu_and_mul", "glu", "it computes glu"),
        ("topk_gating_softmax", "topk_softmax", ""),
        ("transpose_padded_tile", "transpose", ""),
    ],
)
@pytest.mark.corpus
def test_a_published_kernel_is_right(source, operation, said):
    report = wmmadiag.check(UNSEEN / f"{source}.cu")
    assert report.exit_code == 0, [case.problem for case in report.cases]
    assert operation in {report.operation, *" ".join(report.assumed).split()}
    assert said in " ".join(report.assumed)


@pytest.mark.parametrize(
    ("source", "old", "new"),
    [
        ("adamw_update", "(sqrtf(v) + eps)", "sqrtf(v + eps)"),
        ("crossentropy_fwd", "i < V; i += warp.size()) sumval", "i < V - 1; i += warp.size()) sumval"),
        ("rotary_neox", "y * c + x * s", "y * c - x * s"),
        ("silu_and_mul", "return x / (1.0f + __expf(-x));", "return 1.0f / (1.0f + __expf(-x));"),
        ("topk_gating_softmax", "    chosen += best;", "    chosen += j ? best : 0.f;"),
        ("per_token_quant_int8", "cvt.rni.sat.s8.f32", "cvt.rzi.sat.s8.f32"),
        ("paged_decode_gqa", "head / (num_heads / num_kv_heads)", "head % num_kv_heads"),
        ("gemv_f16_warp", "for (int off = 16; off; off >>= 1) acc", "for (int off = 8; off; off >>= 1) acc"),
    ],
)
@pytest.mark.corpus
def test_a_broken_one_is_not(tmp_path, source, old, new):
    text = (UNSEEN / f"{source}.cu").read_text()
    assert text.count(old) == 1
    path = tmp_path / f"{source}.cu"
    path.write_text(text.replace(old, new))
    assert_not_right(path)


AGAIN = UNSEEN.parent / "unseen7"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("decode_attention_cache", "a cache of rows of heads"),
        ("dequant_int8_rowwise", ""),
        ("gelu_torch_ext", "the activation is gelu"),
        ("layernorm_vec4_torch", "N is M, K is N"),
        ("reduction_solve", ""),
        ("relu_half2", "as the kernel's name has it"),
        ("rope_theta_bhtd", "neighbouring elements and heads of rows"),
        ("sgemm_tiled_solve", "N is K, K is N"),
        ("sgemv_block_per_row", ""),
        ("swiglu_two_inputs", "taken as elementwise"),
        ("vector_add_solve", ""),
    ],
)
@pytest.mark.corpus
def test_a_kernel_of_the_second_round_is_right(source, said):
    report = wmmadiag.check(AGAIN / f"{source}.cu")
    assert report.exit_code == 0, [case.problem for case in report.cases]
    assert said in " ".join(report.assumed)


@pytest.mark.parametrize(
    ("source", "old", "new"),
    [
        ("sgemm_tiled_solve", "Bs[i][threadIdx.x];", "Bs[threadIdx.x][i];"),
        ("sgemm_tiled_solve", "t < (N + TILE_SIZE - 1) / TILE_SIZE; t++", "t < (N - 1) / TILE_SIZE; t++"),
        ("reduction_solve", "atomicAdd(output, sdata[0])", "*output = sdata[0]"),  # one number, without an axis
        ("swiglu_two_inputs", "g / (1.0f + expf(-g)) * u", "u / (1.0f + expf(-g))"),
        ("layernorm_vec4_torch", "reg_y.w = hat.w * s_variance * g + b;", "reg_y.w = hat.w * s_variance * g;"),
        ("layernorm_vec4_torch", "variance / ((float)K) + epsilon", "variance / ((float)N) + epsilon"),
        ("decode_attention_cache", "t < len; ++t", "t < max_seq; ++t"),
    ],
)
@pytest.mark.corpus
def test_a_broken_one_of_the_second_round_is_not(tmp_path, source, old, new):
    path = tmp_path / f"{source}.cu"
    path.write_text((AGAIN / path.name).read_text().replace(old, new))
    assert_not_right(path)


@pytest.mark.parametrize("path", sorted((UNSEEN / "wrong").glob("*.cu")), ids=lambda path: path.stem)
@pytest.mark.corpus
def test_those_that_were_wrong_from_the_start_are_not_right(path):
    assert_not_right(path)


def assert_not_right(path):
    try:
        report = wmmadiag.check(path)
    except WmmadiagError as error:
        assert "internal error" not in str(error)
        return  # asked
    assert report.exit_code != 0


@pytest.mark.parametrize(
    ("code", "passed"),
    [
        ("rotate(q + t * d, c);", True),
        ("store<4>(&q[i], y);", True),
        ("y[i] = f(q[i]);", True),  # what a function does with an element cannot be seen either
        ("if (q + 1 == p) return;", False),
        ("y = static_cast<float>(q[0]);", False),
    ],
)
def test_what_may_be_written_by_a_function(code, passed):
    assert passed_on(code, "q") == passed


@pytest.mark.parametrize(
    ("entry", "settings", "wrong"),
    [
        ("gelu_kernel", {"activation": "gelu_tanh"}, False),
        ("gelu_kernel", {"activation": "silu"}, True),
        ("gelu_kernel", {}, True),
        ("add_kernel", {"activation": "silu"}, False),
        ("relu_or_gelu", {"activation": "silu"}, False),  # it says two
    ],
)
def test_a_reading_that_the_name_denies(entry, settings, wrong):
    assert contradicts(entry, "elementwise", settings) == wrong
