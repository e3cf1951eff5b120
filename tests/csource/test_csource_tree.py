"""The tree of every source of ours, and of sources that no compiler would take."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wmmadiag.csource.declarations import declarations
from wmmadiag.csource.edits import ByteEdit, applied
from wmmadiag.csource.lexical import macros
from wmmadiag.csource.nodes import at, descendants, walk
from wmmadiag.csource.scopes import Scopes
from wmmadiag.csource.tree import parse

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    path
    for folder in ("kernels", "probes", "tests", "benchmarks", "examples")
    for path in (ROOT / folder).rglob("*.cu")
)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_our_sources_have_no_error_node(path: Path) -> None:
    source = parse(path.read_bytes(), path.name)
    assert [source.place(node) for node in source.errors()] == []


def test_every_byte_belongs_to_a_node() -> None:
    for path in SOURCES[:40]:
        source = parse(path.read_bytes())
        covered = bytearray(len(source.data))
        for node in walk(source.root):
            if not node.children:
                covered[node.start_byte : node.end_byte] = b"\1" * (node.end_byte - node.start_byte)
        assert source.root.start_byte <= len(source.data) and source.root.end_byte <= len(source.data)
        # What no leaf covers is blank in the text that was parsed: blanks, attributes, macros that are specifiers.
        for node in walk(source.root):
            for one, following in zip(node.children, node.children[1:], strict=False):
                assert one.end_byte <= following.start_byte


@given(st.binary(max_size=300))
@settings(max_examples=150, deadline=None)
def test_any_bytes_parse_within_their_extent(data: bytes) -> None:
    source = parse(data)
    assert source.data == data
    declarations(source)
    assert all(0 <= node.start_byte <= node.end_byte <= len(data) for node in walk(source.root))


@given(st.text(alphabet="#if\n(){}[];<>\"'/*\\ ax,=template", max_size=200))
@settings(max_examples=200, deadline=None)
def test_nearly_code_parses(text: str) -> None:
    source = parse(text)
    declarations(source)
    for node in source.errors():
        source.place(node)


CODE = """#define HD __host__ __device__
#define TILE 16
namespace ns {
template <int BM, typename T = half>
struct Traits { static constexpr int kN = BM * 2; T x[4]; HD int f() const { return 1; } };
template <int BM, class T>
__global__ void __launch_bounds__(128, 2) attn(const T* __restrict__ q, half (*out)[64], Traits<BM, T> p, int n = 3) {
    __shared__ __align__(16) half s[BM][64 + 8];
    const int tid = threadIdx.x, row = tid / 4;
    #pragma unroll
    for (int i = 0; i < 4; ++i) s[row][i] = q[i * n + tid];
    { int hidden = 0; }
}
HD inline int f(int x) { return x; }
}
using half_t = half;
"""


def test_declarations_say_where_functions_run() -> None:
    found = declarations(parse(CODE))
    spaces = {one.qualified: (one.kernel, one.device, one.template is not None) for one in found.functions}
    assert spaces == {
        "ns::Traits::f": (False, True, False),
        "ns::attn": (True, True, True),
        "ns::f": (False, True, False),
    }
    attn = found.kernels()[0]
    assert [(one.name, one.type, one.pointers) for one in attn.parameters] == [
        ("q", "const T", 1),
        ("out", "half", 1),
        ("p", "Traits<BM, T>", 0),
        ("n", "int", 0),
    ]
    assert [(one.name, one.type, one.default) for one in attn.template or ()] == [
        ("BM", "int", ""),
        ("T", "typename", ""),
    ]
    assert [(one.name, one.constant) for one in found.records[0].members] == [("kN", True), ("x", False)]
    assert [(name, kind) for name, kind, _ in found.aliases] == [("half_t", "half")]


def test_what_a_place_sees() -> None:
    source = parse(CODE)
    read = next(
        node for node in descendants(source.root, "subscript_expression") if source.text(node) == "q[i * n + tid]"
    )
    seen = Scopes(source).at(read.start_byte)
    assert {"i", "tid", "row", "s", "q", "out", "p", "n", "BM"} <= set(seen)
    assert "hidden" not in seen
    assert seen["s"].shared and [source.text(one) for one in seen["s"].dimensions if one] == ["BM", "64 + 8"]


SPACES = """namespace cfg { constexpr int TM = 64; namespace in { constexpr int Q = 1; } }
namespace cfg { constexpr int TK = TM /*again*/; }
namespace { constexpr int OWN = 3; }
namespace short_name = cfg;
int /*outside*/ x;
__global__ void k(int* o) {
    using namespace short_name;
    int TM = 3;
    o[0] = TM + TK /*directive*/;
    { using cfg::in::Q; o[1] = Q /*declaration*/; }
    o[2] = OWN /*after*/;
}
"""


@pytest.mark.parametrize(
    ("mark", "seen", "unseen"),
    [
        ("again", {"TM"}, {"Q", "OWN"}),
        ("outside", {"OWN"}, {"TM", "TK", "Q"}),
        ("directive", {"TK", "TM", "OWN", "o"}, {"Q"}),
        ("declaration", {"TK", "Q"}, set()),
        ("after", {"TK", "OWN"}, {"Q"}),
    ],
)
def test_names_of_namespaces_are_seen_where_they_can_be_written(mark: str, seen: set[str], unseen: set[str]) -> None:
    found = Scopes(parse(SPACES)).at(SPACES.index(f"/*{mark}*/"))
    assert seen <= set(found) and not unseen & set(found)
    assert mark == "again" or "TM" not in seen or found["TM"].kind == "local", "what is declared hides what is imported"


def test_an_edit_on_a_node_is_an_edit_of_its_text() -> None:
    source = parse(CODE)
    node = at(source.root, CODE.index("64 + 8"), CODE.index("64 + 8") + 6)
    first, last = node.start_byte, node.end_byte
    changed = applied(source.data, [ByteEdit(first, last, "72"), ByteEdit(0, 0, "// é\n")])
    assert changed.decode() == "// é\n" + CODE.replace("64 + 8", "72")
    with pytest.raises(ValueError, match="overlap"):
        applied(source.data, [ByteEdit(first, last, "1"), ByteEdit(first + 1, last, "2")])


def test_an_error_spoils_its_neighbourhood_only() -> None:
    broken = CODE.replace("{ int hidden = 0; }", "int = ) ;")
    found = declarations(parse(broken))
    assert [one.qualified for one in found.functions] == ["ns::Traits::f", "ns::attn", "ns::f"]


def test_a_branch_that_cuts_through_a_construct_is_chosen_by_the_macros() -> None:
    text = "#define A 1\nvoid f() {\n#if A > 1\n  if (x) {\n#else\n  while (y) {\n#endif\n    g(); } }\n"
    source = parse(text)
    assert source.errors() == []
    assert [source.text(one)[:5] for one in descendants(source.root, "while_statement", "if_statement")] == ["while"]


LOOPS = """#define FOR_EACH(i, n) for (int i = threadIdx.x; i < (n); i += blockDim.x)
#define TYPED(t, i, n) for (t i = 0; i < n; ++i)
#define ALWAYS() for (;;)
#define EACH(i) for (int i = 0; i < 8; ++i)
__global__ void k(float* out, int n) {
    FOR_EACH(i, A * B * n) { out[i] = 0.0f; }
    TYPED(int, j, 4) out[j] = 1.0f;
    ALWAYS() { break; }
    EACH(e) { out[e] = 2.0f; }
}
"""


def test_a_macro_that_is_a_loops_head_is_read_as_one() -> None:
    source = parse(LOOPS.encode())
    assert source.errors() == []
    loops = list(descendants(source.root, "while_statement"))
    assert [source.text(node).split("(")[0] for node in loops] == ["FOR_EACH", "TYPED", "ALWAYS"]  # EACH is too short
    assert "A * B * n" in {source.text(node) for node in descendants(loops[0], "binary_expression")}


@pytest.mark.parametrize(
    "text",
    [
        "void CUDART_CB done(void* p) { }",
        "void* WINAPI done(void* p) { }",
        "cudaError_t CUDARTAPI A::done(void* p);",
        "typedef void (CUDART_CB *done)(void*);",
        "struct A { void* operator new[](size_t n) { return operator new(n); } };",
        "struct A { void operator delete[](void* p) { operator delete(p); } };",
        "void f(void* p) { if (p) ::operator delete[](p); else operator delete[](p); }",
        "void* f(int n) { char* p = (char*)operator new (n); return g(operator new[](n), n ? p : operator new(n)); }",
        "void* A::operator new(size_t n) { return malloc(n); }",
    ],
)
def test_calling_conventions_and_calls_of_operators_new_and_delete_are_read(text: str) -> None:
    assert parse(text).errors() == []


@pytest.mark.parametrize(
    "text", ["HD REAL f(REAL x) { }", "template <int N> REAL f(REAL x) { }", "static REAL f(REAL x);"]
)
def test_a_type_in_capitals_is_no_calling_convention(text: str) -> None:
    source = parse(text, macros=macros(b"#define HD __host__ __device__"))
    assert [source.text(one) for one in descendants(source.root, "type_identifier")] == ["REAL", "REAL"]


def test_an_operand_before_an_operator_in_letters_is_no_calling_convention() -> None:
    source = parse("bool f(int x) { return x & FLAG and (x & OTHER or (x)); }")
    assert source.errors() == []
    assert {"FLAG", "OTHER"} <= {source.text(one) for one in descendants(source.root, "identifier")}


def test_macros_keep_their_text_and_place() -> None:
    data = b"#define F(a, ...) \\\n  g(a /* c */, \\\n    __VA_ARGS__)\n#define N 4 // four\n"
    found = macros(data)
    assert found["F"].parameters == ("a", "...") and found["F"].body == "g(a , __VA_ARGS__)"
    assert found["N"].body == "4" and data[found["N"].body_start :].startswith(b"4")


@pytest.mark.slow
def test_two_megabytes_parse_in_linear_time() -> None:
    unit = b"\n".join(path.read_bytes() for path in SOURCES[:60])
    small, large = unit[:100_000], (unit * 20)[:2_000_000]
    began = time.process_time()
    parse(small)
    first = time.process_time() - began
    began = time.process_time()
    parse(large)
    assert time.process_time() - began < 20 * 4 * max(first, 0.02)


def test_a_text_on_one_line_has_neither_comments_nor_directives() -> None:
    text = b"for (;;) // all\n#pragma unroll\n  for (int i = 0;; ++i)\n    f(i);\n"
    assert parse(text, "k.cu").one_line(0, len(text)) == "for (;;) for (int i = 0;; ++i) f(i);"
