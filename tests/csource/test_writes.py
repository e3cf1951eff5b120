"""What code may write: by assignment, through calls, pointers and inline assembly."""

from __future__ import annotations

import pytest

from wmmadiag.csource.declarations import declarations
from wmmadiag.csource.nodes import called, descendants
from wmmadiag.csource.tree import parse
from wmmadiag.csource.writes import writes

FUNCTIONS = """
__device__ void fill(float* to, const float* from, int n, float& last) { to[0] = from[0]; }
__device__ void pack(half (&out)[4], const half (&in)[4]) {}
"""


def written(statement: str) -> list[tuple[str, bool]]:
    """(name, whole) of all that a statement writes."""
    source = parse(f"{FUNCTIONS}__global__ void k() {{ {statement} }}")
    functions = declarations(source).functions
    body = functions[-1].body
    assert body is not None
    known = {one.name: [one] for one in functions[:-1]}
    return [(source.text(one.name), one.whole) for one in writes(body, known)]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("x = y;", [("x", True)]),
        ("x += s[i];", [("x", True)]),
        ("++(x);", [("x", True)]),
        ("s[i][j + 1] = x;", [("s", False)]),
        ("p->at.x = 1;", [("p", False)]),
        ("*(p + i) = x;", [("p", False)]),
        ("*(4 + p) = x;", [("p", False)]),
        ("reinterpret_cast<float4*>(&s[i])[0] = v;", [("s", False)]),
        ("((float4*)p)[i] = v;", [("p", False)]),
        ("FETCH_FLOAT4(s[i]) = v;", [("s", False)]),
        ("v.data()[2] = x;", [("v", False)]),
        ("int* q = &x;", [("x", True)]),
    ],
)
def test_places_that_are_assigned_to(statement, expected):
    assert written(statement) == expected


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("fill(a, b, n, c);", {"a", "c"}),
        ("pack(x, y);", {"x"}),
        ("wmma::load_matrix_sync(f[i], &s[r * LD], LD);", {"f"}),
        ("wmma::store_matrix_sync(s + r, f, LD, wmma::mem_row_major);", {"s"}),
        ("nvcuda::wmma::mma_sync(d, a, b, c);", {"d"}),
        ("const int old = atomicAdd(&count[i], by);", {"count"}),
        ("unknown(a, n + 1, s[i]);", {"a", "n", "s"}),  # it is there for what it writes
        ("x = unknown(a, &b);", {"x", "b"}),  # and this one for what it gives
        ("x = max(a, b) + static_cast<int>(c);", {"x"}),
        ("pipe.commit(stage);", {"pipe", "stage"}),
        ('asm volatile("x" : "=r"(a), "+f"(d[1]) : "r"(b), "l"(p) : "memory");', {"a", "d"}),
        ("auto copy = [&](int i) { s[i] = g[i]; };", {"s"}),
        ("if (x == y && !z) return;", set()),
    ],
)
def test_what_calls_and_assembly_may_write(statement, names):
    assert {name for name, _ in written(statement)} == names


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("f(1)", "f"), ("a::b::f(1)", "f"), ("f<int, 2>(1)", "f"), ("a::f<2>(1)", "f"), ("x.f(1)", "f"),
        ("x.f<3>()", "f"), ("p->f()", "f"), ("unsigned(3)", "unsigned"), ("static_cast<int>(x)", "static_cast"),
        ("(*table[2])(1)", ""),
    ],
)  # fmt: skip
def test_the_name_of_what_is_called(call, name):
    source = parse(f"void k() {{ auto y = {call}; }}")
    assert called(next(descendants(source.root, "call_expression"))) == name


def test_a_namesake_without_parameters_takes_no_argument():
    source = parse("struct S { __device__ float sum(); };\n__global__ void k(float* x) { sum(x); }")
    functions = declarations(source).functions
    known = {"sum": [one for one in functions if one.name == "sum"]}
    body = functions[-1].body
    assert body is not None and not known["sum"][0].parameters
    assert list(writes(body, known)) == []
