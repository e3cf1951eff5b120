"""Extended lambdas as classes: what they capture, and what cannot be one."""

from __future__ import annotations

import pytest

from wmmadiag.csource.edits import applied
from wmmadiag.csource.lambdas import Functor, appended, functors, opening_edits
from wmmadiag.csource.tree import parse


def only(text: str) -> Functor | None:
    found = list(functors(parse(text, "a.cu")))
    return found[0] if found else None


def test_captures_are_the_variables_of_the_function_that_the_body_uses() -> None:
    one = only(
        "float scale;\n"
        "template <class T, int N = 4>\n"
        "void f(T* out, int n, int unused) {\n"
        "  constexpr int M = N + 1; using index = int;\n"
        "  run(n, [=] __device__ (index i) { float t = n; { int out2 = M; t += out2; } out[i] = t * scale; });\n"
        "}\n"
    )
    assert one is not None
    assert [name for name, _ in one.captures] == ["n", "out"]
    assert one.given == ("T", "N")
    assert "static constexpr int M = N + 1;" in one.head and "using index = int;" in one.head
    assert one.head.startswith("template <class wmmadiag_0, class wmmadiag_1, class T, int N> struct ")
    assert one.head.rstrip().endswith("__device__ auto operator()(index i) const")
    assert one.device_only
    assert one.made().count("decltype(") == 2


def test_initialised_captures_generic_parameters_and_mutable() -> None:
    one = only(
        "void f(int n) { run([a = n + 1, n] __host__ __device__ (auto x) mutable -> int { return a += x + n; }); }"
    )
    assert one is not None and not one.device_only
    assert one.captures == (("a", "n + 1"), ("n", "n"))
    assert "template <class wmmadiag_any_1> " in one.head
    assert one.head.rstrip().endswith("auto operator()(wmmadiag_any_1 x) -> int")


@pytest.mark.parametrize(
    "text",
    [
        "void f(int n) { run([&] __device__ (int i) { g(n); }); }",
        "void f(int n) { run([&n] __device__ (int i) { g(n); }); }",
        "void S::f() { run([this] __device__ (int i) { g(this->n); }); }",
        "struct S { int n; void f() { run([] __device__ (int i) { g(this->n); }); } };",
        "void f(int n) { run([=](int i) { g(n); }); }",
        "void f() { struct P { int x; }; run([=] __device__ (int i) { P p; g(p.x); }); }",
    ],
)
def test_what_has_no_class(text: str) -> None:
    assert only(text) is None


MEMBERS = """
struct Base { protected: int shift; };
template <class T> class Field : Base, protected Other<T> {
  T* data; int size(int k) const;
  template <int K> T power(T) const;
public:
  static constexpr int width = 4;
  void inside();
};
template <class T> void Field<T>::inside() {
  int n = 1;
  run(CAPTURES __device__ (int i) {
    int size2 = n; T local = data[i + width];
    g(this->data, size(i) + shift, power<2>(local), other.data, size2, [&](int k) { return data[k]; });
  });
}
"""


@pytest.mark.parametrize(
    ("captures", "way", "this"),
    [("[=]", "->", "this"), ("[=, this]", "->", "this"), ("[n, this]", "->", "this"), ("[=, *this]", ".", "*this")],
)
def test_members_are_the_captured_objects(captures: str, way: str, this: str) -> None:
    source = parse(MEMBERS.replace("CAPTURES", captures), "a.cu")
    (one,) = functors(source)
    assert one.captures == (("n", "n"), ("wmmadiag_self", this))
    own = f"wmmadiag_self{way}"
    address = "(&wmmadiag_self)" if this == "*this" else "wmmadiag_self"
    text = " ".join(one.text(source).split())
    assert f"int size2 = n; T local = {own}data[i + {own}width];" in text.replace(f"{own}width", f"{own}width")
    assert f"g({address}->data, {own}size(i) + {own}shift, {own}template power<2>(local), other.data, size2," in text
    assert f"return {own}data[k];" in text
    opened = applied(source.data, opening_edits(source)).decode()
    assert "{ public: public: int shift; }" in opened
    assert "class Field : public Base, public Other<T> { public:" in opened


def test_classes_stand_at_their_own_lines_in_their_namespaces() -> None:
    text = "namespace a { namespace {\nvoid f(int n) {\n  run([=] __device__ (int i) {\n    g(n); });\n}\n} }\n"
    source = parse(text, "a.cu")
    (one,) = functors(source)
    made = appended(source, "a.cu", {one.name}).decode()
    assert "namespace a { namespace { extern" in made
    assert '#line 3 "a.cu"' in made
    assert made.endswith('#line 8 "a.cu"\n')
    assert appended(source, "a.cu", {"wmmadiag_lambda_00000000"}) == b""
