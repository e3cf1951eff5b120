"""What a fault model tells is undone where the source makes it: heads in groups, old sums, flags of a mask."""

from __future__ import annotations

import pytest

from wmmadiag.diagnose.edits import apply
from wmmadiag.diagnose.mends.heads import head_mends
from wmmadiag.diagnose.mends.softmax import mends
from wmmadiag.diagnose.source.read import read_source
from wmmadiag.diagnose.source.softmax import softmax

HEADS = """struct Shape {{ int heads, kv_heads; }};
__global__ void k(const half* keys, float* out, Shape shape, int heads, int heads_kv, int d) {{
    const int h = blockIdx.y;
    const int kv = {index};
    out[h] = keys[kv * d];
}}
"""
VALUES = {"shape.heads": 8, "shape.kv_heads": 2, "heads": 8, "heads_kv": 2, "d": 64}


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("h % shape.kv_heads", "(h / (shape.heads / shape.kv_heads))"),
        ("h % heads_kv", "(h / (heads / heads_kv))"),
        ("h / heads_kv", "(h / (heads / heads_kv))"),
    ],
)
def test_heads_are_shared_in_groups(wrong: str, right: str) -> None:
    model = read_source(HEADS.format(index=wrong))
    found = [apply(model.text, one) for one in head_mends(model, "gqa-modulo-k-v", VALUES)]
    assert HEADS.format(index=right) == found[0]
    assert list(head_mends(model, "head+1-k", VALUES)) == []


def test_a_remainder_by_another_number_is_left_alone() -> None:
    model = read_source(HEADS.format(index="h % 4"))
    assert list(head_mends(model, "gqa-modulo-k-v", VALUES)) == []


ROWS = """__global__ void k(const float* q, const float* kk, float* m, float* l, float* o, int n) {{
    const int row = threadIdx.x;
    float m_old = m[threadIdx.x], l_old = l[threadIdx.x];
    float m_tile = -INFINITY, l_tile = 0.f;
    float s[32];
    for (int j = 0; j < 32; ++j) {{
        bool hidden = j >= n;
        {mask}
        s[j] = q[j] * kk[j];
        if (hidden) s[j] = -INFINITY;
        m_tile = fmaxf(m_tile, s[j]);
    }}
    for (int j = 0; j < 32; ++j) {{ s[j] = __expf(s[j] - m_tile); l_tile += s[j]; }}
    float m_new = fmaxf(m_old, m_tile);
    float f = __expf(m_old - m_new), g = __expf(m_tile - m_new);
    float l_new = f * l_old + g * l_tile;
    o[threadIdx.x] = o[threadIdx.x] * {carried} / l_new + g * s[0] / l_new;
    m[threadIdx.x] = m_new;
    l[threadIdx.x] = l_new;
}}
"""


def rows(mask: str = "hidden |= j > row;", carried: str = "l_old * f") -> str:
    return ROWS.format(mask=mask, carried=carried)


def mended(text: str, hypothesis: str, fault: str) -> list[str]:
    model = read_source(text)
    return [apply(text, one) for one in mends(model, softmax(model), hypothesis, fault, {})]


def test_an_old_sum_goes_with_its_factor() -> None:
    assert rows() in mended(rows(carried="l_old"), "rescale-missing", "alpha-missing-of-output")


def test_an_old_sum_that_has_its_factor_is_left_alone() -> None:
    text = rows()
    assert not any("l_old * f * f" in one for one in mended(text, "rescale-missing", "alpha-missing-of-output"))


@pytest.mark.parametrize(
    "form", ["hidden |= j {} row;", "if (j {} row) hidden = true;", "hidden = hidden || j {} row;"]
)
def test_a_flag_that_is_changed_later_is_part_of_the_mask(form: str) -> None:
    assert rows(mask=form.format(">")) in mended(rows(mask=form.format(">=")), "causal-mask", "causal-strict")
