"""Changes of a card's own function: which of them gives a wrong kernel's output, and which function is left alone."""

from __future__ import annotations

import ast

import numpy as np
import pytest

from wmmadiag.diagnose.functions import fit_function
from wmmadiag.diagnose.functions.purity import may_be_changed, may_be_repeated
from wmmadiag.ops.evaluation import tolerance
from wmmadiag.subject.binding import bind
from wmmadiag.subject.card_files.read import parse_card
from wmmadiag.subject.python_reference import python_reference

GATHER = """
import numpy as np

def reference(inputs, symbols):
    x, w, table, scale = inputs["x"], inputs["w"], inputs["table"].astype(int), inputs["scale"]
    out = np.zeros((len(table), w.shape[1]))
    for row, at in enumerate(table):
        out[row] = (x[at] @ w) * scale[row]
    return np.where(np.arange(w.shape[1]) < symbols["N"] - 3, out, 0.0)
"""

CARD = """
format = 1
source = "k.cu"
entry = "f"
[[arguments]]
role = "x"
dtype = "f32"
direction = "in"
shape = ["M", "K"]
[[arguments]]
role = "w"
dtype = "f32"
direction = "in"
shape = ["K", "N"]
[[arguments]]
role = "table"
dtype = "s32"
direction = "in"
shape = ["M"]
values = "(i * 7 + 3) % M"
[[arguments]]
role = "scale"
dtype = "f32"
direction = "in"
shape = ["M"]
[[arguments]]
role = "y"
dtype = "f32"
direction = "out"
shape = ["M", "N"]
[launch]
grid = 1
block = 32
[computes]
operation = "python"
python = "gather.py:reference"
[tolerance]
atol = 1e-4
rtol = 1e-4
[[cases]]
name = "one"
M = 40
N = 24
K = 32
"""


@pytest.fixture
def case(tmp_path):
    (tmp_path / "k.cu").write_text("")
    (tmp_path / "gather.py").write_text(GATHER)
    card = parse_card(CARD, tmp_path / "k.toml")
    return bind(card, card.cases[0], card.variants[0])


def outputs(inputs, *, rows=None, scale=None, end=None):
    x, w, table = (inputs[role].astype(np.float64) for role in ("x", "w", "table"))
    rows = table.astype(int) if rows is None else rows
    result = (x[rows] @ w) * (inputs["scale"].astype(np.float64) if scale is None else scale)[:, None]
    return np.where(np.arange(w.shape[1]) < (w.shape[1] - 3 if end is None else end), result, 0.0)


def fitted(case, values):
    case.outputs()["y"][...] = values
    shapes = {"y": case.outputs()["y"].shape}
    expected, _ = python_reference(case.card, case.inputs(), case.symbols, shapes, case.elements())
    judged = {"y": tolerance(expected["y"], case.tolerance)}
    wrong = {"y": np.abs(case.outputs()["y"] - expected["y"]) > judged["y"].bound}
    return fit_function(case, wrong, judged, expected)


def test_what_is_right_has_no_fault(case):
    assert fitted(case, outputs(case.inputs())) == ()


def test_a_table_that_is_not_looked_up(case):
    best = fitted(case, outputs(case.inputs(), rows=np.arange(40)))[0]
    assert (best.hypothesis, best.partial) == ("index-arithmetic", False)
    assert best.words.startswith("table is not looked up")
    assert best.residual < 1


def test_an_index_within_a_tile(case):
    best = fitted(case, outputs(case.inputs(), scale=case.inputs()["scale"].astype(np.float64)[np.arange(40) % 16]))[0]
    assert (best.hypothesis, best.parameters["operand"]) == ("index-arithmetic", "scale")
    assert "i % 16" in best.words


def test_a_factor_that_is_left_out(case):
    found = fitted(case, outputs(case.inputs(), scale=np.ones(40)))
    assert found[0].words == "scale is left out: the kernel computes as if it were 1 everywhere"


def test_a_comparison_of_the_function(case):
    best = fitted(case, outputs(case.inputs(), end=24 - 2))[0]
    assert best.hypothesis == "guard-condition"
    assert "gather.py:9" in best.words
    assert "<=" in best.words
    assert best.parameters["strict"] == 1


@pytest.mark.parametrize(
    ("right", "wrong", "hypothesis", "said"),
    [
        ("out * np.tri(40, 24)", "out * np.tri(40, 24, -1)", "guard-condition", "k=-1"),
        ("out + 2.0 * np.abs(out)", "out - 2.0 * np.abs(out)", "card-mismatch", "out - 2.0 * np.abs(out)"),
        ("out / np.abs(out).max(axis=1, keepdims=True)", "out", "normalisation", "with out in place of"),
        ("np.maximum(out, 0)", "np.minimum(out, 0)", "card-mismatch", "np.minimum"),
        ("np.exp(out / 9)", "np.exp2(out / 9)", "exp-base", "np.exp2"),
    ],
)
def test_changes_of_the_functions_text(case, tmp_path, right, wrong, hypothesis, said):
    text = GATHER.replace('np.where(np.arange(w.shape[1]) < symbols["N"] - 3, out, 0.0)', right)
    (tmp_path / "gather.py").write_text(text)
    values = eval(wrong, {"np": np, "out": outputs(case.inputs(), end=24)})
    best = fitted(case, values)[0]
    assert (best.hypothesis, best.partial) == (hypothesis, False)
    assert said in best.words


def test_two_faults_at_once_are_none_of_these(case):
    scale = case.inputs()["scale"].astype(np.float64)[np.arange(40) % 16]
    assert fitted(case, outputs(case.inputs(), rows=np.arange(40), scale=scale * 3.0)) == ()


def test_noise_is_no_fault(case):
    noise = np.random.default_rng(3).normal(size=(40, 24))
    assert fitted(case, outputs(case.inputs()) + noise) == ()


@pytest.mark.parametrize(
    ("text", "repeated", "changed"),
    [
        ("import numpy as np\ndef f(a, s):\n    return np.exp(a['x'])", True, True),
        ("import torch\ndef f(a, s):\n    return torch.exp(a['x'])", True, False),
        ("def f(a, s):\n    n = 3\n    while n:\n        n -= 1", True, False),
        ("import numpy as np\ndef f(a, s):\n    np.save('x', a['x'])\n    return a['x']", False, False),
        ("import os\ndef f(a, s):\n    os.remove('x')", False, False),
        ("import numpy as np\nfrom numpy import save\ndef f(a, s):\n    return 1", False, False),
        ("from . import other\ndef f(a, s):\n    return 1", False, False),
        ("def f(a, s):\n    open('x', 'w')", False, False),
        ("def f(a, s):\n    return a.__class__", False, False),
    ],
)
def test_only_what_computes_is_repeated_or_changed(text: str, repeated: bool, changed: bool) -> None:
    tree = ast.parse(text)
    assert (may_be_repeated(tree), may_be_changed(tree)) == (repeated, changed)


def test_a_function_that_does_more_is_called_no_further(case, tmp_path):
    told = tmp_path / "told"
    code = f"    f = open({str(told)!r}, 'a')\n    f.write('.')\n    f.close()\n    out = "
    (tmp_path / "gather.py").write_text(GATHER.replace("    out = ", code, 1))
    assert fitted(case, outputs(case.inputs(), end=24 - 2)) == ()
    assert told.read_text() == "."


def test_what_a_function_prints_is_not_shown(case, tmp_path, capsys):
    (tmp_path / "gather.py").write_text(GATHER.replace("    out = ", "    print('x')\n    out = ", 1))
    assert fitted(case, outputs(case.inputs(), end=24 - 2))
    assert capsys.readouterr() == ("", "x\n")  # once: the reference itself, and no part of a report
