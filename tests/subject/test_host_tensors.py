from __future__ import annotations

import pytest

from wmmadiag.subject.drafts.host_tensors import TensorAxes, stride_for, tensor_axes


@pytest.mark.parametrize(
    ("definitions", "layout", "known"),
    [
        ("int B = q.size(0); int H = q.size(1); int S = q.size(2); int D = q.size(3);", "BHSD", True),
        ("const int batch = q.size(0), seqlen = q.size(1), num_heads = q.size(2);", "BSHD", True),
        ("auto seqlen_k = static_cast<int>(k.sizes()[1]); int64_t heads = (int)k.size(2);", "BSHD", True),
        ("int seqlen = q.size(1);", "BHSD", False),
        ("int seq_len = query.shape[0]; int bs = query.shape[1]; int nh = query.shape[2];", "SBHD", True),
        ("int n = Q.size(0); int heads = Q.size(1); int d = Q.size(2);", "SHD", True),
        ("int BH = Q.size(0); int n = Q.size(1); int d = Q.size(2);", "HSD", True),
        ("int d = Q.size(-1); int b = Q.size(0);", "BHSD", False),
        ("int heads = bias.size(1);", "BHSD", False),
        ("int n = q.size(1); int heads = q.size(1);", "BHSD", False),
        ("// int seqlen = q.size(1);", "BHSD", False),
        ("", "BHSD", False),
    ],
)
def test_layouts(definitions, layout, known):
    axes = tensor_axes(definitions, "attention", {})
    assert (axes.layout, axes.known) == (layout, known)


def test_a_variable_has_the_role_of_what_it_is_passed_for():
    axes = tensor_axes("int seqlen = x.size(1); int heads = x.size(2);", "attention", {"x": "q"})
    assert axes.card_layout() == "BSHD"


def test_sizes_and_strides():
    symbols = TensorAxes("BSHD").symbols("k", "k")
    assert [symbols[f"k.size({i})"] for i in range(4)] == ["B", "Skv", "Hkv", "D"]
    assert [symbols[f"k.stride({i})"] for i in (0, 1, 2, 3, -1)] == ["Skv*Hkv*D", "Hkv*D", "D", "1", "1"]
    flat = TensorAxes("HSD", flat=True).symbols("q", "q")
    assert (flat["q.size(0)"], flat["q.stride(0)"], flat["q.size(-1)"]) == ("B*H", "Sq*D", "D")


@pytest.mark.parametrize(
    ("name", "layout", "stride"),
    [
        ("q_stride_b", "BHSD", "H*Sq*D"), ("stride_qh", "BSHD", "D"), ("k_row_stride", "BSHD", "Hkv*D"),
        ("v_head_stride", "BHSD", "Skv*D"), ("stride_om", "BHSD", "D"), ("o_batch_stride", "BSHD", "Sq*H*D"),
        ("strideQS", "BHSD", "D"), ("batch_stride", "BHSD", "H*Sq*D"), ("head_stride", "BHSD", "Sq*D"),
        ("stride_qk", "BHSD", "1"), ("stride_vn", "BHSD", None), ("stride", "BHSD", None), ("q_batch", "BHSD", None),
    ],
)  # fmt: skip
def test_strides_by_name(name, layout, stride):
    assert stride_for(name, "attention", TensorAxes(layout)) == stride


@pytest.mark.parametrize(
    ("definitions", "packed"),
    [
        ("int B = qkv.size(0), S = qkv.size(1), H = qkv.size(3), D = qkv.size(4);", "BS3HD"),
        ("int S = qkv.size(1); int H = qkv.size(2);", "BSH3D"),
        ("int bs = qkv.size(1); int heads = qkv.size(2); int seqlen = qkv.size(3);", "3BHSD"),
        ("int seqlen = kv.size(1); int heads = kv.size(3);", "BS2HD"),
        ("int d = qkv.size(4);", ""),
    ],
)
def test_packed_layouts(definitions, packed):
    assert tensor_axes(definitions, "attention", {}).packed == packed
