"""Formulas on the command line: `--computes 'y[r, c] = …; x [rows, inner]'`."""

import pytest

from wmmadiag.cli.main import main
from wmmadiag.subject.open_subject import SubjectOptions

SOURCE = """
__global__ void squeeze(const float* x, const float* w, const float* b, float* y, int rows, int cols, int inner) {
    int r = blockIdx.y, c = blockIdx.x * 32 + threadIdx.x;
    if (c >= cols) return;
    float sum = 0;
    for (int i = 0; i < inner; ++i) { float d = x[r * inner + i] - w[c * inner + i]; sum += d * d; }
    y[r * cols + c] = expf(-sum / inner) + b[c];
}
void run(const float* x, const float* w, const float* b, float* y, int rows, int cols, int inner) {
    squeeze<<<dim3((cols + 31) / 32, rows), 32>>>(x, w, b, y, rows, cols, inner);
}
"""
FORMULA = "y[r, c] = exp(-(sum_i (x[r, i] - w[c, i])^2) / inner) + b[c]"
SHAPES = "x [rows, inner]; w [cols, inner]; b [cols]; y [rows, cols]"


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "squeeze.cu"
    path.write_text(SOURCE)
    return path


@pytest.mark.parametrize("computes", [FORMULA, f"{FORMULA}; {SHAPES}", f"out[r, c] {FORMULA[8:]}"])
def test_a_formula_judges_a_kernel(source, capsys, computes):
    assert main(["check", str(source), "--computes", computes]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert f"judged by the formula that was given, {FORMULA}" in told and "default / tail" in told


@pytest.mark.parametrize(
    ("computes", "code", "told"),
    [
        (f"{FORMULA}; {SHAPES}", 1, "y: all 8192 elements wrong"),
        (FORMULA, 2, "it does not compute"),  # which axis is which nobody said
    ],
)
def test_a_kernel_is_wrong_by_a_formula_that_leaves_nothing_open(source, capsys, computes, code, told):
    source.write_text(SOURCE.replace("+ b[c]", "+ 1.01f * b[c]"))
    assert main(["check", str(source), "--computes", computes]) == code
    said = capsys.readouterr()
    assert told in " ".join((said.out + said.err).split())


@pytest.mark.parametrize(
    ("computes", "told"),
    [
        ("y[r, c] = exp(-(sum_i ", "is no formula"),
        ("y[r, c] = x[r, 0]; rows by cols", "is no formula: it has no '=', and shapes no array"),
        ("y = q", "is 'squeeze' wrong, or is the formula meant otherwise?"),
    ],
)
def test_what_is_no_formula_of_the_kernel_is_refused(source, capsys, computes, told):
    assert main(["check", str(source), "--computes", computes]) == 2
    assert told in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("/ inner", "/ iner", "'iner' is no parameter of it: did you mean 'inner'?"),
        ("b[c];", "bias[c];", "'bias' is no parameter of it"),
        ("x [rows, inner]", "x [rows, innr]", "'innr' is no parameter of it: did you mean 'inner'?"),
    ],
)
def test_a_name_that_the_kernel_does_not_have_is_said(source, capsys, old, new, told):
    computes = f"{FORMULA}; {SHAPES}".replace(old, new)
    assert new in computes and main(["check", str(source), "--computes", computes]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert told in said and said.count("is no parameter") == 1


def test_of_two_outputs_one_has_to_be_named(source, capsys):
    source.write_text(SOURCE.replace("const float* b", "float* b"))
    assert main(["check", str(source), "--computes", "z[r, c] = x[r, c]"]) == 2
    assert "no formula says what an array of 'squeeze' holds that it may write: b, y" in capsys.readouterr().err


def test_a_card_holds_the_formula(source, tmp_path):
    assert main(["init", str(source), "--computes", FORMULA, "-o", str(tmp_path / "card.toml")]) == 0
    text = (tmp_path / "card.toml").read_text()
    assert f'formula = ["{FORMULA}"]' in text and "TODO" not in text
    assert main(["check", str(tmp_path / "card.toml")]) == 0


def test_a_card_of_what_is_not_right_by_a_formula_says_it_all_the_same(source, tmp_path):
    wrong = FORMULA.replace("exp", "tanh")
    assert main(["init", str(source), "--computes", wrong, "-o", str(tmp_path / "card.toml")]) == 0
    assert f'formula = ["{wrong}"]' in (tmp_path / "card.toml").read_text()


def test_a_formula_of_ptx_stands_in_a_card(tmp_path, capsys):
    (tmp_path / "k.ptx").write_text(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n")
    assert main(["check", str(tmp_path / "k.ptx"), "--computes", "y[i] = x[i]"]) == 2
    assert "a formula on the command line is of a CUDA source" in " ".join(capsys.readouterr().err.split())


def test_formulas_are_told_from_operations():
    assert SubjectOptions(computes="gemm").formulas == ()
    assert SubjectOptions(computes="t = a + b; y = t * t; a [N]").formulas == ("t = a + b", " y = t * t", " a [N]")


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("y[i] = epx(x[i])", "'epx' is no function of formulas: did you mean 'exp'?"),
        ("y[i] = x[i] + turned(x[i])", "'turned' is no function of formulas"),
        ("y[i] = exp(x[i]) lala", "'lala' is no part of a formula"),
    ],
)
def test_a_function_that_formulas_do_not_have_is_named(source, capsys, written, told):
    assert main(["check", str(source), "--computes", written]) == 2
    assert told in " ".join(capsys.readouterr().err.split())


MOVED = """
__global__ void moved(float* y, const float* x, int n) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i < n) y[i STORED] = 2 * x[i LOADED];
}
void run(float* y, const float* x, int n) { moved<<<(n + 127) / 128, 128>>>(y, x, n); }
"""


@pytest.mark.parametrize(
    ("stored", "loaded", "shapes", "code"),
    [
        ("+ 1", "", "", 1),  # what it stores outside is wrong whatever it is
        ("", "+ 99999", "; x [n]; y [n]", 1),
        ("", "+ 99999", "", 2),  # x may be larger than what the formula takes of it
        ("", "", "; x [n]; y [n]", 0),
    ],
)
def test_an_access_outside_of_arrays_is_wrong_by_a_formula(tmp_path, capsys, stored, loaded, shapes, code):
    path = tmp_path / "moved.cu"
    path.write_text(MOVED.replace("STORED", stored).replace("LOADED", loaded))
    assert main(["check", str(path), "--computes", f"y[i] = 2 * x[i]{shapes}"]) == code
    said = capsys.readouterr()
    assert ("moved.cu:4:" in said.out + said.err and "out of bounds" in said.out + said.err) == bool(code)


TILES = """
__global__ void twice(float* y, const float* x, int rows, int cols) {
    for (int i = 0; i < 128; ++i) {
        int at = (blockIdx.y * 128 + i) * cols + blockIdx.x * 128 + threadIdx.x;
        y[at] = 2 * x[at];
    }
}
void run(float* y, const float* x, int rows, int cols) {
    twice<<<dim3((cols + 127) / 128, (rows + 127) / 128), 128>>>(y, x, rows, cols);
}
"""


def test_a_kernel_of_whole_tiles_is_not_wrong_at_sizes_that_are_none(tmp_path):
    path = tmp_path / "twice.cu"
    path.write_text(TILES)
    assert main(["check", str(path), "--computes", "y[r, c] = 2 * x[r, c]; x [rows, cols]; y [rows, cols]"]) != 1
