from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmmadiag.compile import find_launches
from wmmadiag.compile.launch_macros import expand_launch_macros

TEXT = """\
#define BODY(D, ...) \\
  attn<D, true><<<grid, block>>>(__VA_ARGS__);
#define LAUNCH(stages, kernel, ...) { \\
  dim3 grid(n / (stages)), block(32 * stages); \\
  BODY(stages, q, __VA_ARGS__) }
void run(half* q, half* k, int n) {
  LAUNCH(64,
         attn,
         k, f(n, 1));
}
"""


def test_a_launch_in_a_macro_is_found_where_the_macro_is_used():
    (launch,) = find_launches(TEXT, "k.cu")
    assert (launch.kernel, [one.text for one in launch.template_arguments]) == ("attn", ["64", "true"])
    assert [one.text for one in launch.arguments] == ["q", "k", "f(n, 1)"]
    assert (launch.place.line, launch.function) == (6 + 1, "run")
    assert {name: value.text for name, value in launch.locals} == {"grid": "dim3(n / (64))", "block": "dim3(32 * 64)"}


def test_lines_are_kept():
    expanded = expand_launch_macros(TEXT)
    assert expanded.count("\n") == TEXT.count("\n")
    assert expanded.splitlines()[9] == "}"


@pytest.mark.parametrize(
    "text",
    [
        "#define CHECK(x) do { x; } while (0)\nvoid f() { CHECK(g()); }\n",  # launches nothing
        "#define L(a, b) k<<<a, b>>>()\nvoid f() { L(1); }\n",  # too few arguments
        "#define L(a) k<<<a, 1>>>()\nvoid f() { L(1, 2); }\n",  # too many
        "#define L(a) k<<<a, 1>>>()\nvoid f() { L(1 ",  # unclosed
        "#define L(a k<<<a, 1>>>()\nL(1)\n",
        "#define L k<<<1, 1>>>()\nvoid f() { L; }\n",
    ],
)
def test_what_is_not_understood_stays(text):
    assert expand_launch_macros(text) == text


def test_macros_that_grow_without_end_are_left():
    doubling = "#define L(x) L(x)L(x) k<<<1, 1>>>()\nvoid f() { L(1) }\n"
    assert len(expand_launch_macros(doubling)) < 100_000


@given(st.text(alphabet="#define L(a,)<>{}k \n1_.\"'", max_size=60))
def test_any_text_is_taken(text):
    whole = f"#define L(a) k<<<a, 1>>>()\n{text}"
    assert expand_launch_macros(whole).count("\n") >= whole.count("\n") - text.count("\\\n")


def test_arguments_passed_by_address():
    text = (
        "void run(half* A, int n) { void* args[] = {(void*)&A, &n, &p.k};"
        " cudaLaunchKernel((void*)gemm, grid, 32, args, 0, s); }"
    )
    (launch,) = find_launches(text)
    assert [one.text for one in launch.arguments] == ["A", "n", "p.k"]
    (launch,) = find_launches(text.replace("void* args[] = {(void*)&A, &n, &p.k};", "fill(args);"))
    assert launch.arguments == ()
