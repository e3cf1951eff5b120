"""Types and scopes, told from the text."""

from __future__ import annotations

import pytest

from wmmadiag.csource.declarations import declarations, local_aliases
from wmmadiag.csource.nodes import descendants
from wmmadiag.csource.scopes import Scopes
from wmmadiag.csource.tree import parse
from wmmadiag.csource.types import Type, Types

CODE = """
using half_t = half;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> FragB;
typedef struct { int rows, columns; } Extents;
struct Params { const half* q; int n; float scale; half2 pair; };
template <int BM> struct Tile { static constexpr int pitch = BM + 8; };
template <typename T> __global__ void k(const T* p, Params args, half (*rows)[64]) {
    __shared__ float s[16][24];
    for (int i = 0, j = i; i < 4; ++i) { int i = j; s[i][j] = 0; }
    { int hidden = 1; }
    const int late = 2, later = late;
}
"""


@pytest.fixture(scope="module")
def types() -> Types:
    return Types([declarations(parse(CODE))], {})


@pytest.mark.parametrize(
    ("spelled", "kind"),
    [
        ("int", "integer"), ("const unsigned long long", "integer"), ("size_t", "integer"), ("std::int64_t", "integer"),
        ("unsigned char", "byte"), ("int8_t", "byte"), ("float", "float"), ("half_t", "half"),
        ("__nv_bfloat16", "half"), ("const half*", "pointer"), ("half &", "half"), ("FragB", "fragment"),
        ("uint4", "record"), ("Params", "record"), ("Extents", "record"),
        ("bool", "bool"), ("T", "named"), ("auto", "unknown"), ("void", "void"),
    ],
)  # fmt: skip
def test_spelled_types_are_told(types: Types, spelled: str, kind: str) -> None:
    assert types.read(spelled).kind == kind


def test_members_have_their_types(types: Types) -> None:
    params = types.read("Params")
    assert types.member(params, "q").of == Type("half", "half", constant=True)
    assert types.member(types.member(params, "pair"), "x").kind == "half"
    assert types.member(types.read("FragB"), "x").kind == "array"
    assert types.static_member("Tile<64>", "pitch").whole
    assert types.static_member("AnyTraits", "pitch").whole  # every record with such a member has it so
    assert types.static_member("AnyTraits", "unheard").kind == "unknown"


def test_what_may_stand_for_what(types: Types) -> None:
    read = types.read
    assert read("int").takes(read("const size_t")) and not read("int").takes(read("float"))
    assert read("const half*").takes(read("half*")) and not read("half*").takes(read("const half*"))
    assert not read("half").takes(read("__nv_bfloat16"))
    assert read("T").takes(read("T")) and not read("T").takes(read("U"))
    assert not read("auto").takes(read("auto"))


def test_an_alias_of_itself_is_unknown() -> None:
    loop = Types([declarations(parse("using A = B; using B = A;"))], {})
    assert loop.read("A").kind == "unknown"


def test_scopes_hold_what_is_declared_before_and_around() -> None:
    source = parse(CODE)
    scopes = Scopes(source)

    def names(text: str, after: str = "") -> set[str]:
        begin = CODE.index(after) if after else 0
        return set(scopes.at(CODE.index(text, begin)))

    assert {"p", "args", "rows"} <= names("__shared__")
    assert "s" not in names("__shared__") and "s" in names("for (int")
    assert "hidden" not in names("const int late")
    assert "late" in names("late;", "const int late") and "later" not in names("late;", "const int late")
    assert "i" not in names("{ int hidden")


def test_an_inner_variable_hides_an_outer_one() -> None:
    source = parse(CODE)
    use = next(node for node in descendants(source.root, "subscript_expression") if source.text(node) == "s[i][j]")
    found = Scopes(source).at(use.start_byte)["i"]
    assert source.text(found.declarator) == "i = j"


def test_a_record_that_only_its_alias_names_has_members(types: Types) -> None:
    assert types.member(types.read("const Extents"), "columns").kind == "integer"
    assert types.member(types.read("Extents"), "pitch").kind == "unknown"


def test_members_of_unions_and_structs_without_a_name_have_types() -> None:
    text = """template <typename C> struct Shared {
        union { struct { float x[4]; int w; } main; half out[8]; };
        struct Inner { int q; } inner;
        struct Unused { int lost; };
    };"""
    types = Types([declarations(parse(text))], {})
    shared = types.read("Shared<C>")
    kinds = {name: types.member(shared, name).kind for name in ("main", "out", "inner", "lost", "x")}
    assert kinds == {"main": "record", "out": "array", "inner": "record", "lost": "unknown", "x": "unknown"}
    assert types.member(types.member(shared, "main"), "x").of == Type("float", "float")
    assert types.member(types.member(shared, "inner"), "q").whole


def test_types_that_a_function_names() -> None:
    source = parse("""
    struct Tile { int pitch; };
    __global__ void k() { using Held = Tile; typedef float real; { using Twice = int; } }
    __device__ void f() { using Twice = float; }
    """)
    named = local_aliases(source)
    assert named == {"Held": "Tile", "real": "float"}  # Twice means two things
    assert Types([declarations(source)], named).read("Held") == Type("record", "Tile")
