"""The compiler is asked for what only it knows, and its answers are exact; one bad question spoils no other."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wmmadiag.compile.ask.answers import Constant, Unanswered
from wmmadiag.compile.ask.asking import ask
from wmmadiag.compile.ask.questions import AskedSource, Parameters, TypeOf, ValueOf
from wmmadiag.compile.ask.scope import scope_at
from wmmadiag.compile.options import CompileOptions
from wmmadiag.csource.nodes import descendants
from wmmadiag.csource.tree import parse
from wmmadiag.errors import CompileError

SOURCE = """\
#include <cuda_fp16.h>
#include <iostream>
enum class Mode : signed char { A = -3, B = 7 };
namespace a {
inline namespace v {
template <int D, class T = half> struct Tr {
  static constexpr int N = D * 2;
  template <class U> __device__ int run(int z) {
    constexpr int M = N / 2;
    using V = T;
    static constexpr int Q = 3;
    enum { E = 5 };
    for (int i = 0; i < M; ++i) {
      const int w = M + Q, u = z;
      { constexpr int M = 100; z += M; }
      return w;
    }
    return u0(z);
  }
};
}  // namespace v
namespace {
constexpr int hidden = 9;
struct P { half* q[4]; const float* const* pp; private: int z; };
}  // namespace
}  // namespace a
template <class T> struct Bad { static_assert(sizeof(T) == 3, "no such size"); static constexpr int n = 1; };
template <int BM, class T, int PAD = BM / 8>
__global__ void k(const T* q, T* __restrict__ o, const int n, a::P p, float4 v, Mode m, bool b = true) {
  extern __shared__ char raw[];
  __shared__ T s[BM][BM + PAD];
  const int t = threadIdx.x;
  o[t] = s[t][q[0] > o[1]];
}
static __global__ void over(float* x) { x[0] = 1; }
static __global__ void over(double* x, int n) { x[0] = 1; }
extern "C" __global__ void plain() {}
void host() {
  int M = 512, N = 256;
  const unsigned BM{64U};
  N = 4;
  k<64, half><<<M / BM, 128>>>();
  std::cout << M;
}
"""
FILE = AskedSource(SOURCE, "k.cu")


@pytest.mark.parametrize(
    ("expression", "value", "type_", "kind", "size"),
    [
        ("-3ll", -3, "long long", "int", 8),
        ("~0ull", 2**64 - 1, "unsigned long long", "uint", 8),
        ("(short)-2", -2, "short", "int", 2),
        ("Mode::A", -3, "Mode", "int", 1),
        ("'a'", 97, "char", "int", 1),
        ("1 < 2", True, "bool", "bool", 1),
        ("1.5f", 1.5, "float", "float", 4),
        ("0.1", 0.1, "double", "float", 8),
        ("sizeof(a::P)", 48, "unsigned long", "uint", 8),
        ("__builtin_offsetof(a::P, pp)", 32, "unsigned long", "uint", 8),
        ("a::Tr<64>::N", 128, "int", "int", 4),
        ("a::hidden << 3", 72, "int", "int", 4),
    ],
)
def test_a_constant_has_its_value_and_type(expression, value, type_, kind, size):
    question = ValueOf(expression)
    answer = ask(FILE, [question])[question]
    assert isinstance(answer, Constant)
    assert (answer.value, answer.type, answer.kind, answer.size) == (value, type_, kind, size)
    assert type(answer.value) is type(value)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("nothing + 1", 'identifier "nothing" is undefined'),
        ("clock()", 'cannot call non-constexpr function "clock"'),
        ("1 / 0", "division by zero"),
        ("Bad<int>::n", 'k.cu:27:.*static assertion failed with "no such size"'),
        ("a::P{}", "not the value of a number, a truth value or an enumerator"),
        ("1; } int x {0", "is no expression"),
        ("1) + (2", "do not pair"),
        ("sizeof(int)\n#error", "is no expression"),
        ("", "nothing was asked"),
        ("wmmadiag_answer_0", "is no expression"),
    ],
)
def test_what_has_no_value_says_why(expression, reason):
    question, other = ValueOf(expression), ValueOf("40 + 2")
    answers = ask(FILE, [question, other])
    assert answers[other].value == 42
    assert isinstance(answers[question], Unanswered)
    import re

    assert re.search(reason, answers[question].reason)


def _at(source, kind, text):
    return next(one for one in descendants(source.root, kind) if source.text(one).startswith(text))


def test_the_scope_of_a_template_member_is_the_compilers():
    source = parse(SOURCE, "k.cu")
    node = _at(source, "return_statement", "return w")
    bindings = {"D": "16", "T": "float"}

    def asked(expression, **more):
        return ValueOf(expression, scope_at(source, node, expression, {**bindings, **more}))

    questions = {
        asked("w * sizeof(V) * E"): 19 * 4 * 5,
        asked("hidden + w"): 28,
        asked("M"): 16,  # not the one of the inner block, which has ended
        asked("N"): 32,
        asked("sizeof(U)", U="double2"): 16,
    }
    answers = ask(FILE, list(questions))
    assert [answers[one].value for one in questions] == list(questions.values())
    unknown, unbound = asked("u"), asked("sizeof(U)")
    answers = ask(FILE, [unknown, unbound])
    assert 'identifier "z" is undefined' in answers[unknown].reason
    assert 'identifier "U" is undefined' in answers[unbound].reason


def test_types_of_expressions_in_an_instantiation():
    source = parse(SOURCE, "k.cu")
    node = _at(source, "assignment_expression", "o[t] =")

    def asked(expression):
        scope = scope_at(source, node, expression, {"BM": "64", "T": "half"}, every=True)
        return TypeOf(expression, scope, expression=True)

    array, element, raw, pointer = map(asked, ("s", "s[t][q[0] > o[1]]", "raw", "o"))
    answers = ask(FILE, [array, element, raw, pointer])
    assert (answers[array].extents, answers[array].target, answers[array].size) == ((64, 72), "__half", 64 * 72 * 2)
    assert (answers[element].type, answers[element].size) == ("__half", 2)
    assert (answers[raw].extents, answers[raw].target) == ((0,), "char")
    assert (answers[pointer].type, answers[pointer].depth, answers[pointer].const) == ("__half *", 1, False)


def test_host_locals_are_values_where_nothing_changes_them():
    source = parse(SOURCE, "k.cu")
    node = _at(source, "call_expression", "k<64")

    def asked(expression, unchanged):
        return ValueOf(expression, scope_at(source, node, expression, unchanged=unchanged))

    kept, changed, constant = asked("M / BM", True), asked("N", True), asked("M / BM", False)
    answers = ask(FILE, [kept, changed, constant])
    assert answers[kept].value == 8
    assert isinstance(answers[changed], Unanswered)
    assert isinstance(answers[constant], Unanswered)


def test_parameters_of_an_instantiation_with_defaults_filled_in():
    question = Parameters("k<64, half>")
    q, o, n, p, v, m, b = ask(FILE, [question])[question].types
    assert (q.type, q.depth, q.const, q.target, q.size) == ("const __half *", 1, True, "__half", 8)
    assert (o.depth, o.const) == (1, False)
    assert (n.kind, n.size, n.type) == ("int", 4, "int")
    assert (p.kind, p.size, p.align, p.type) == ("class", 48, 8, "a::<unnamed>::P")
    assert (v.kind, v.lane, v.size, v.align) == ("class", "float", 16, 16)
    assert (m.kind, m.enum, m.size) == ("int", True, 1)
    assert (b.kind, b.type) == ("bool", "bool")


def test_overloads_are_told_apart_by_their_types():
    alone, chosen, plain = Parameters("over"), Parameters("over", "double*, int"), Parameters("plain")
    answers = ask(FILE, [alone, chosen, plain])
    assert "overloaded" in answers[alone].reason
    assert [one.type for one in answers[chosen].types] == ["double *", "int"]
    assert answers[plain].types == ()


def test_pointers_arrays_and_their_qualifiers():
    question = TypeOf("const float* const* volatile [3][2]")
    answer = ask(FILE, [question])[question]
    assert (answer.extents, answer.depth, answer.target, answer.const) == ((3, 2), 2, "float", True)
    assert (answer.kind, answer.size) == ("array", 48)


def test_a_source_that_does_not_compile_is_the_sources_error():
    with pytest.raises(CompileError, match="nothing"):
        ask(AskedSource("__global__ void k() { nothing(); }", "k.cu"), [ValueOf("1")])


def test_answers_are_kept(monkeypatch):
    source = AskedSource("constexpr int n = 3; __global__ void k() {}", "kept.cu")
    first = ask(source, [ValueOf("n"), ValueOf("unknown")])
    monkeypatch.setattr("wmmadiag.compile.ask.asking.build", None)
    assert ask(source, [ValueOf("n"), ValueOf("unknown")]) == first
    with pytest.raises(TypeError):
        ask(AskedSource("constexpr int n = 4; __global__ void k() {}", "kept.cu"), [ValueOf("n")])


def test_macros_and_standards_of_the_options_count():
    options = CompileOptions(macros={"TILE": "24"}, std="c++14")
    question = ValueOf("TILE * 2")
    assert ask(AskedSource("__global__ void k() {}", "k.cu", options), [question])[question].value == 48


_TYPES = {"signed char": 8, "short": 16, "int": 32, "long long": 64}


@settings(max_examples=5, suppress_health_check=list(HealthCheck), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(sorted(_TYPES)), st.booleans(), st.integers(-(2**63), 2**63 - 1)), min_size=20),
    st.lists(st.floats(), min_size=20),
)
def test_numbers_come_back_bit_for_bit(integers, floats):
    wanted = {}
    for type_, unsigned, number in integers:
        bits = _TYPES[type_]
        name = {"signed char": "unsigned char"}.get(type_, f"unsigned {type_}") if unsigned else type_
        value = number % 2**bits
        value -= 2**bits if not unsigned and value >= 2 ** (bits - 1) else 0
        wanted[ValueOf(f"({name})({number % 2**64}ull)")] = value
    for number in floats:
        if math.isfinite(number):
            wanted[ValueOf(number.hex() if number >= 0 else f"-{(-number).hex()}")] = number
    answers = ask(FILE, list(wanted))
    for question, value in wanted.items():
        answer = answers[question]
        assert isinstance(answer, Constant), (question, answer)
        if isinstance(value, float):
            assert answer.bits == struct.unpack("<Q", struct.pack("<d", value))[0]
        else:
            assert answer.value == value
