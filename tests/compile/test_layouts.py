"""Classes that are passed by value lie where the compiler puts them: every offset as g++ has it."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from wmmadiag.compile.ask.answers import Unanswered
from wmmadiag.compile.ask.layout import ClassLayout, layouts
from wmmadiag.compile.ask.questions import AskedSource, ParameterType, TypeOf
from wmmadiag.compile.toolchain import toolchain

STRUCTS = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <stdint.h>
enum Plain { ONE, TWO };
enum class Small : unsigned char { A, B };
namespace deep {
inline namespace v2 {
struct Strides { int64_t row, col; };
}
template <class T, int N> struct Vec { T data[N]; static constexpr int n = N; T* next; };
}  // namespace deep
struct Empty {};
struct Nested {
  deep::Strides a; struct Inner { char c; double d; } inner; struct { short m, n; } size; deep::Vec<half, 3> v;
};
struct Unions {
  int tag; union { float f; double d; struct { int lo, hi; }; }; union Other { char c[5]; short s; } other;
};
struct Arrays { deep::Strides grid[2][3]; half x[8]; const half* rows[4]; uint4 packed[2]; half2 pair; };
class Base0 { int q; char c; };
struct Base1 { float z; };
class Derived : public Empty, private Base0, public Base1 { bool flag; protected: long hidden; };
struct TailPadding : Derived { char reused; };
struct alignas(32) Aligned { char c; alignas(16) int x; __align__(8) short y; };
struct Pointers {
  float** pp; const int* const* const cpp; void* p; const half* __restrict__ q; half (*rows)[8]; void (*f)(int);
};
struct Enums { Plain p; Small s; bool b; enum Own : short { X } own; enum class Wide : uint64_t { Y } wide; };
template <class T> struct Traits {
  using Element = T; struct Params { Element alpha; const Element* x; typename deep::Vec<T, 2> v; };
};
template <class Tr> struct Dependent { typename Tr::Params params; typename Tr::Element beta = 1; int n{3}; };
struct Empties { Empty e; int x; Empty f[2]; char c; };
struct Half { __half h; __nv_bfloat16 b; float4 v; double2 d; char3 c3; dim3 grid; };
#ifdef NOT_DEFINED
struct Choice { int a; double never; };
#else
struct Choice { int a; char sometimes; };
#endif
struct Macros { int a;
#if defined(NOT_DEFINED)
  double b;
#else
  float b;
#endif
  long c; };
typedef struct { int m; char t; } Typedefed;
typedef struct Tagged { double d; char t; } Tagged_t;
"""
NAMES = (
    "Nested", "Unions", "Arrays", "Derived", "TailPadding", "Aligned", "Pointers", "Enums",
    "Traits<half>::Params", "Dependent<Traits<float>>", "Empties", "Half", "Choice", "Macros", "deep::Vec<Nested, 2>",
    "Typedefed", "Tagged_t",
)  # fmt: skip


def laid_out(text, *names):
    """Layouts of the parameters of a kernel that takes these types by value."""
    listed = ", ".join(f"{name} p{index}" for index, name in enumerate(names))
    source = f"{text}\n__global__ void k({listed}) {{}}\n"
    roots = [ParameterType("k", index) for index in range(len(names))]
    found = layouts(AskedSource(source, "k.cu"), roots, dict(zip(roots, names, strict=True)))
    return [found[root] for root in roots]


def by_host_compiler(text, layouts_of, folder):
    """(size, alignment, offset of each path) of the same types, by g++ with its access checks off."""
    lines = ["#include <cstdio>", "#include <cstddef>", "#include <cstring>", text, "int main() {"]
    for index, (written_name, layout) in enumerate(layouts_of.items()):
        name = f"Type{index}"
        lines.append(f"using {name} = {written_name};")
        lines.append(f'std::printf("%zu %zu", sizeof({name}), alignof({name}));')
        for leaf in layout.leaves():
            lines.append(f'std::printf(" %zu", offsetof({name}, {leaf.path}));')
        lines.append('std::printf("\\n");')
    source = folder / "host.cpp"
    source.write_text("\n".join([*lines, "}"]))
    program = folder / "host"
    flags = [f"-I{one}" for one in toolchain().includes]
    command = ["g++", "-std=c++17", "-w", "-fno-access-control", *flags, str(source), "-o", str(program)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    told = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    return [[int(one) for one in line.split()] for line in told.splitlines()]


@pytest.mark.skipif(shutil.which("g++") is None, reason="no host compiler")
def test_every_offset_is_the_host_compilers(tmp_path):
    found = dict(zip(NAMES, laid_out(STRUCTS, *NAMES), strict=True))
    refused = {name: one for name, one in found.items() if isinstance(one, Unanswered)}
    assert not refused
    told = by_host_compiler(STRUCTS, found, tmp_path)
    for (name, layout), (size, align, *offsets) in zip(found.items(), told, strict=True):
        assert (layout.size, layout.align) == (size, align), name
        places = [leaf.offset for leaf in layout.leaves()]
        assert places == offsets, name
        assert layout.leaves(), name


def leaf(layout, path):
    return next(one for one in layout.leaves() if one.path == path)


def test_leaves_say_what_they_are():
    half, unions, enums, dependent, arrays = laid_out(
        STRUCTS, "Half", "Unions", "Enums", "Dependent<Traits<float>>", "Arrays"
    )
    assert [(one.path, one.dtype) for one in half.leaves()][:4] == [
        ("h", "f16"),
        ("b", "bf16"),
        ("v.x", "f32"),
        ("v.y", "f32"),
    ]
    assert leaf(half, "grid.z").dtype == "u32"
    assert not leaf(unions, "f").alternative and leaf(unions, "d").alternative
    assert (leaf(enums, "s").dtype, leaf(enums, "own").dtype, leaf(enums, "b").dtype) == ("u8", "s16", "bool")
    assert (leaf(dependent, "params.x").dtype, leaf(dependent, "params.x").facts.target) == (None, "float")
    rows = leaf(arrays, "rows[3]")
    assert (rows.size, rows.facts.depth, rows.facts.const, rows.facts.target) == (8, 1, True, "__half")


REFUSED = {
    "struct R { int a; float& r; };": r"'r'.*reference|pointer to (?:member|reference)",
    "struct V { int a; __device__ virtual void f() {} };": "virtual functions",
    "struct B { int a; }; struct W : virtual B { int c; };": "virtual",
    "#define MORE int more[4];\nstruct H { int a; MORE int c; };": "are of no member|MORE",
    "#define HIDDEN(x) int x\nstruct H { int a; HIDDEN(b); int c; };": "HIDDEN|are of no member",
    "struct P { int a; private: unsigned f : 3; };": "'f' is a bit-field of 'P'",
    "union U { unsigned f : 3; float x; }; struct O { int a; U u; };": "its member 'u'.*'f' is a bit-field of 'U'",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_laid_out_is_refused_by_name(text):
    name = re.findall(r"struct (\w+)", text)[-1]
    (found,) = laid_out(text, name)
    assert isinstance(found, Unanswered)
    assert re.search(REFUSED[text], found.reason), found.reason


def test_one_refused_class_spoils_no_other():
    good, bad, pointer = laid_out("struct G { int a; };\nstruct R { int& r; };", "G", "R", "float*")
    assert isinstance(good, ClassLayout)
    assert isinstance(bad, Unanswered)
    assert "no class" in pointer.reason


@pytest.mark.slow
def test_classes_of_whole_headers_and_templates_of_the_toolkit():
    text = "#include <cuda/std/array>\nstruct A { cuda::std::array<short, 3> a; int n; };"
    (found,) = laid_out(text, "A")
    assert isinstance(found, ClassLayout), found
    assert [one.offset for one in found.leaves()] == [0, 2, 4, 8]


def test_specialisations_each_have_their_own_members():
    text = """
    template <class T> struct S { T a; };
    template <> struct S<int> { char before; int b; };
    template <class T> struct S<T*> { int n; T* p; };
    """
    plain, whole, pointer = laid_out(text, "S<float>", "S<int>", "S<float*>")
    assert [one.path for one in plain.leaves()] == ["a"]
    assert [(one.path, one.offset) for one in whole.leaves()] == [("before", 0), ("b", 4)]
    assert [(one.path, one.offset) for one in pointer.leaves()] == [("n", 0), ("p", 8)]


def test_a_type_is_a_root_too():
    root = TypeOf("typename Traits<half>::Params")
    found = layouts(AskedSource(f"{STRUCTS}\n__global__ void k() {{}}\n", "k.cu"), [root])[root]
    assert [one.path for one in found.leaves()] == ["alpha", "x", "v.data[0]", "v.data[1]", "v.next"]


_SCALARS = ("signed char", "unsigned short", "int", "float", "double", "unsigned long long", "bool", "float*", "half2")


def _members(inner):
    scalar = st.tuples(st.just("scalar"), st.sampled_from(_SCALARS), st.lists(st.integers(1, 3), max_size=2))
    several = st.tuples(st.just("class"), inner, st.lists(st.integers(1, 2), max_size=1))
    return st.lists(st.one_of(scalar, several), min_size=1, max_size=4)


def _drawn(inner):
    return st.sampled_from(["struct", "union"]).flatmap(lambda kind: st.tuples(st.just(kind), _members(inner)))


_CLASSES = st.recursive(_drawn(st.nothing()), _drawn, max_leaves=6)


def written(drawn, name):
    """C++ text of a drawn class, those in it first; a struct in it is its base class at times."""
    kind, members = drawn
    before, lines, bases = [], [], []
    for index, (what, type_, extra) in enumerate(members):
        if what == "class":
            before.append(written(type_, f"{name}_{index}"))
            if kind == "struct" and type_[0] == "struct" and not extra:
                bases.append(f"{name}_{index}")
                continue
            type_ = f"{name}_{index}"
        lines.append(f"{type_} n{index}{''.join(f'[{one}]' for one in extra)};")
    head = f"{kind} {name}{' : ' if bases else ''}{', '.join(bases)}"
    # Members of base classes are told apart by the names of their classes.
    return "\n".join([*before, f"{head} {{ {' '.join(lines)} }};"]).replace(" n", f" n{name}")


@pytest.mark.skipif(shutil.which("g++") is None, reason="no host compiler")
@settings(max_examples=8, suppress_health_check=list(HealthCheck), deadline=None, phases=[Phase.generate])
@given(st.lists(_CLASSES, min_size=4, max_size=8))
@pytest.mark.slow
def test_drawn_classes_lie_where_the_host_compiler_puts_them(tmp_path_factory, drawn):
    names = [f"C{index}" for index in range(len(drawn))]
    text = "#include <cuda_fp16.h>\n" + "\n".join(map(written, drawn, names))
    found = dict(zip(names, laid_out(text, *names), strict=True))
    assert not [one.reason for one in found.values() if isinstance(one, Unanswered)], text
    told = by_host_compiler(text, found, tmp_path_factory.mktemp("drawn"))
    for (name, layout), (size, align, *offsets) in zip(found.items(), told, strict=True):
        places = [leaf.offset for leaf in layout.leaves()]
        assert (layout.size, layout.align, places) == (size, align, offsets), (name, text)
