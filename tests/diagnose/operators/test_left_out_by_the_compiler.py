"""Changes of what the compiler made something of: the overload that is called, the branch that is taken."""

from __future__ import annotations

import re

from wmmadiag.compile import ptx_scan
from wmmadiag.compile.driver import compile_text
from wmmadiag.compile.options import CompileOptions
from wmmadiag.diagnose.changes import applied
from wmmadiag.diagnose.operators.places import program
from wmmadiag.diagnose.operators.registry import changes

FILE = "k.cu"
SOURCE = """template <int N> struct Wide {
  __device__ static float twice(const float* x, int i) {
    return x[i * 2] + x[i * 3];
  }
};
template <> struct Wide<1> {
  __device__ static float twice(const float* x, int i) {
    return x[i] + x[i * 5];
  }
};
constexpr int pitch(int n) {
  return n + 7;
}
constexpr int pitch(int n, int m) {
  return n + m;
}
__device__ float alone(float v) {
  return v;
}
template <int N> __global__ void k(const float* x, float* out) {
  const int i = threadIdx.x;
  if constexpr (N > 1) {
    out[i] = alone(Wide<N>::twice(x, i)) * 17;
  } else {
    out[i * pitch(1)] = Wide<N>::twice(x, i) * 13;
  }
  if constexpr (N > 4) {
    out[i + 19] = 0;
  }
}
"""


def lines(entry: str) -> set[tuple[str, int]]:
    return ptx_scan.lines(compile_text(SOURCE, FILE, CompileOptions(name_expressions=(entry,))).ptx)


def changed_lines(entry: str, compiled: set[tuple[str, int]]) -> set[int]:
    """The lines that alone are changed by something."""
    texts = {FILE: SOURCE.encode()}
    made = changes(texts, entry, compiled=compiled)
    touched = ({SOURCE.count("\n", 0, edit.start) + 1 for edit in one.edits} for one in made)
    return {line for some in touched if len(some) == 1 for line in some}


def test_what_is_in_no_instantiation_is_not_changed() -> None:
    wide, narrow = changed_lines("k<2>", lines("k<2>")), changed_lines("k<1>", lines("k<1>"))
    assert {3, 23} <= wide and not {8, 25, 28} & wide
    assert {8, 25} <= narrow and not {3, 23, 28} & narrow
    # Where it is chosen, and what the compiler runs itself or is told by its name alone, stays.
    assert {22, 18} <= wide and {22, 12} <= narrow


def test_everything_is_changed_where_nothing_is_known_of_the_program() -> None:
    assert {3, 8, 23, 25, 28} <= changed_lines("k<2>", set())
    of_another_text = {(file, line + 1000) for file, line in lines("k<2>")} | {(FILE, 3)}
    assert {3, 8, 23, 25, 28} <= changed_lines("k<2>", of_another_text)


def test_what_the_compiler_must_know_is_compiled_as_a_text_of_its_own() -> None:
    made = list(changes({FILE: SOURCE.encode()}, "k<1>"))
    inside = re.compile(rb"(?<=if constexpr \()[^)]*")
    spans = [found.span() for found in inside.finditer(SOURCE.encode())]
    conditions = [one for one in made if any(first <= one.edits[0].start <= last for first, last in spans)]
    assert conditions and all(one.kind == "static" for one in conditions)


def test_functions_whose_values_the_compiler_must_know_are_fixed() -> None:
    source = SOURCE.replace("out[i * pitch(1)]", "float kept[pitch(2)]; kept[0] = 0; out[i + int(kept[0])]")
    held = program({FILE: source.encode()}, "k<1>")
    fixed = {body.name for body in held.bodies if body.function is not None and body.fixed}
    assert fixed == {"pitch"}
    texts = {FILE: source.encode()}
    of_it = [one for one in changes(texts, "k<1>") if b"n + 7" not in applied(texts, [one])[FILE]]
    assert of_it and all(one.kind == "static" for one in of_it)
