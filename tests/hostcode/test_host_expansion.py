"""Macros of host code: expanded in place, line by line."""

from __future__ import annotations

import pytest

from wmmadiag.hostcode.expansion import expanded
from wmmadiag.hostcode.program import read_program


def lines(text, **defines):
    found = expanded(text, {}, defines)
    assert found.text.count("\n") == text.count("\n")
    return [line.strip() for line in found.text.splitlines()]


@pytest.mark.parametrize(
    ("argument", "bare"),
    [("Tile::N", True), ("far::Config::BM", True), ("n", True), ("T", False), ("Word::type", False)],
)
def test_a_value_in_the_brackets_of_a_macro_is_no_cast(argument, bare):
    text = f"""#define UP(a, b) (((a) + (b) - 1) / (b))
struct Tile {{ static constexpr int N = 64; }}; using T = int;
int f(int n) {{ return UP(n, {argument}); }}
"""
    use = expanded(text, {}, {}).text.splitlines()[-1]
    assert (f"( n  +  {argument}  - 1)" in use) == bare, use


def test_a_launch_behind_a_macro_stands_on_the_line_of_its_use():
    text = """#define LAUNCH(D) \\
  attn<D><<<grid, \\
            128>>>(q, o)
void run() {
  LAUNCH(
    64);
  LAUNCH(128);
}
"""
    told = lines(text)
    assert told[4] == "attn<64><<<grid, 128>>>(q, o)" and told[6] == "attn<128><<<grid, 128>>>(q, o);"


def test_names_of_numbers_and_types_stay():
    told = lines("#define M 4096\n#define T half\n#define F(x) g<T>(x, M)\nvoid run() { F(M); }\n")
    assert told[3] == "void run() { g<T>(M, M); }"


def test_macros_in_literals_and_comments_are_none():
    told = lines('#define F(x) x\nvoid run() { printf("F(1)"); /* F(2) */ F(3); } // F(4)\n')
    assert told[1] == 'void run() { printf("F(1)"); /* F(2) */ 3; } // F(4)'


@pytest.mark.parametrize(
    ("condition", "defines", "taken"),
    [
        ("#ifdef FAST", {}, "b"), ("#ifdef FAST", {"FAST": None}, "a"), ("#ifndef FAST", {}, "a"),
        ("#if FAST > 1", {"FAST": "2"}, "a"), ("#if FAST > 1", {"FAST": "1"}, "b"), ("#if defined(FAST)", {}, "b"),
        ("#if CUDART_VERSION >= 11000", {}, "a"), ("#if __CUDA_ARCH__ < 700", {}, "b"),
        ("#if NOBODY_DEFINES_THIS", {}, "b"),
    ],
)  # fmt: skip
def test_the_branch_that_the_compiler_takes_is_kept(condition, defines, taken):
    told = lines(f"{condition}\na\n#else\nb\n#endif\n", **defines)
    assert [one for one in told if one] == [taken]


def test_a_usual_value_is_not_mistaken_for_a_branch():
    told = expanded("#ifndef N\n#define N 64\n#endif\nint x = N;\n", {}, {})
    assert told.macros["N"].body == "64"
    assert expanded("#ifndef N\n#define N 64\n#endif\n", {}, {"N": "32"}).macros["N"].body == "32"


def test_arguments_that_do_not_fit_leave_the_use_as_it_is():
    assert lines("#define F(a, b) a b\nF(1);\nF 2;\nF(\n")[1:] == ["F(1);", "F 2;", "F("]


@pytest.mark.parametrize(
    ("before", "after", "type_"), [(True, False, "half"), (False, True, "float"), (False, False, "float")]
)
def test_a_header_knows_what_is_defined_before_it_is_included(tmp_path, before, after, type_):
    (tmp_path / "types.h").write_text("#ifdef NARROW\ntypedef half real_t;\n#else\ntypedef float real_t;\n#endif\n")
    define = "#define NARROW\n"
    text = f'{define if before else ""}#include "types.h"\n{define if after else ""}void f(real_t x);\n'
    program = read_program(text, (tmp_path / "kernel.cu").as_posix(), (), {})
    assert program.aliases["real_t"].text == type_


def test_a_comment_in_the_argument_of_a_macro_hides_nothing():
    text = """#define EACH(n, ...) switch (n) { case 4: { constexpr int N = 4; __VA_ARGS__ } }
void run(int n) {
  EACH(n, {
    auto k = attn<N>;  // the kernel
    const char* url = "http://none"; /* and its
    launch */ k<<<1, 32>>>(url);
  });
}
"""
    told = " ".join(lines(text))
    assert "k<<<1, 32>>>(url); }" in " ".join(told.split()) and "http://none" in told
    assert "the kernel" not in told.partition("void run")[2]
