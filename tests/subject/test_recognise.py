"""What a kernel seems to compute is taken only where everything agrees."""

from __future__ import annotations

import time

import pytest

from wmmadiag.compile.kernel_code import multiplies
from wmmadiag.errors import ConfigurationError
from wmmadiag.subject.drafts.derive import kernel_of
from wmmadiag.subject.drafts.given_source import GivenSource
from wmmadiag.subject.drafts.recognise import _words, recognised
from wmmadiag.subject.open_subject import SubjectOptions, open_subject

HEAD = "#include <mma.h>\n#include <cuda_fp16.h>\nusing namespace nvcuda;\n"
MMA = "wmma::mma_sync(acc, a, b, acc);"
ATTENTION = "const half* Q, const half* K, const half* V, half* O, int S, int D"
GEMM = "const half* A, const half* B, float* C, int M, int N, int K"


def found(tmp_path, name, signature, body, before=""):
    path = tmp_path / "k.cu"
    path.write_text(f"{HEAD}{before}\n__global__ void {name}({signature}) {{ {body} }}\n")
    facts = kernel_of(GivenSource(path, SubjectOptions()))
    return recognised(facts.entry, facts.parameters, facts.code, multiplies(facts.code))


@pytest.mark.parametrize(
    ("name", "signature", "body", "operation"),
    [
        ("kernel1", ATTENTION, f"{MMA} p = __expf(x); {MMA}", "attention"),
        ("flash_fwd", ATTENTION, f'{MMA} asm("ex2.approx.ftz.f32 %0, %1;"); {MMA}', "attention"),
        ("fwd", "const half* qkv, half* out, int S, int D", f"{MMA} x = exp2f(y); {MMA}", "attention"),
        ("attention", "half* a, half* b, half* c, half* d, int S", f"{MMA} x = hexp(y);", "attention"),
        ("fwd", ATTENTION + ", float* l, float* m", f"{MMA} x = __expf(y);", "attention"),
        ("tiled", GEMM, MMA, "gemm"),
        ("hgemmV3", "const half* x, const half* y, half* z, int M, int N, int K", 'asm("mma.sync.aligned");', "gemm"),
        ("mm", "const half* input, const half* weight, half* output, int M, int N, int K", MMA, "gemm"),
        ("linear_bias_relu", GEMM + ", const float* bias", f"{MMA} y = fmaxf(x, 0.0f);", "gemm"),
        ("fused_mm", GEMM, f"{MMA} y = x * (1.f / (1.f + __expf(-x)));", "gemm"),
        ("flash_attn_split_q", ATTENTION, f"{MMA} y = __expf(x);", "attention"),
        ("scores", "const half* q, const half* k, float* s, int S, int D", MMA, "qkt"),
        ("values", "const half* p, const half* v, float* o, int S, int D", MMA, "pv"),
        ("softmax", "const float* in, float* out, int rows, int cols", "y = __expf(x);", "softmax"),
        ("attn_scores", "const half* q, const half* k, float* scores, int S, int D", MMA, "qkt"),
    ],
)
def test_what_agrees_is_taken(tmp_path, name, signature, body, operation):
    answer = found(tmp_path, name, signature, body)
    assert (answer.operation, answer.sure) == (operation, True), answer


@pytest.mark.parametrize(
    ("name", "signature", "body", "why"),
    [
        ("flash_fwd", ATTENTION, f"{MMA} {MMA}", "it calls no exponential"),
        ("flash_bwd", ATTENTION, f"{MMA} x = expf(y);", "it has no array for 'do'"),
        ("attn", ATTENTION + ", const int* cu_seqlens", f"{MMA} x = expf(y);", "'cu_seqlens' is no operand"),
        ("attn", ATTENTION + ", const half* mystery", f"{MMA} x = expf(y);", "what its array 'mystery' is"),
        ("attn", ATTENTION + ", float* m", f"{MMA} x = expf(y);", "what its array 'm' is"),
        ("gemm_gelu", GEMM, MMA, "its name has 'gelu'"),
        ("gemm", GEMM, f"{MMA} y = tanhf(x);", "it calls tanhf"),
        ("gemm", GEMM, f"{MMA} y = acc.x[i] > 0.f ? acc.x[i] : 0.1f * acc.x[i];", "does not need"),
        ("gemm", GEMM, f"{MMA} y = __expf(x);", "it calls an exponential"),
        ("attn", ATTENTION + ", const float* rotary_cos", f"{MMA} y = __expf(x);", "'rotary_cos' is no operand"),
        ("gemm_splitK", GEMM, MMA, "its name has 'splitk'"),
        ("gemm", GEMM, "sum += x * y;", "it does not multiply on tensor cores"),
        ("conv2d", "const half* x, const half* w, half* y, int N, int C", MMA, "how images and filters lie"),
        ("step", "const half* one, const half* two, half* three, int n", MMA, ""),
        ("softmax_mm", GEMM, MMA, "its name speaks of softmax"),
    ],
)
def test_what_does_not_agree_is_asked_for(tmp_path, name, signature, body, why):
    answer = found(tmp_path, name, signature, body)
    assert not answer.sure and why in answer.because, answer


def test_where_nothing_speaks_for_an_operation_none_is_called_the_likeliest(tmp_path):
    assert not found(tmp_path, "step", "const half* one, const half* two, half* three, int n", MMA).likely
    with pytest.raises(ConfigurationError, match="what should the kernel compute") as raised:
        open_subject(tmp_path / "k.cu")
    assert raised.value.detail == "nothing speaks for an operation: neither its name nor those of its arrays tell"


def test_what_functions_and_macros_do_counts_and_what_is_not_called_does_not(tmp_path):
    called = "__device__ float up(float x) { return POWER(x); }\n#define POWER(x) exp2f(x)\n"
    other = "__global__ void reference(float* x) { x[0] = tanhf(x[1]); }\ninline float host() { return expf(1); }\n"
    assert found(tmp_path, "attn", ATTENTION, f"{MMA} up(x); {MMA}", called).sure
    assert not found(tmp_path, "gemm", GEMM, f"{MMA} up(x);", called).sure
    plain = found(tmp_path, "gemm", GEMM, MMA, other.replace("__global__ ", "__device__ "))
    assert plain.sure


SEVERAL = (
    HEAD
    + "__global__ void convert(half* out, const float* in, int n) { out[0] = in[0]; }\n"
    + f"__global__ void first({GEMM}) {{ {MMA} }}\n"
    + f"__global__ void verify({GEMM}) {{ C[0] = 0; }}\n"
    + "void run(half* a, half* b, float* c, int m, int n, int k) { convert<<<1, 32>>>(a, c, m);"
    + " first<<<m / 16, 32>>>(a, b, c, m, n, k); verify<<<m, 32>>>(a, b, c, m, n, k); }\n"
)


def test_of_several_kernels_the_one_with_tensor_cores_is_taken_and_that_is_said(tmp_path):
    path = tmp_path / "k.cu"
    path.write_text(SEVERAL)
    card = open_subject(path)
    assert card.entry == "first"
    assert "the only one with tensor-core instructions; --entry takes another: convert, verify" in card.assumed[0]
    path.write_text(SEVERAL + f"__global__ void second({GEMM}) {{ {MMA} }}\n")
    card = open_subject(path)
    assert (
        card.entry == "first" and "that is launched; --entry takes another: convert, verify, second" in card.assumed[0]
    )
    path.write_text(path.read_text() + "void more(half* a, float* c, int m) { second<<<m, 32>>>(a, a, c, m, m, m); }\n")
    with pytest.raises(ConfigurationError, match="several kernels") as raised:
        open_subject(path)
    assert "second  (tensor cores, launched)" in raised.value.detail and "--entry first" in raised.value.hint


def test_what_was_assumed_is_said_where_the_rest_cannot_be_derived(tmp_path):
    path = tmp_path / "k.cu"
    path.write_text(SEVERAL.replace("first<<<m / 16, 32>>>", "first<<<blocks_of(m), 32>>>"))
    with pytest.raises(ConfigurationError) as raised:
        open_subject(path)
    assert raised.value.message.endswith("the kernel 'first': how is it launched?") and "--grid" in raised.value.hint
    assert "  taken as gemm, because" in raised.value.detail and "the kernel 'first' was taken" in raised.value.detail


def test_a_named_kernel_leaves_nothing_assumed(tmp_path):
    path = tmp_path / "k.cu"
    path.write_text(SEVERAL)
    assert open_subject(path, SubjectOptions(entry="first", computes="gemm")).assumed == ()


@pytest.mark.parametrize("text", ["x[", "x ", "max(", "x.x > 0 ? ", "(", "__"])
def test_long_code_is_read_in_no_time(tmp_path, text):
    path = tmp_path / "k.cu"
    path.write_text(f"{HEAD}\n__global__ void gemm({GEMM}) {{ {MMA} }}\n")
    parameters = kernel_of(GivenSource(path, SubjectOptions())).parameters
    started = time.process_time()
    recognised("gemm", parameters, f"{MMA} const char* long_text[] = {{ {text * 5000} }};", 1)
    assert time.process_time() - started < 2.0


@pytest.mark.parametrize(
    ("name", "there", "gone"),
    [
        ("conv3x3_same", "conv", ""),
        ("conv1x1_bias", "conv1x1", "conv"),
        ("rotary_embedding", "rotaryembedding", "embedding"),
    ],
)
def test_words_of_names(name, there, gone):
    words = _words(name)
    assert there in words and gone not in words


@pytest.mark.parametrize(("kind", "sure"), [("int8_t", True), ("half", False)])
def test_numbers_that_are_no_bytes_are_no_operand_of_a_product_of_bytes(tmp_path, kind, sure):
    signature = f"const {kind}* x, const int8_t* w, const float* x_scale, const int* x_zp, const float* w_scale, "
    told = found(tmp_path, "w8a8_linear", f"{signature}const int* w_sum, half* out, int M, int N, int K", MMA)
    assert (told.operation, told.sure) == ("w8a8_gemm", sure)
    assert sure or told.because == "its array 'x' has real numbers"
