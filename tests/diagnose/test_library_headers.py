"""Headers that only an include path leads to are looked at where nothing of the user's own files mends a kernel."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from trial_changes import change, edit

from wmmadiag.compile.driver import compile_source
from wmmadiag.compile.options import CompileOptions
from wmmadiag.compile.sources import read_tree
from wmmadiag.diagnose.changes import applied, without
from wmmadiag.diagnose.engine import diagnose_card
from wmmadiag.diagnose.trials.preamble import preamble
from wmmadiag.diagnose.trials.prepared import texts_of
from wmmadiag.errors import CompileError
from wmmadiag.subject.card_files.read import load_card

OUTER = '#pragma once\n#include "inner.cuh"\n#include "plain.cuh"\n'
INNER = """#pragma once
struct Tile {
    const float* at;
    int width;
    __device__ float operator()(int row, int column) const { return at[row * width + column]; }
};
__device__ inline float dot(Tile a, Tile b, int row, int column, int depth) {
    float sum = 0.f;
    for (int k = 0; k < depth; k++) sum += a(row, k) * b(column, k);
    return sum;
}
"""
KERNEL = """#include <outer.cuh>
__global__ void product(const float* a, const float* b, float* c, int m, int n, int depth) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < m && column < n) c[row * n + column] = dot({a, depth}, {b, depth}, row, column, depth) * scale();
}
"""
CARD = """format = 1
name = "a product by a library"
source = "product.cu"
entry = "product"
include_paths = ["../include"]
[computes]
operation = "gemm"
[[arguments]]
name = "a"
role = "a"
dtype = "f32"
[[arguments]]
name = "b"
role = "b"
dtype = "f32"
layout = "NK"
[[arguments]]
name = "c"
role = "c"
dtype = "f32"
direction = "out"
[[arguments]]
name = "m"
dtype = "s32"
value = "M"
[[arguments]]
name = "n"
dtype = "s32"
value = "N"
[[arguments]]
name = "depth"
dtype = "s32"
value = "K"
[launch]
grid = ["ceil_div(N, 8)", "ceil_div(M, 8)"]
block = [8, 8]
[[cases]]
name = "oblong"
M = 16
N = 24
K = 20
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in {
        "include/outer.cuh": OUTER,
        "include/inner.cuh": INNER,
        "include/plain.cuh": "#pragma once\n__device__ inline float scale() { return 1.f; }\n",
        "src/product.cu": KERNEL,
        "src/product.toml": CARD,
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


def test_a_mistake_in_a_header_of_an_include_path_is_named_there(project: Path) -> None:
    inner = project / "include/inner.cuh"
    inner.write_text(INNER.replace("at[row * width + column]", "at[column * width + row]"), "utf-8")
    told: list[str] = []
    found = diagnose_card(load_card(project / "src/product.toml"), progress=told.append)
    assert found.outcome == "diagnosed", found
    file, line = found.causes[0].place.split(":")[:2]
    assert Path(file).resolve() == inner.resolve()
    assert line in ("5", "9")
    assert any("headers of include paths" in one for one in told)


def test_a_mistake_of_the_source_is_named_without_a_look_at_headers(project: Path) -> None:
    source = project / "src/product.cu"
    source.write_text(KERNEL.replace("c[row * n + column]", "c[column * n + row]"), "utf-8")
    told: list[str] = []
    found = diagnose_card(load_card(project / "src/product.toml"), progress=told.append)
    assert found.outcome == "diagnosed", found
    assert Path(found.causes[0].place.split(":")[0]).name == "product.cu"
    assert not any("headers of include paths" in one for one in told)


def test_headers_that_are_named_are_the_users_however_they_are_reached(project: Path) -> None:
    inner = (project / "include/inner.cuh").resolve().as_posix()
    path, options = project / "src/product.cu", CompileOptions(include_paths=(project / "include",))
    assert [Path(one).name for one in texts_of(path, options)] == ["product.cu"]
    with_inner = texts_of(path, replace(options, own=(inner,)))
    assert [Path(one).name for one in with_inner] == ["product.cu", "inner.cuh"]


def test_what_leads_to_a_changed_header_is_not_read_first(project: Path) -> None:
    path, folder = project / "src/product.cu", project / "include"
    inner, plain = ((folder / name).resolve().as_posix() for name in ("inner.cuh", "plain.cuh"))
    tree = read_tree(KERNEL, str(path), [folder], lambda _: False)
    assert preamble(tree, lambda _: False).decode() == f'#include "{(folder / "outer.cuh").resolve().as_posix()}"\n'
    tree = read_tree(KERNEL, str(path), [folder], lambda _: False, own=[inner])
    assert preamble(tree, lambda _: False).decode() == f'#include "{plain}"\n'


def test_an_absent_header_is_an_error_as_before(project: Path) -> None:
    (project / "include/plain.cuh").unlink()
    options = CompileOptions(include_paths=(project / "include",))
    with pytest.raises(CompileError):
        compile_source(project / "src/product.cu", options)


def test_a_change_of_what_an_earlier_one_made_is_told_of_the_text_before() -> None:
    text = {"k.cu": b"one(a, b); two(c, d); three(e);"}
    first = change(edit(text, "a, b", "b, a, x"))
    middle = applied(text, [first])
    second = change(edit(middle, "c, d", "d, c"))
    alone = without(second, first)
    assert alone is not None
    assert applied(text, [alone])["k.cu"] == b"one(a, b); two(d, c); three(e);"
    inside = change(edit(middle, "x", "y"))
    assert without(inside, first) is None
    before = change(edit(middle, "one", "uno"))
    assert without(before, first) == before


@pytest.mark.parametrize(("count", "own"), [(20, True), (40, False)])
def test_an_include_path_below_the_source_with_more_than_a_project_has_is_a_librarys(
    tmp_path: Path, count: int, own: bool
) -> None:
    folder = tmp_path / "third_party"
    folder.mkdir()
    for number in range(count):
        following = f"#include <h{number + 1}.cuh>\n" if number + 1 < count else ""
        (folder / f"h{number}.cuh").write_text(f"#pragma once\n{following}", "utf-8")
    (tmp_path / "near.cuh").write_text("#pragma once\n", "utf-8")
    source = tmp_path / "k.cu"
    tree = read_tree('#include "near.cuh"\n#include <h0.cuh>\n', str(source), [folder], lambda _: False)
    assert len(tree.headers) == (count + 1 if own else 1)
    assert len(tree.outside) == (0 if own else count)
    assert next(Path(one).name for one in tree.headers) == "near.cuh"
