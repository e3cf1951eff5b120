"""Variables and what declares them."""

from __future__ import annotations

from wmmadiag.csource.declarations import declarations
from wmmadiag.csource.nodes import descendants
from wmmadiag.csource.tree import parse
from wmmadiag.csource.variables import declared, named_by


def test_what_a_declaration_gives_its_value_to() -> None:
    text = b"#define BK 32\nconstexpr int A = 3, B = 7;\nstruct S { static constexpr int N = 4; };\n"
    text += b"__device__ void f(int* p, int n) { const int w = n / 5; for (int i = 0; i < n; ++i) p[i + 6] = w; }\n"
    source = parse(text.decode(), "k.cu")
    found = {number: named_by(source, text.index(number)) for number in (b"32", b"3,", b"7", b"4", b"5", b"0", b"6")}
    assert found == {b"32": "BK", b"3,": "A", b"7": "B", b"4": "N", b"5": "w", b"0": "i", b"6": ""}


def test_what_is_constructed_of_names_alone_is_a_variable_and_a_prototype_is_none() -> None:
    text = "__global__ void k(int n) { Tile<4> t(a, n); int f(int); void g(); Tile<4> u(n + 1); }"
    source = parse(text, "k.cu")
    body = next(iter(descendants(source.root, "compound_statement")))
    found = [one for node in body.named_children for one in declared(source, node, "local")]
    assert [(one.name, source.text(one.value)) for one in found if one.value is not None] == [
        ("t", "(a, n)"),
        ("u", "(n + 1)"),
    ]
    assert [one.name for one in found] == ["t", "u"]


def test_void_alone_is_no_parameter() -> None:
    functions = declarations(parse("void f(void); __global__ void k(void) {} __global__ void p(void*, int) {}", "k.cu"))
    found = {one.name: [parameter.type for parameter in one.parameters] for one in functions.functions}
    assert found["k"] == [] and len(found["p"]) == 2
