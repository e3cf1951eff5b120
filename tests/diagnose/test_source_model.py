"""What the source model reads, and that nothing makes it raise."""

# ruff: noqa: E501
from __future__ import annotations

from pathlib import Path

import pytest
from edit_sources import FLASH, GEMM
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wmmadiag.diagnose.edits import apply, edits
from wmmadiag.diagnose.source.read import read_source

KERNELS = Path(__file__).parents[2] / "kernels"


def test_fragments_through_aliases_and_templates():
    model = read_source(GEMM)
    found = {f.name: (f.use, f.sizes, f.element, f.layout, len(f.dims)) for f in model.fragments}
    assert found == {
        "acc": ("accumulator", (16, 16, 16), "float", "", 2),
        "fa": ("matrix_a", (16, 16, 16), "half", "row_major", 1),
        "fb": ("matrix_b", (16, 16, 16), "half", "row_major", 1),
    }
    fb = next(f for f in model.fragments if f.name == "fb")
    assert fb.layout_at is not None
    assert GEMM[fb.layout_at.start : fb.layout_at.end] == "wmma::row_major"
    assert fb.layout_at.line == fb.line


def test_arrays_with_their_extents():
    arrays = {v.name: (v.sizes, v.shared) for v in read_source(FLASH).arrays}
    assert arrays["keys"] == ((64, 72), True)
    assert arrays["scores"] == ((32, 68), True)
    assert arrays["total"] == ((32,), True)


def test_macros_choose_branches_and_values():
    text = "#ifndef D\n#define D 64\n#endif\n#if D > 64\n__global__ void big() {}\n#else\n__global__ void small() {}\n#endif\n"
    assert [f.name for f in read_source(text).functions] == ["small"]
    model = read_source(text, macros={"D": "128"})
    assert [f.name for f in model.functions] == ["big"]
    assert model.constants["D"] == 128


def test_only_what_the_entry_reaches():
    text = "__device__ int one() { return 1; }\n__device__ int two() { return 2; }\n"
    text += "template <int N> __global__ void a(int* x) { x[0] = one() + N; }\n__global__ void b(int* x) { x[0] = two(); }\n"
    model = read_source(text, entry="a<64>")
    assert [f.name for f in model.functions] == ["one", "a"]
    assert model.constants["N"] == 64
    assert [f.name for f in read_source(text, entry="missing").functions] == ["one", "two", "a", "b"]


def test_barriers_in_every_form():
    text = """
    __device__ void commit() { asm volatile("cp.async.commit_group;"); }
    template <int N> __device__ void wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N)); }
    __global__ void k() {
      commit(); wait<2>(); __pipeline_commit(); __pipeline_wait_prior(1);
      asm volatile("cp.async.wait_group 3;"); asm volatile("cp.async.wait_all;");
      __syncthreads(); __syncwarp(); asm volatile("bar.sync 0;");
    }
    """
    model = read_source(text, entry="k")
    kernel = model.functions[-1]
    found = [(b.kind, b.form, b.count.text if b.count else "") for b in model.barriers if b.start > kernel.start]
    assert found == [
        ("commit", "call", ""), ("wait", "call", "2"), ("commit", "pipeline", ""), ("wait", "pipeline", "1"),
        ("wait", "asm", "3"), ("wait", "asm", ""), ("block", "builtin", ""), ("warp", "builtin", ""),
        ("block", "asm", ""),
    ]  # fmt: skip


def test_statements_nest():
    model = read_source(
        "__global__ void k(int n) {\n#pragma unroll\n  for (int i = 0; i < n; ++i)\n    if (i) n = 1; else n = 2;\n}"
    )
    kinds = [(s.kind, s.depth) for s in model.statements]
    assert kinds == [("block", 0), ("for", 1), ("if", 2), ("expression", 3), ("expression", 3)]
    loop = model.statements[1]
    assert model.text[loop.start :].startswith("#pragma")
    assert [p.text if p else "" for p in (loop.init, loop.condition, loop.step)] == ["int i = 0", "i < n", "++i"]


def test_spans_are_places_in_the_text():
    model = read_source(FLASH)
    for call in model.calls:
        for argument in call.arguments:
            assert FLASH[argument.start : argument.end] == argument.text
            assert model.line_of(argument.start) == argument.line


@pytest.mark.parametrize("path", sorted(KERNELS.glob("*/kernel.cu")), ids=lambda p: p.parent.name)
def test_shipped_kernels_are_read(path: Path):
    model = read_source(path)
    assert any(f.kernel for f in model.functions)
    assert edits(model, lines=range(1, len(model.lines) + 1))


WORDS = st.sampled_from(
    ["{", "}", "(", ")", "[", "]", "<", ">", ";", ",", "=", "+=", "*", "/", "%", "&", "&&", "||", "?", ":", "::", ".", "+", "-", "--", "!", "~", "#", "\n", "#if", "#else", "#endif", "#define", "if", "else", "for", "while", "do", "switch", "case", "return", "int", "float", "half", "const", "__shared__", "__global__", "void", "template", "typename", "using", "typedef", "fragment", "wmma", "matrix_b", "row_major", "load_matrix_sync", "mma_sync", "store_matrix_sync", "fill_fragment", "__syncthreads()", "asm", '"cp.async.wait_group', '1;"', '"cp.async.cg.shared.global"', "threadIdx.x", "blockIdx", "k", "a", "b", "acc", "16", "0", "1.0f", "'c'", '"', "/*", "//", "\\", "expf", "fmaxf", "__shfl_xor_sync", "reinterpret_cast", "static_cast", "struct", "operator", "0x", "1e+", "¬", "é", "\x00", "1'000"]
)  # fmt: skip
FRAGMENT = "wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;"


@settings(max_examples=150, deadline=None)
@given(st.lists(WORDS, max_size=60), st.booleans())
@example(["if", "*", "reinterpret_cast"], False)
def test_token_soup_never_raises(words: list[str], inside: bool):
    text = " ".join(words)
    if inside:
        text = f"__global__ void k(half* a, float acc, int n) {{ {FRAGMENT} {text} }}"
    check(text)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([FLASH, GEMM]), st.integers(0, 4000), st.integers(0, 60), st.text("{}()[];<>\"'#\n\\ ", max_size=3)
)
def test_damaged_kernels_never_raise(source: str, at: int, length: int, put: str):
    check(source[:at] + put + source[at + length :], every=23)


@pytest.mark.parametrize("text", ["", "\n", "{" * 3000, "(" * 3000, "#if", "/*", '"', "if (" * 500, "x ? " * 300])
def test_extremes_never_raise(text: str):
    check(text)
    check(f"__global__ void k() {{ {text}")


def check(text: str, every: int = 1) -> None:
    model = read_source(text)
    for edit in edits(model, lines=range(1, len(model.lines) + 1))[::every]:
        assert 1 <= edit.line <= len(model.lines)
        assert 0 <= edit.rank <= 1
        assert apply(text, edit) != text


def test_enumerators_are_constants():
    text = "enum { BM = 128, LD = BM + 8, NEXT };\nenum class Kind : int { none, some = 4 };\n"
    text += "__global__ void k(float* C) { __shared__ float s[LD]; C[0] = s[NEXT]; }"
    model = read_source(text)
    known = {name: model.constants[name] for name in ("BM", "LD", "NEXT", "none", "some")}
    assert known == {"BM": 128, "LD": 136, "NEXT": 137, "none": 0, "some": 4}
    assert next(v.sizes for v in model.variables if v.name == "s") == (136,)
    twice = read_source("enum A { X = 1 }; enum B { X = 2 };\n__global__ void k(float* C) { C[0] = X; }")
    assert "X" not in twice.constants


def test_members_of_structs_are_arrays():
    text = """__global__ void k(half* out) {
        __shared__ union S { struct { half a[16][72]; half b[16][40]; } in; float c[16][20]; int n; } s;
        extern __shared__ char raw[];
        S* other = reinterpret_cast<S*>(raw);
        auto twice = [&](int x) { int inside[2] = {x, x}; return inside[0]; };
        wmma::load_matrix_sync(f, &s.in.b[0][0], 72);
        wmma::load_matrix_sync(g, &other->in.a[0][0], 40);
    }"""
    model = read_source(text)
    found = {v.name: (v.sizes, v.pitch.text) for v in model.variables if len(v.dims) == 2}
    assert found == {"a": ((16, 72), "72"), "b": ((16, 40), "40"), "c": ((16, 20), "20")}
    assert not any(v.name == "n" for v in model.variables)
    first = [edit.summary for edit in edits(model, hypotheses=("leading-dimension",), lines=(6,))]
    assert first[0] == "pass 40 as the leading dimension (the pitch of b)"
    first = [edit.summary for edit in edits(model, hypotheses=("leading-dimension",), lines=(7,))]
    assert first[0] == "pass 72 as the leading dimension (the pitch of a)"
