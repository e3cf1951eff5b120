"""A real number that is sought: a literal that is wrong, and a factor that is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from wmmadiag.diagnose import mending
from wmmadiag.diagnose.engine import diagnose_card
from wmmadiag.diagnose.trials.holes import factor, times
from wmmadiag.results.diagnosis import Diagnosis
from wmmadiag.subject.card_files.read import load_card


@pytest.fixture(autouse=True)
def nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other step of a search."""
    monkeypatch.setattr(mending, "_STEPS", (mending._solved,))


def diagnosis_of(folder: Path, statement: str, expected: str) -> Diagnosis:
    """The diagnosis of a kernel of one statement that should make an expected value of `x`."""
    (folder / "curve.cu").write_text(
        "__global__ void curve(const float* x, float* y, int n) {\n"
        "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "    if (i >= n) return;\n"
        f"    float v = x[i];\n    {statement}\n"
        "}\n"
    )
    (folder / "reference.py").write_text(
        "import numpy as np\n"
        "def curve(inputs, symbols):\n"
        "    x = inputs['x'].astype(float)\n"
        f"    y = {expected}\n"
        "    return {'y': (y, 1e-3 * (0.01 + abs(y)))}\n"
    )
    (folder / "curve.toml").write_text(
        'format = 1\nname = "curve"\nsource = "curve.cu"\nentry = "curve"\n[computes]\npython = "reference.py:curve"\n'
        '[[arguments]]\nrole = "x"\ndtype = "f32"\nshape = ["N"]\ndirection = "in"\n'
        '[[arguments]]\nrole = "y"\ndtype = "f32"\nshape = ["N"]\ndirection = "out"\n'
        '[[arguments]]\nname = "n"\ndtype = "s32"\nvalue = "N"\n'
        '[launch]\ngrid = "ceil_div(N, 64)"\nblock = 64\n[[cases]]\nN = 128\n[[cases]]\nN = 200\n'
    )
    return diagnose_card(load_card(folder / "curve.toml"), threads=1)


@pytest.mark.parametrize("power", [-15.9, -0.37, 0.0, 0.0001, 1 / 3, 1.0, 15.9])
def test_a_power_of_two_is_kept_to_a_part_in_4096(power: float) -> None:
    assert factor(times(power)) == pytest.approx(2.0**power, rel=2e-4)


@pytest.mark.parametrize(
    ("statement", "expected", "least", "most"),
    [
        # a decimal point that has slipped: the digits stay
        ("y[i] = tanhf(0.85f * (v + 0.447f * v * v * v));", "np.tanh(0.85 * (x + 0.0447 * x ** 3))", 0.0447, 0.0447),
        ("y[i] = expf(v);", "np.exp(0.37 * x)", 0.369, 0.371),  # a factor that nothing names
    ],
)
@pytest.mark.slow
def test_a_number_that_nothing_names_is_sought(
    tmp_path: Path, statement: str, expected: str, least: float, most: float
) -> None:
    found = diagnosis_of(tmp_path, statement, expected)
    [cause] = found.causes
    assert cause.place.endswith("curve.cu:5") and cause.verdict == "likely" and cause.fix is not None
    assert any("its number was sought" in one for one in cause.evidence)
    [line] = [row for row in cause.fix.diff.split("\n") if row.startswith("+ ")]
    numbers = [float(word.rstrip("f")) for word in line.replace("(", " ").replace(")", " ").split() if word[:2] == "0."]
    assert any(least <= number <= most for number in numbers)


def test_no_number_is_found_where_none_helps(tmp_path: Path) -> None:
    found = diagnosis_of(tmp_path, "y[i] = v;", "np.sign(x) + np.floor(7 * x * x) % 3")
    assert found.work.filled > 100 and not any(cause.fix is not None for cause in found.causes)
