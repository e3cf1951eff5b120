"""`reference = "module.function"`: what a library's function gets and gives, and what is said where not."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from wmmadiag.errors import ConfigurationError
from wmmadiag.subject.binding import bind
from wmmadiag.subject.card_files.read import parse_card
from wmmadiag.subject.check import check_card
from wmmadiag.subject.python_reference import python_reference
from wmmadiag.subject.reference_case import ReferenceCase

ADD = """
__global__ void add(const float* x, const float* y, float* sum, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) sum[i] = x[i] + SIGN y[i];
}
"""
CARD = """
format = 1
source = "k.cu"
entry = "add"
tolerance = {{ atol = 1e-6, rtol = 1e-6 }}
computes = {{ {computes} }}
launch = {{ grid = "ceil_div(N, 64)", block = 64 }}
arguments = [
  {{ role = "x", dtype = "f32", shape = ["N"] }},
  {{ role = "y", dtype = "{dtype}", shape = ["N"] }},
  {{ role = "sum", dtype = "f32", shape = ["N"], direction = "out" }},
  {{ name = "n", dtype = "s32", value = "N" }},
]
cases = [{{ N = 100 }}]
"""


def card(folder: Path, computes: str, dtype: str = "f32", sign: str = ""):
    (folder / "k.cu").write_text(ADD.replace("SIGN", sign))
    return parse_card(CARD.format(computes=computes, dtype=dtype), folder / "k.toml")


def answer(made) -> np.ndarray:
    bound = bind(made, made.cases[0], made.variants[0])
    shapes = {role: array.shape for role, array in bound.outputs().items()}
    expected, _ = python_reference(ReferenceCase(made, bound.inputs(), bound.symbols, shapes, bound.elements()))
    return expected["sum"]


@pytest.mark.parametrize("said", ['operation = "python", reference = "numpy.add"', 'reference = "numpy.add"'])
def test_a_kernel_is_held_against_a_librarys_function(tmp_path, said):
    assert check_card(card(tmp_path, said)).cases[0].status == "passed"
    assert check_card(card(tmp_path, said, sign="-")).cases[0].status == "failed"


@pytest.fixture
def library(tmp_path, monkeypatch):
    """Makes a module `some_library` of the text."""
    before = set(sys.modules)

    def make(text: str, name: str = "some_library") -> None:
        path = tmp_path.joinpath(*name.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        monkeypatch.syspath_prepend(tmp_path)

    yield make
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("some_library", "torch"):
            del sys.modules[name]


def test_arguments_and_keywords_are_what_the_card_says(tmp_path, library):
    library("""
        def call(*given, **named):
            call.seen = (given, named)
            return given[0] * named["scale"]
    """)
    said = 'reference = "some_library.call", arguments = ["y"], keywords = { scale = { value = "1/sqrt(N)" }, '
    said += 'other = { role = "x" }, words = ["a", { value = "N" }], text = "tanh", flag = true }'
    made = card(tmp_path, said, "s32")
    result = answer(made)
    given, named = sys.modules["some_library"].call.seen
    assert len(given) == 1 and given[0].dtype == np.int64 and named["other"].dtype == np.float64
    assert named["words"] == ["a", 100] and named["text"] == "tanh" and named["flag"] is True
    np.testing.assert_allclose(result, given[0] * 0.1)


def test_torchs_functions_get_tensors(tmp_path, library, monkeypatch):
    """A stand-in for torch: what is asked of it is `from_numpy`, `detach` and `numpy`."""
    for name in [one for one in sys.modules if one.partition(".")[0] == "torch"]:  # which another test may have read
        monkeypatch.delitem(sys.modules, name)
    library(
        """
        class Tensor:
            def __init__(self, array):
                self.array = array
            def detach(self):
                return self
            def numpy(self):
                return self.array
        def from_numpy(array):
            return Tensor(array)
        """,
        "torch.__init__",
    )
    library("from torch import Tensor\ndef plus(x, y):\n    return Tensor(x.array + y.array)\n", "torch.functional")
    made = card(tmp_path, 'reference = "torch.functional.plus"')
    bound = bind(made, made.cases[0], made.variants[0])
    np.testing.assert_array_equal(answer(made), sum(bound.inputs()[role].astype(float) for role in "xy"))


@pytest.mark.skipif(not __import__("importlib.util").util.find_spec("torch"), reason="torch is not installed")
def test_torch_itself(tmp_path):
    import torch

    keywords = 'arguments = ["x"], keywords = { approximate = "tanh" }'
    made = card(tmp_path, f'reference = "torch.nn.functional.gelu", {keywords}')
    x = bind(made, made.cases[0], made.variants[0]).inputs()["x"]
    want = torch.nn.functional.gelu(torch.from_numpy(x.astype(np.float64)), approximate="tanh").numpy()
    np.testing.assert_allclose(answer(made), want)


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ('reference = "some_library.nothing"', "has no function 'nothing'"),
        ('reference = "not_installed_here.add"', "needs not_installed_here, which is not installed"),
        ('reference = "some_library.broken.add"', "cannot be imported for the reference"),
        ('reference = "some_library.fails"', "failed: ValueError: not today"),
        ('reference = "some_library.two"', "is no array of numbers"),
        ('reference = "numpy.add", arguments = ["x", "z"]', "no input has the role 'z'"),
        ('reference = "numpy.sum", keywords = { axis = { value = "Q" } }', "cannot be evaluated: Q"),
        ('reference = "numpy.dot"', "has shape [], not [100]"),
        ('reference = "numpy"', 'must look like "torch.nn.functional.silu"'),
        ('reference = "numpy.add", python = "r.py:f"', "exclude each other"),
        ('reference = "numpy.add", keywords = { a = { shape = 1 } }', "neither { role"),
        ('operation = "gemm", reference = "numpy.add"', "unknown key 'reference'"),
        ('operation = "python"', "lacks 'python'"),
    ],
)
def test_what_cannot_be_called_is_said(tmp_path, library, said, what):
    library(
        "def fails(*_):\n    raise ValueError('not today')\ndef two(*_):\n    return [['a']]\n", "some_library.__init__"
    )
    library("import not_there_either\n", "some_library.broken")
    with pytest.raises(ConfigurationError) as raised:
        answer(card(tmp_path, said))
    assert what in str(raised.value)
    assert raised.value.place is not None


def test_without_a_tolerance_there_is_nothing_to_judge_by(tmp_path):
    made = card(tmp_path, 'reference = "numpy.add"')
    (tmp_path / "k.toml").write_text("")
    text = CARD.format(computes='reference = "numpy.add"', dtype="f32").replace("tolerance", "symbols")
    (result,) = check_card(parse_card(text, tmp_path / "k.toml")).cases
    assert made.tolerance is not None and "no tolerance" in result.problem.message


def test_bfloat16_arrives_as_numbers(tmp_path):
    made = card(tmp_path, 'reference = "numpy.negative", arguments = ["y"]', "bf16")
    assert bind(made, made.cases[0], made.variants[0]).inputs()["y"].dtype == ml_dtypes.bfloat16
    assert answer(made).dtype == np.float64
