"""From a line to the lines that it depends on."""

from __future__ import annotations

import time

import pytest

from wmmadiag.csource.dependences import Dependences
from wmmadiag.csource.tree import parse


def behind(text: str, mark: str, most: int = 8, known: str = "") -> dict[str, int]:
    """Line (its text) → distance from the only line that holds `mark`; it itself left out."""
    lines = text.split("\n")
    numbers = {"marked": [n for n, line in enumerate(lines, 1) if mark in line]}
    assert len(numbers["marked"]) == 1
    right = {("k.cu", n) for n, line in enumerate(lines, 1) if known and known in line}
    found = Dependences({"k.cu": parse(text, "k.cu")}).distances([("k.cu", numbers["marked"][0])], most, right)
    return {lines[n - 1].strip(): far for (_, n), far in found.items() if n not in numbers["marked"]}


KERNEL = """\
#define ROWS (TILE * 2)
#define TILE 16
template <int D> struct Shape { static constexpr int LD = D + 8; };
constexpr float kLow = -1e30f;
__device__ float scaled(float v, float by)
{
    float made = v;
    made *= by;
    return made;
}
__device__ void fill(float* to, const float* from, int n)
{
    if (threadIdx.x < n)
        to[threadIdx.x] = from[threadIdx.x];
}
__device__ void unrelated(float* x)
{
    float made = 3.0f;
    x[0] = made;
}
__global__ void k(const float* x, float* out, int n)
{
    __shared__ float tile[ROWS * 3];
    float sums[4];
    int first = blockIdx.x * 64;
    if (first >= n)
        return;
    for (auto& one : sums)
        one = kLow;
    fill(tile, x, n);
    for (int i = 0; i < n; i += 2) {
        if (x[i] < 0.0f)
            continue;
        sums[i & 3] += tile[i];
    }
    float* rest = tile + 32;
    rest[threadIdx.x] = 1.0f;
    int other = 7;
    other += 1;
    out[first] = scaled(tile[Shape<4>::LD], sums[0]);
}
"""


def test_names_lead_to_where_they_get_their_values():
    far = behind(KERNEL, "out[first]")
    assert far["int first = blockIdx.x * 64;"] == 1
    assert far["__shared__ float tile[ROWS * 3];"] == 1
    assert far["#define ROWS (TILE * 2)"] == 2
    assert far["#define TILE 16"] == 3
    assert far["template <int D> struct Shape { static constexpr int LD = D + 8; };"] == 1
    assert not {"int other = 7;", "other += 1;"} & far.keys()


def test_calls_lead_to_what_they_give_and_write():
    far = behind(KERNEL, "out[first]")
    assert (far["return made;"], far["made *= by;"], far["float made = v;"]) == (1, 2, 2)
    assert (far["fill(tile, x, n);"], far["to[threadIdx.x] = from[threadIdx.x];"]) == (1, 2)
    assert far["if (threadIdx.x < n)"] == 3
    assert "float made = 3.0f;" not in far


def test_callers_decide_what_a_function_is_given():
    far = behind(KERNEL, "to[threadIdx.x] =", 1)
    assert far == {"if (threadIdx.x < n)": 1, "fill(tile, x, n);": 1}
    assert "out[first]" not in str(behind(KERNEL, "const float* x, float* out"))  # a kernel has no caller here


def test_other_names_of_the_same_memory():
    far = behind(KERNEL, "out[first]")
    assert far["rest[threadIdx.x] = 1.0f;"] == 1
    assert far["one = kLow;"] == 1
    assert far["constexpr float kLow = -1e30f;"] == 2


def test_what_decides_whether_a_line_runs():
    far = behind(KERNEL, "sums[i & 3] +=", 1)
    assert far["for (int i = 0; i < n; i += 2) {"] == 1
    assert far["if (x[i] < 0.0f)"] == 1  # under which it is left out
    assert far["if (first >= n)"] == 1
    assert "continue;" not in far
    assert "if (x[i] < 0.0f)" not in behind(KERNEL, "fill(tile, x, n)", 1)


def test_of_right_lines_only_what_decides_whether_they_run_is_followed():
    assert "int first = blockIdx.x * 64;" in behind(KERNEL, "sums[i & 3] +=")
    far = behind(KERNEL, "out[first]", known="sums[i & 3] +=")
    assert far["for (int i = 0; i < n; i += 2) {"] == 2
    assert "if (x[i] < 0.0f)" not in far


def test_a_value_that_only_has_a_name_is_no_step():
    text = """\
__global__ void k(float* out, int ld)
{
    int row = threadIdx.x / 32;
    const int at = row * ld;
    const int here = at + 1;
    int there = at + 2;
    out[here] = 1.0f;
    out[there] = 2.0f;
}
"""
    far = behind(text, "out[here]")
    assert far["const int here = at + 1;"] == far["const int at = row * ld;"] == far["int row = threadIdx.x / 32;"] == 1
    far = behind(text, "out[there]")
    assert (far["int there = at + 2;"], far["const int at = row * ld;"]) == (1, 2)


def test_lambdas_are_functions_that_know_the_names_around_them():
    text = """\
__global__ void k(float* out, int n)
{
    float held[4];
    float factor = 2.0f;
    auto put = [&](int at) {
        held[at] = factor;
        return at + 1;
    };
    if (n > 3)
        put(n);
    out[0] = held[1];
}
"""
    far = behind(text, "out[0] =")
    assert (far["held[at] = factor;"], far["float factor = 2.0f;"]) == (1, 2)
    assert far["put(n);"] == 2
    assert far["if (n > 3)"] == 3
    assert far["auto put = [&](int at) {"] == 2
    assert "return at + 1;" in behind(text, "put(n)")


@pytest.mark.parametrize("hidden", ["int", "float"])
def test_an_inner_name_hides_an_outer_one(hidden):
    text = f"""\
__global__ void k(float* out)
{{
    int n = 3;
    {{
        {hidden} n = 4;
        out[0] = n;
    }}
    out[1] = n;
}}
"""
    assert behind(text, "out[0]") == {f"{hidden} n = 4;": 1}
    assert behind(text, "out[1]") == {"int n = 3;": 1}


def test_what_is_overwritten_is_not_read():
    text = """\
__global__ void k(float* out, float* more)
{
    float* to = out;
    to[0] = 1.0f;
    to += 4;
    to[1] = 2.0f;
    to[2] += 3.0f;
}
"""
    assert behind(text, "to[1]", 1) == {"float* to = out;": 1, "to += 4;": 1}
    assert behind(text, "to[2]", 1).keys() == {"float* to = out;", "to += 4;", "to[0] = 1.0f;", "to[1] = 2.0f;"}


def test_who_calls_the_functions_of_lines():
    text = """__device__ float half_of(float x)
{
    return x / 2;
}
__device__ float other(float x)
{
    return x * 3;
}
__global__ void k(float* o)
{
    o[0] = half_of(o[1]);
    o[2] = other(o[3]);
}
"""
    found = Dependences({"k.cu": parse(text, "k.cu")})
    assert found.calling([("k.cu", 3)]) == {("k.cu", 11)}
    assert found.calling([("k.cu", 11)]) == set()
    assert found.called_from([("k.cu", 11)]) == {("k.cu", 3)}


def test_several_files_are_one():
    sources = {
        "k.cu": '#include "h.cuh"\n__global__ void k(float* o) { o[LD] = half_of(o[1]); }\n',
        "h.cuh": "constexpr int LD = 40;\n__device__ float half_of(float x)\n{\n    return x / 2;\n}\n",
    }
    found = Dependences({name: parse(text, name) for name, text in sources.items()}).distances([("k.cu", 2)], 1)
    assert found == {("k.cu", 2): 0, ("h.cuh", 1): 1, ("h.cuh", 4): 1}


def test_large_sources_are_read_in_linear_time():
    body = "".join(f"    int v{n} = v{n - 1} + {n};\n    out[v{n}] = v{n};\n" for n in range(1, 3000))
    text = f"__global__ void k(float* out)\n{{\n    int v0 = 0;\n{body}}}\n"
    started = time.process_time()
    found = Dependences({"k.cu": parse(text, "k.cu")}).distances([("k.cu", 6001)], 4)
    assert len(found) > 4
    assert time.process_time() - started < 20


def test_deep_nesting_is_no_matter():
    chain = "if (n == 0) out[0] = 1;\n" + "".join(f"    else if (n == {i}) out[0] = {i};\n" for i in range(1, 800))
    found = behind(f"__global__ void k(float* out, int n)\n{{\n    {chain}    n = 3;\n}}\n", "out[0] = 799", 1)
    assert len(found) == 800
