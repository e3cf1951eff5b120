"""Several kernels of one host function, judged as what they compute together."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import wmmadiag
from wmmadiag.cli.main import main
from wmmadiag.errors import UndecidedError
from wmmadiag.hostcode import terms
from wmmadiag.launch import Launch
from wmmadiag.numerics.element_types import TYPES
from wmmadiag.subject import together
from wmmadiag.subject.drafts.derive import _names
from wmmadiag.subject.drafts.given_source import GivenSource
from wmmadiag.subject.drafts.host_read import read_host
from wmmadiag.subject.drafts.instantiations_beside import _of_other_ways
from wmmadiag.subject.drafts.launched_together import launched_together
from wmmadiag.subject.drafts.meanings import meanings
from wmmadiag.subject.open_subject import SubjectOptions
from wmmadiag.subject.together import LaunchStep, LaunchSteps, PointerTarget, Together

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SETS = Path(__file__).parents[1] / "reading"
SPLIT = SETS / "unseen8" / "splitk_gemm_reduce.cu"

TWO = """
__global__ void scale(const float* x, float* tmp, int n, float factor) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) tmp[i] = factor * x[i];
}
__global__ void shift(const float* tmp, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = tmp[i] + 1.0f;
}
void run(const float* x, float* y, int n, float factor) {
    float* tmp;
    cudaMalloc(&tmp, n * sizeof(float));
    BODY
    cudaFree(tmp);
}
"""
BOTH = "scale<<<(n + 127) / 128, 128>>>(x, tmp, n, factor); shift<<<(n + 127) / 128, 128>>>(tmp, y, n);"


def whole(tmp_path, body, text=TWO):
    path = tmp_path / "two.cu"
    path.write_text(text.replace("BODY", body))
    options = SubjectOptions()
    given = GivenSource(path, options)
    return launched_together(given, read_host(given))


def test_arrays_and_numbers_are_those_of_the_function(tmp_path):
    found = whole(tmp_path, BOTH)
    assert found.entry == "run"
    assert [(one.name, one.pointer, one.const) for one in found.parameters] == [
        ("x", True, True), ("y", True, False), ("n", False, False), ("factor", False, False)
    ]  # fmt: skip
    (size,) = found.together.own.values()
    assert str(size).count("'n'") == 1


IN_A_STRUCT = """
struct Params { const void* x; void* y; float2* pairs; int n; };
template <typename T> __global__ void squares(const Params p) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const T* x = static_cast<const T*>(p.x);
    if (i < p.n) p.pairs[i] = make_float2(x[i], x[i] * x[i]);
}
template <typename T> __global__ void sums(const Params p) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < p.n) static_cast<T*>(p.y)[i] = p.pairs[i].x + p.pairs[i].y;
}
void run(const Params& p) {
    squares<float><<<(p.n + 127) / 128, 128>>>(p);
    sums<float><<<(p.n + 127) / 128, 128>>>(p);
}
"""


def test_what_is_handed_on_in_a_struct_is_no_argument_of_the_function(tmp_path):
    """What each kernel does with a member is told by its code, and what pointers without a type are taken for."""
    found = whole(tmp_path, "", IN_A_STRUCT)
    assert [(one.name, one.dtype) for one in found.parameters] == [("x", "f32"), ("y", "f32"), ("n", "s32")]
    assert len(found.together.own) == 1


THREE = """
struct Params { const void* x; float* first; float* second; float* y; int n; };
template <typename T, int STEP> __global__ void one(Params p) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < p.n) p.first[i] = static_cast<const T*>(p.x)[i] * STEP;
}
__global__ void two(Params p) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < p.n) p.second[i] = p.first[p.n - 1 - i];
}
__global__ void three(Params p) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < p.n) p.y[i] = p.second[p.n - 1 - i];
}
void run(const Params& p) {
    if (p.n % 128 == 0) one<float, 1><<<p.n / 128, 128>>>(p);
    else one<float, 2><<<(p.n + 127) / 128, 128>>>(p);
    two<<<(p.n + 127) / 128, 128>>>(p);
    three<<<(p.n + 127) / 128, 128>>>(p);
}
"""


def test_members_that_a_kernel_leaves_alone_are_not_its_own(tmp_path):
    """Of three kernels each is handed all of a struct; and what has no type in one of them is bytes."""
    found = whole(tmp_path, "", THREE)
    assert [one.name for one in found.parameters if one.pointer] == ["x", "y"]
    assert len(found.together.own) == 2


def test_instantiations_that_other_ways_launch_are_named(tmp_path):
    found = whole(tmp_path, "", THREE)
    assert _of_other_ways(found) in (("one<float, 2>",), ("one<float, 1>",))


def test_vectors_are_handed_on(tmp_path):
    pairs = TWO.replace("float* tmp", "float2* tmp").replace("tmp[i] = factor * x[i]", "tmp[i].x = tmp[i].y = x[i]")
    found = whole(tmp_path, BOTH, pairs.replace("y[i] = tmp[i]", "y[i] = tmp[i].x").replace("sizeof(float)", "8"))
    assert [one.name for one in found.parameters] == ["x", "y", "n", "factor"]


@pytest.mark.parametrize(
    "body",
    [
        "scale<<<(n + 127) / 128, 128>>>(x, y, n, factor);",
        "scale<<<1, 128>>>(x, y, n, factor); scale<<<2, 64>>>(x, y, n, factor);",  # nothing is handed on
        f"for (int i = 0; i < 3; ++i) {{ {BOTH} }}",  # how often is not followed
        f"while (n > 0) {{ {BOTH} --n; }}",
        BOTH.replace("shift<<<(n + 127) / 128", "shift<<<blocks_of(n)"),  # how it is launched is not known
        BOTH.replace("; shift", "; cudaMemcpy(tmp, x, n * 4, cudaMemcpyDeviceToDevice); shift"),
    ],
)
def test_nothing_is_judged_together_that_is_not_known_to_be_one(tmp_path, body):
    assert whole(tmp_path, body) is None


def test_a_macro_that_checks_a_launch_is_no_loop(tmp_path):
    text = "#define CHECKED(launch) do { launch; } while (0)\n" + TWO
    one, other = BOTH.rstrip(";").split("; ")
    assert whole(tmp_path, f"CHECKED(({one})); CHECKED(({other}));".replace("((", "(").replace("));", ");"), text)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("unseen4/splitk_two_kernels", "splits = 2"),
        ("unseen5/attention_three_kernels", "qk_kernel, softmax_rows_kernel, pv_kernel"),
        ("unseen5/lora_two_launches", "alpha divided by the rank and the product with W kept in f16"),
        ("unseen6/lora_fused_launcher", "taken as lora"),
        ("unseen6/splitk_two_kernels", "splits = 2"),
        ("unseen8/flash_decoding_splitkv", "taken as decode_attention"),  # its workspace is cut in three
        ("unseen9/attention_inplace_softmax_torch", "scores_kernel, softmax_inplace_kernel, context_kernel"),
        ("unseen9/conv_im2col_gemm", "im2col_kernel, conv_gemm_kernel"),
        ("unseen9/layernorm_then_linear", "a LayerNorm of rows"),
        ("unseen9/splitk_atomic_convert", "split_k = 2"),  # what is added to is cleared before
        ("unseen8/lora_shrink_expand", "the result is added to 'y', which the kernel reads"),
        ("unseen8/splitk_gemm_reduce", "splits = 2"),
        ("unseen23/gqa_flash_decode_mma", "taken as decode_attention"),  # pointers without a type in a struct
        ("unseen23/ln_dense_act", "a LayerNorm of rows"),  # pairs of numbers are handed on
    ],
)
@pytest.mark.corpus
def test_what_they_compute_together_is_right(source, found):
    report = wmmadiag.check(SETS / f"{source}.cu")
    assert report.exit_code == 0, [case.problem for case in report.cases]
    assert found in " ".join(report.assumed) and "is judged as a whole" in " ".join(report.assumed)


@pytest.mark.parametrize(
    ("source", "bug"),
    [
        ("unseen8/splitk_gemm_reduce", "one_part_short"),  # each kernel is right by something alone
        ("unseen8/splitk_gemm_reduce", "slice_rounded_down"),  # right where parts are equal
        ("unseen8/splitk_gemm_reduce", "part_of_rows"),
        ("unseen8/flash_decoding_splitkv", "weights_of_parts"),
        ("unseen6/splitk_two_kernels", "one_part"),
        ("unseen9/splitk_atomic_convert", "not_cleared"),
        ("unseen9/splitk_atomic_convert", "part_rounded_down"),  # right where parts come out even
        ("unseen9/conv_im2col_gemm", "image"),
        ("unseen9/attention_inplace_softmax_torch", "head_of_values"),
    ],
)
@pytest.mark.corpus
def test_a_mistake_in_any_of_them_is_not_called_right(tmp_path, capsys, source, bug):
    path = SETS / f"{source}.cu"
    change = tomllib.loads(path.with_suffix(".bugs.toml").read_text("utf-8"))[bug]
    broken = tmp_path / path.name
    broken.write_text(path.read_text("utf-8").replace(change["old"].strip("\n"), change["new"].strip("\n")))
    assert main(["check", str(broken)]) != 0, capsys.readouterr().out


def test_no_instantiation_is_chosen_where_each_is_judged_alone():
    assert _names(["a::f<1, 2>", "g<half>"]) == ["a::f", "g"]
    assert _names(["f<1>", "f<2>", "g<half>", "h"]) == ["f<1>", "f<2>", "g", "h"]


@pytest.mark.slow
@pytest.mark.rest  # of another source: test_what_is_right_alone_says_what_it_rests_on
def test_each_is_judged_alone_where_together_they_are_no_operation(capsys):
    assert main(["check", str(SETS / "unseen9" / "mlp_two_linears.cu")]) == 0
    assert "2 checks: 2 ok" in capsys.readouterr().out


def test_what_is_said_of_kernels_is_said_of_them_together_if_it_is_of_none_alone(tmp_path, capsys):
    """The first kernel of a broken split-K is right, and no product: it writes parts of sums."""
    change = tomllib.loads(SPLIT.with_suffix(".bugs.toml").read_text("utf-8"))["part_of_rows"]
    broken = tmp_path / SPLIT.name
    broken.write_text(SPLIT.read_text("utf-8").replace(change["old"].strip("\n"), change["new"].strip("\n")))
    assert main(["check", str(broken), "--computes", "gemm"]) != 0
    said = capsys.readouterr().out
    assert "default: gemm_splitk\n" in said and said.count("default: ") == 1


def test_the_user_says_in_how_many_parts(capsys):
    words = ["check", str(SPLIT), "--entry", "gemm_splitk", "--computes", "gemm", "--symbol", "splits=3"]
    assert main(words) == 0
    assert "K=320 splits=3" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("refused", "exit_code"),
    [("K % (splits * BK)", 0), ("(K / splits) % BK", 0), ("K % splits", 3)],  # K = 48 in two parts: nothing is added
)
def test_parts_come_out_even_where_the_function_asks_for_it(tmp_path, refused, exit_code):
    path = tmp_path / SPLIT.name
    text = SPLIT.read_text("utf-8").replace(
        "    k_slice = (k_slice + BK - 1) / BK * BK;\n", "    k_slice = k_slice / BK * BK;\n"
    )
    path.write_text(
        text.replace(
            "    float* workspace", f"    if ({refused} != 0) return cudaErrorInvalidValue;\n    float* workspace"
        )
    )
    assert wmmadiag.check(path).exit_code == exit_code


def test_one_of_them_is_taken_alone_by_its_name(capsys):
    assert main(["check", str(SPLIT), "--entry", "gemm_splitk_partial"]) == 0
    assert "judged as a whole" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("s < splits; ++s) sum", "s + 1 < splits; ++s) sum"),  # in the second kernel
        ("A[(m0 + r) * K + k0 + q]", "A[(m0 + r) * K + kb + q]"),  # in the first
    ],
)
def test_a_diagnosis_is_of_all_of_them(tmp_path, right, wrong):
    """Where none is wrong alone, or nobody says what it computes alone, changes of each are tried with the others."""
    broken = tmp_path / SPLIT.name
    broken.write_text(SPLIT.read_text("utf-8").replace(right, wrong))
    line = broken.read_text("utf-8").split(wrong)[0].count("\n") + 1
    options = {"entry": "gemm_splitk", "computes": "gemm", "symbols": {"splits": "2"}}
    found = wmmadiag.diagnosis(broken, effort="quick", **options)
    assert f":{line}" in found.causes[0].place and found.causes[0].fix.status == "verified"


def test_a_function_that_main_calls_is_taken_with_the_numbers_that_it_gets(tmp_path):
    main_of = "\nint main() { float *x, *y; cudaMalloc(&x, 400); cudaMalloc(&y, 400); run(x, y, 100, 2.0f); }\n"
    found = whole(tmp_path, BOTH, TWO + main_of)
    assert found.entry == "run" and found.usual["n"] == 100
    assert [one.name for one in found.parameters] == ["x", "y", "n", "factor"]


def test_a_fault_in_the_second_kernel_is_told_at_its_line(tmp_path):
    broken = tmp_path / SPLIT.name
    text = SPLIT.read_text("utf-8").replace("if (i >= MN) return;", "")
    text = text.replace("partial[(size_t)s * MN + i]", "partial[(size_t)(s + 90) * MN + i]")
    broken.write_text(text)
    report = wmmadiag.check(broken, entry="gemm_splitk", computes="gemm", symbols={"splits": 2})
    line = next(at for at, one in enumerate(text.splitlines(), 1) if "s + 90" in one)
    assert any(case.problem is not None and f":{line}" in case.problem.place for case in report.cases)


@pytest.mark.parametrize(("size", "offset"), [(1 << 60, 0), (-4, 0), (64, -4), (64, 68)])
def test_memory_that_nobody_can_have_is_no_mistake_of_ours(size: int, offset: int) -> None:
    where = PointerTarget("w", terms.number(offset), TYPES["f32"])
    stage = LaunchStep("k", (terms.ONE,) * 3, (terms.ONE,) * 3, terms.ZERO, (where,), ("w",))
    whole = Together(LaunchSteps((stage,), {}, {}, {"w": terms.number(size)}, {}), {"k": cast(Any, None)})
    launch = Launch((1, 1, 1), (1, 1, 1), ())
    with pytest.raises(UndecidedError, match="bytes"):
        list(whole.launches(launch))


def test_memory_of_a_functions_own_is_taken_once_more_behind_a_launch(monkeypatch):
    monkeypatch.setattr(together, "_spare", {})
    first, other = together._poisoned(4096), together._poisoned(4096)
    first[:] = 1
    other[:] = 2
    assert not np.shares_memory(first, other)
    together._given_back(first)
    again = together._poisoned(1024)
    assert np.shares_memory(first, again) and (again == together._POISON).all() and (other == 2).all()
    assert not np.shares_memory(together._poisoned(1024), again)  # nobody gave it back


def test_the_largest_of_some_memory_is_kept(monkeypatch):
    monkeypatch.setattr(together, "_spare", {})
    for size in (together._KEPT + 1, 16, 64, 32, 128, 8):
        together._given_back(np.empty(size, np.uint8)[:4])
    assert sorted(one.size for one in together._spare.values()) == [16, 32, 64, 128]


def test_a_launch_that_died_gives_its_memory_back(monkeypatch):
    monkeypatch.setattr(together, "_spare", {})
    where = PointerTarget("w", terms.number(0), TYPES["f32"])
    stage = LaunchStep("k", (terms.ONE,) * 3, (terms.ONE,) * 3, terms.ZERO, (where,), ("w",))
    whole = Together(LaunchSteps((stage,), {}, {}, {"w": terms.number(64)}, {}), {"k": cast(Any, None)})
    steps = whole.launches(Launch((1, 1, 1), (1, 1, 1), ()))
    next(steps)
    assert not together._spare
    steps.close()
    assert [one.size for one in together._spare.values()] == [64]


def test_a_number_may_be_called_as_an_array_is(tmp_path):
    """A filter `w` and a width that is a member `w` are two arguments of the whole."""
    source = SETS / "unseen28" / "winograd_f2x3_tensorcore.cu"
    kernel = launched_together(GivenSource(source, SubjectOptions()))
    assert kernel is not None
    names = [one.name for one in kernel.parameters]
    assert len(set(names)) == len(names)
    assert [one.own_name for one in kernel.parameters].count("w") == 2


OTHER = (
    TWO.replace("BODY", BOTH)
    + """
__global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
__global__ void first(const float* x, float* tmp, int n) { tmp[threadIdx.x] = x[threadIdx.x]; }
__global__ void second(const float* tmp, float* y, int n) { y[threadIdx.x] = tmp[threadIdx.x]; }
void other(const float* x, float* y, int n) {
    float* tmp;
    cudaMalloc(&tmp, 32 * sizeof(float));
    first<<<1, 32>>>(x, tmp, n);
    second<<<1, 32>>>(tmp, y, n);
}
void single(const float* x, float* y, int n) { twice<<<(n + 127) / 128, 128>>>(x, y, n); }
"""
)


def test_what_else_a_source_launches_lies_beside_what_is_judged_as_a_whole(tmp_path):
    assert whole(tmp_path, "", OTHER).beside == ("other", "twice")
    assert whole(tmp_path, BOTH).beside == ()


def test_what_a_source_launches_besides_parts_is_judged_too(tmp_path, capsys):
    """Nobody can say what `run` computes: its parts are judged, and what others launch is not passed over."""
    path = tmp_path / "two.cu"
    path.write_text(OTHER, "utf-8")
    assert main(["check", str(path)]) != 0
    told = capsys.readouterr().out
    assert "--entry twice" in told and "--entry other" in told and "4 checks" in told


def test_a_width_is_what_the_function_divides_for_a_number_of_one_of_its_kernels(tmp_path):
    text = TWO.replace("int n, float factor) {", "int n, int head_dim, float factor) {", 1)
    text = text.replace(
        "int n, float factor) {\n    float*", "int n, int width, int heads, float factor) {\n    float*"
    )
    body = BOTH.replace("n, factor)", "n, width / heads, factor)")
    means = meanings(whole(tmp_path, body, text), "attention").by_symbol
    symbols = {name: str(terms.text(term)) for name, term in means.items()}
    assert symbols["heads"] == "H"
    assert symbols["width"] in ("D * H", "H * D")


KEPT = """
__global__ void first(float* a, FROM float* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { a[i] = 2.0f; a[i] = a[i] + b[i]; }
}
__global__ void second(const float* a, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a[i] + 1.0f;
}
void run(float* u, const float* v, float* y, int n) {
    BODY
    second<<<(n + 127) / 128, 128>>>(u, y, n);
}
"""


def test_what_a_kernel_writes_before_it_reads_it_is_handed_on(tmp_path):
    found = whole(tmp_path, "first<<<(n + 127) / 128, 128>>>(u, v, n);", KEPT.replace("FROM", "const"))
    assert [one.name for one in found.parameters if one.pointer] == ["v", "y"]


@pytest.mark.parametrize("body", ["a[i] = 2.0f; a[i] = a[i] + b[i];", "float x = b[i]; a[i] = x;"])
def test_what_it_reads_through_another_pointer_is_not(tmp_path, body):
    text = KEPT.replace("FROM", "").replace("a[i] = 2.0f; a[i] = a[i] + b[i];", body)
    assert whole(tmp_path, "first<<<(n + 127) / 128, 128>>>(u, u, n);", text) is None
