from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wmmadiag.subject.drafts.c_expressions import CannotTranslate, HostScope, dimensions, translate
from wmmadiag.subject.drafts.source_facts import constants, dimension_members, helpers, template_values, uses_tf32
from wmmadiag.subject.expressions import evaluate

SOURCE = """
#define BM 64  // rows
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
#define TWICE 1
#ifdef X
#undef TWICE
#define TWICE 2
#endif
constexpr int HD = 64;
static const unsigned int WARPS = BM / 16;
enum { STAGES = 3, OTHER };
inline int up(int a, int b) { return (a + b - 1) / b; }
/* #define NOT 1 */
template <int D, int TILE = 32>
__global__ void __launch_bounds__(128) attn(const half* q) {}
"""
SCOPE = HostScope(
    {"S": "S", "seq": "S", "bh": "B*H"},
    {**constants(SOURCE), "grid": "dim3((seq + BM - 1) / BM, bh, 1)", "loop": "loop2", "loop2": "loop"},
    helpers(SOURCE),
)
SYMBOLS = {"S": 100, "B": 2, "H": 8}


@pytest.mark.parametrize(("text", "expected"), [
    ("(S+63)/64", 2), ("CEIL_DIV(seq, BM)", 2), ("up(seq, BM)", 2), ("ceil((float)S/BM)", 2), ("S/BM*BM", 64),
    ("2*BM*HD*sizeof(half)", 16384), ("(S/BM)*(bh/4)", 4), ("S*(bh/3)", 500), ("S>64?128:256", 128), ("S % 7 == 2", 1),
    ("static_cast<int>(1.5f*S)", 150), ("(int)(S / 3.0f)", 33), ("std::min(S, 64)", 64), ("WARPS * 32", 128),
    ("-S + 200", 100), ("!0 && S", 1), ("1 << 4", 16), ("0x40u", 64), ("STAGES", 3), ("(S)", 100), ("bh", 16),
    ("S - 3 - 2", 95), ("S / 5 / 2", 10), ("cdiv(S, 64)", 2), ("(size_t)S * 2", 200),
])  # fmt: skip
def test_means_the_same_as_in_c(text, expected):
    assert evaluate(translate(text, SCOPE), SYMBOLS.__getitem__) == expected


@pytest.mark.parametrize("text", ["q.size(0)", "p->n", "a[3]", "f(S)", "nothing", "(S", "S +", "", "TWICE", "loop",
                                  "NOT", "sizeof(thing)", "S; S", '"x"', "(" * 99 + "S" + ")" * 99])  # fmt: skip
def test_refuses_what_it_does_not_understand(text):
    with pytest.raises(CannotTranslate):
        translate(text, SCOPE)


def test_dimensions():
    assert dimensions("grid", SCOPE) == ["ceil_div(S, 64)", "B*H", "1"]
    assert dimensions("dim3(32, WARPS)", SCOPE) == ["32", "64 // 16"]
    assert dimensions("{1, 2}", SCOPE) == ["1", "2"]
    assert dimensions("128", SCOPE) == ["128"]


def test_template_values_and_tf32():
    assert template_values(SOURCE, "attn<64, 16>") == {"D": "64", "TILE": "16"}
    assert template_values(SOURCE, "attn") == {}
    assert uses_tf32("wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> a;")
    assert not uses_tf32("// precision::tf32")


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="S(B)+-*/%<>?:&|!~. 0123xf,[]", max_size=40))
def test_never_anything_but_its_own_error(text):
    with contextlib.suppress(CannotTranslate):
        translate(text, SCOPE)


def test_members_of_dimensions():
    source = "gridDim.x = (M + 16 * blockDim.x / 32 - 1) / (16 * blockDim.x / 32);\n gridDim.y = N / blockDim.y; // x"
    local = {"gridDim": "dim3()", "blockDim": "dim3(128, 4)"}
    scope = HostScope({"M": "M", "N": "N"}, {**dimension_members(local, source), **local})
    sizes = {"M": 200, "N": 64}
    grid, block = dimensions("gridDim", scope), dimensions("blockDim", scope)
    assert [evaluate(text, sizes.__getitem__) for text in grid] == [4, 16, 1]
    assert block == ["128", "4", "1"]


def test_definitions_that_double_each_other_are_given_up_at_once():
    doubled = {f"X{n}": f"(X{n - 1} + X{n - 1})" for n in range(1, 40)} | {"X0": "M"}
    with pytest.raises(CannotTranslate):
        translate("X39", HostScope({"M": "M"}, doubled))
