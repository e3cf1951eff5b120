"""Kernels that no built-in operation describes are refused with the next step, never judged."""

from __future__ import annotations

import pytest

from wmmadiag.errors import ConfigurationError
from wmmadiag.subject.drafts.guess import operation_named, role_remark
from wmmadiag.subject.open_subject import SubjectOptions, open_subject

LAUNCH = "\nvoid run(half* p, float* f, int* c, int n) { k<<<n / 64, 128>>>(%s); }\n"


@pytest.mark.parametrize(
    ("signature", "passed", "told"),
    [
        (
            "const half* q, const half* k, const half* v, half* o, const int* cu_seqlens, int S, int D",
            "p, p, p, p, c, n, n",
            ("cu_seqlens", "`values` of a card", "--computes python"),
        ),
        (
            "const half* Q, const half* K, const half* V, const half* dO, float* dQ, int S, int D",
            "p, p, p, p, f, n, n",
            ("dO", "backward", "--computes python"),
        ),
        (
            "const float* partial_o, const float* partial_m, const float* partial_l, half* out, int S, int D",
            "f, f, f, p, n, n",
            ("partial_m", "intermediate result"),
        ),
        (
            "const half* q, const half* k, const half* v, const half* attn_mask, half* o, int S, int D",
            "p, p, p, p, p, n, n",
            ("the layout of 'attn_mask'", "axes"),
        ),
        (
            "const half* q, const half* k, float* scores, int S, int D",
            "p, p, f, n, n",
            ("'v' of attention", "--computes qkt"),
        ),
        (
            "const Params params",
            "{}",
            ("'params'", "Params", '"CUtensorMap" is undefined', "members in order", "fields = "),
        ),
    ],
    ids=["varlen", "backward", "reduce", "mask", "stage", "struct"],
)
def test_what_is_said(tmp_path, signature, passed, told):
    path = tmp_path / "k.cu"
    struct = "struct Params { half* q; CUtensorMap map; int n; };\n" if "Params" in signature else ""
    path.write_text(f"#include <cuda_fp16.h>\n{struct}__global__ void k({signature}) {{}}" + LAUNCH % passed)
    with pytest.raises(ConfigurationError) as raised:
        open_subject(path, SubjectOptions(computes="attention"))
    said = f"{raised.value.message}\n{raised.value.detail}\n{raised.value.hint}"
    assert all(word in said for word in told), said


@pytest.mark.parametrize("name", ["q", "Kptr", "d_value", "v_cache", "out", "A", "weights", "hidden_states", "input1"])
def test_operands_are_not_strange(name):
    assert role_remark(name) == ""


@pytest.mark.parametrize(
    ("names", "operation"),
    [
        ("q k v o", "attention"),
        ("d_Query d_Key d_Value out", "attention"),
        ("qkv out", "attention"),
        ("Q K V O lse", "attention"),
        ("A B C", "gemm"),
        ("a_fp16 b_fp16 c", "attention"),  # nothing that is known
        ("x weight y", "gemm"),
        ("A B C D", "gemm"),
        ("q k scores", "qkt"),
        ("p v o", "pv"),
        ("in out", "softmax"),
        ("input filter bias output", "attention"),
    ],
)
def test_the_operation_by_the_names_of_the_pointers(names, operation):
    assert operation_named(names.split()) == operation
