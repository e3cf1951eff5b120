"""Instantiations that a source launches beside the one that a check takes."""

from __future__ import annotations

import pytest

import wmmadiag
from wmmadiag.cli.main import main
from wmmadiag.gate import batch, beside
from wmmadiag.gate.batch import check_all, exit_code, plan

TEMPLATED = """
#include <mma.h>
using namespace nvcuda;
template <bool BY_ROWS>
__global__ void gemm(const half* a, const half* b, float* c, int m, int n, int k) {
  int row = blockIdx.y * 16, col = blockIdx.x * 16;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> y;
  wmma::fill_fragment(sum, 0.f);
  for (int i = 0; i < k; i += 16) {
    wmma::load_matrix_sync(x, a + row * k + i, k);
    wmma::load_matrix_sync(y, BY_ROWS ? b + i * n + col : b + OTHER, n);
    wmma::mma_sync(sum, x, y, sum);
  }
  wmma::store_matrix_sync(c + row * n + col, sum, n, wmma::mem_row_major);
}
void launch(const half* a, const half* b, float* c, int m, int n, int k, bool by_rows) {
  dim3 grid(n / 16, m / 16);
  if (by_rows) gemm<true><<<grid, 32>>>(a, b, c, m, n, k);
  else gemm<false><<<grid, 32>>>(a, b, c, m, n, k);
}
"""


def templated(folder, other):
    (folder / "gemm.cu").write_text(TEMPLATED.replace("OTHER", other), "utf-8")
    return folder / "gemm.cu"


def assumptions(outcome):
    return [one for one in outcome.report.assumed if one.startswith(("right, too", "not judged", "not right"))]


def test_instantiations_that_a_source_launches_besides_are_judged_too(tmp_path):
    path = templated(tmp_path, "i * n + col")
    first, second = check_all(plan([path], [None], None, None, {}))
    assert (first.code, second.code) == (0, 0)
    assert second.beside and second.task.options["entry"] == "gemm<false>"
    assert assumptions(first) == ["right, too: gemm<false>"]
    (chosen,) = check_all(plan([path], [None], None, None, {"entry": "gemm<true>"}))
    assert chosen.code == 0 and not assumptions(chosen)
    assert "the instantiation gemm<true> is one that the source launches" in chosen.report.assumed


@pytest.mark.parametrize("said", [{}, {"computes": "gemm"}])
def test_an_instantiation_that_gives_other_numbers_is_asked_about(tmp_path, said):
    """What one computes that nobody chose is a guess, whatever is said of the other: it is neither right nor wrong."""
    first, other = check_all(plan([templated(tmp_path, "i * n")], [None], None, None, said))
    assert (first.code, other.code) == (0, 3) and other.asked and other.beside
    assert "gemm<false> is launched or asked for, too, and " in other.error
    assert other.error.endswith("--entry 'gemm<false>'` checks it alone")
    (clause,) = assumptions(first)
    assert clause.startswith("not right so: gemm<false>, " if said else "not judged: gemm<false>, ")
    assert clause.endswith("; --entry 'gemm<false>' checks it")


def test_files_say_of_those_beside_what_the_terminal_does(tmp_path, capsys):
    path, written = templated(tmp_path, "i * n"), tmp_path / "run.json"
    assert main(["check", str(path), "--json", str(written)]) == 3
    assert "not judged: gemm<false>, " in " ".join(capsys.readouterr().out.split())
    assert "not judged: gemm<false>, " in written.read_text()


SCALED = """
#include <mma.h>
using namespace nvcuda;
template <bool SCALED>
__global__ void gemm(const half* a, const half* b, float* c, int m, int n, int k, float alpha) {
  int row = blockIdx.y * 16, col = blockIdx.x * 16;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> y;
  wmma::fill_fragment(sum, 0.f);
  for (int i = 0; i < k; i += 16) {
    wmma::load_matrix_sync(x, a + row * k + i, k);
    wmma::load_matrix_sync(y, b + i * n + col, n);
    wmma::mma_sync(sum, x, y, sum);
  }
  if (SCALED) for (int i = 0; i < sum.num_elements; ++i) sum.x[i] *= alpha;
  wmma::store_matrix_sync(c + row * n + col, sum, n, wmma::mem_row_major);
}
void launch(const half* a, const half* b, float* c, int m, int n, int k, float alpha) {
  dim3 grid(n / 16, m / 16);
  if (alpha == 1.f) gemm<false><<<grid, 32>>>(a, b, c, m, n, k, 1.f);
  else gemm<true><<<grid, 32>>>(a, b, c, m, n, k, alpha);
}
"""


@pytest.mark.parametrize("passed", ["1.f", "alpha"])
@pytest.mark.parametrize("said", [{}, {"computes": "gemm"}])
def test_an_instantiation_for_one_number_is_tried_with_that(tmp_path, said, passed):
    (tmp_path / "gemm.cu").write_text(SCALED.replace("k, 1.f);", f"k, {passed});"), "utf-8")
    first, second = check_all(plan([tmp_path / "gemm.cu"], [None], None, None, said))
    assert (first.code, second.code) == (0, 0) and assumptions(first) == ["right, too: gemm<false>"]
    assert {one.symbols.get("alpha") for one in first.report.cases} == {1, 2}
    assert not any("alpha" in one.symbols for one in second.report.cases)


def test_one_that_hangs_is_given_up(tmp_path):
    path = templated(tmp_path, "i * n + col, n); if (!BY_ROWS) i -= 16; (void)(0")
    first, *others = check_all(plan([path], [None], None, None, {}))
    assert first.code == 0 and not others
    (clause,) = assumptions(first)
    assert clause.startswith("not judged: gemm<false>, ")


def test_an_instantiation_that_nobody_chose_and_that_is_not_decided_is_no_question(tmp_path):
    path = templated(tmp_path, 'i * n + col, n); if (!BY_ROWS) asm("bra.uni nowhere;"); (void)(0')
    first, *others = check_all(plan([path], [None], None, None, {}))
    assert first.code == 0 and not others
    (said,) = assumptions(first)
    assert said.startswith("not judged: gemm<false>, ")


def test_the_library_names_instantiations_that_it_does_not_judge(tmp_path):
    report = wmmadiag.check(templated(tmp_path, "i * n"))
    assert report.instantiations == ("gemm<false>",)
    assert "not judged: gemm<false>, which the source instantiates, too" in report.assumed


def test_a_right_instantiation_is_named_and_so_is_one_that_is_not(tmp_path, capsys):
    path = str(templated(tmp_path, "i * n + col"))
    assert main(["check", path]) == 0
    said = capsys.readouterr().out
    assert said.count("gemm<false>") == 1 and "right, too: gemm<false>" in said
    path = templated(tmp_path, "i * n")
    assert main(["check", str(path), "--computes", "gemm"]) == 3
    told = capsys.readouterr()
    assert "not right so: gemm<false>" in told.out and "gemm<false> is launched or asked for, too" in told.err


def test_a_bug_of_ours_costs_one_instantiation(tmp_path, monkeypatch):
    judged = wmmadiag.api.check

    def check(path, **options):
        if "false" in options.get("entry", ""):
            raise RuntimeError("out of its depth")
        return judged(path, **options)

    monkeypatch.setattr(wmmadiag.api, "check", check)
    (first,) = check_all(plan([templated(tmp_path, "i * n + col")], [None], None, None, {"use_cache": False}))
    assert first.code == 0
    (said,) = assumptions(first)
    assert said.startswith("not judged: gemm<false>, ") and "out of its depth" in said


def test_a_kernel_for_which_there_is_no_time_is_not_passed_over(tmp_path, monkeypatch):
    """Whether all is right must not hang on the clock."""
    source = tmp_path / "two.cu"
    source.write_text(
        "__global__ void add(const float* x, const float* y, float* out, int n) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = x[i] + y[i]; }\n"
        "__global__ void relu(const float* x, float* out, int n) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = fmaxf(x[i], 0.0f); }\n"
        "void one(const float* x, const float* y, float* z, int n) { add<<<(n + 127) / 128, 128>>>(x, y, z, n); }\n"
        "void two(const float* x, float* z, int n) { relu<<<(n + 127) / 128, 128>>>(x, z, n); }\n",
        "utf-8",
    )
    (task,) = plan([source], [None], None, None, {})
    assert exit_code(list(check_all([task]))) == 0
    for room in (batch, beside):
        monkeypatch.setattr(room, "PATIENCE", -1.0)
    found = list(check_all([task]))
    assert [one.left for one in found] == [False, True] and exit_code(found) == 3
    assert "--entry relu` checks it alone" in found[1].error
