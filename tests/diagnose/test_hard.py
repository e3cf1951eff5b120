"""Hard inputs: which a change is held to though no case asks for them, and which not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from wmmadiag.diagnose.engine import case_bench, diagnose_card
from wmmadiag.diagnose.hard import hard_names, overflows, runs_on_hard_inputs
from wmmadiag.errors import ConfigurationError
from wmmadiag.numerics.element_types import TYPES
from wmmadiag.ops.catalogue.attention import OPERATION
from wmmadiag.subject.card import Card
from wmmadiag.subject.card_files.read import load_card
from wmmadiag.subject.inputs import draw

KERNELS = Path(__file__).resolve().parents[2] / "kernels"


def names_of(card: Card, inputs: str = "") -> tuple[str, ...]:
    bench = case_bench(card, card.variants[0].name, "sm_90", "emulator", "default", None, inputs, None)
    return hard_names(bench, card.cases[0])


@pytest.fixture(scope="module")
def attention() -> Card:
    return load_card(KERNELS / "attention" / "kernel.toml")


def test_a_card_that_leaves_its_inputs_open_is_held_to_those_that_are_hard_for_the_operation(attention: Card) -> None:
    assert names_of(attention) == ("growing_max", "late_max", "spike")
    assert names_of(replace(attention, inputs="spike")) == ("growing_max", "late_max", "spike")


def test_who_says_which_inputs_the_kernel_is_for_is_obeyed(attention: Card) -> None:
    assert names_of(replace(attention, inputs="small_integers")) == ()
    case = replace(attention.cases[0], inputs="positive")
    assert names_of(replace(attention, cases=(case,))) == ()
    assert names_of(attention, inputs="uniform") == ()
    own = tuple(replace(one, inputs="positive") if one.name == "q" else one for one in attention.arguments)
    assert names_of(replace(attention, arguments=own)) == ()


def test_what_changes_nothing_in_the_arrays_of_a_card_is_not_run() -> None:
    assert names_of(load_card(KERNELS / "gemm" / "kernel.toml")) == ()


def test_integers_stay_as_they_are_drawn_where_sums_are_hard() -> None:
    tensors = {"q": ((2, 4, 8), TYPES["f16"]), "k": ((2, 4, 8), TYPES["f16"]),
               "seqlens": ((4,), TYPES["s32"])}  # fmt: skip
    plain, hard = draw("", tensors, 3), draw("spike", tensors, 3, hard=OPERATION.hard_inputs)
    assert np.array_equal(plain["seqlens"], hard["seqlens"])
    assert not np.array_equal(plain["q"], hard["q"])


def test_inputs_that_a_kernel_of_ones_own_cannot_bear_refute_no_change(tmp_path: Path) -> None:
    # Right, it overflows on great scores: nobody said that it must not.
    (tmp_path / "odds.cu").write_text(
        "__global__ void odds(const float* x, float* out, int n) {\n"
        "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "    if (i < n && x[i] > -5.0f) out[i] = expf(4.0f * x[i]) / expf(4.0f * x[i]);\n"
        "}\n"
    )
    (tmp_path / "reference.py").write_text(
        "import numpy as np\n"
        "def odds(inputs, symbols):\n"
        "    made = np.exp(inputs['x'].astype(float))\n"
        "    return {'out': (made, 1e-3 * made)}\n"
    )
    role = '[[arguments]]\nrole = "{0}"\ndtype = "f32"\nshape = ["N"]\ndirection = "{1}"\n'
    (tmp_path / "odds.toml").write_text(
        'format = 1\nname = "odds"\nsource = "odds.cu"\nentry = "odds"\n[computes]\npython = "reference.py:odds"\n'
        + role.format("x", "in") + role.format("out", "out")
        + '[[arguments]]\nname = "n"\ndtype = "s32"\nvalue = "N"\n'
        '[launch]\ngrid = "ceil_div(N, 64)"\nblock = 64\n[[cases]]\nN = 100\n[[cases]]\nN = 200\n'
    )  # fmt: skip
    card = load_card(tmp_path / "odds.toml")
    bench = case_bench(card, card.variants[0].name, "sm_90", "emulator", "default", None, "", None)
    assert any(not run.passed for _, run in runs_on_hard_inputs(bench, card.cases[-1], {}))
    [cause] = diagnose_card(card, threads=1).causes
    assert cause.fix is not None and "expf(5.0f * x[i]) / expf(4.0f * x[i])" in cause.fix.diff
    assert cause.verdict == "likely"
    assert any("on inputs" in one for one in cause.evidence)


SUMS = """__global__ void sums(const float* x, float* out, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= 64) return;
    float top = -1e30f, sum = 0.0f;
    for (int i = 0; i < n; ++i) {
        float value = x[row * n + i];
        float more = fmaxf(top, value);
        sum = sum * __expf(top - more) + __expf(value - more);
        top = more;
    }
    out[row] = top + __logf(sum);
}
"""


def sums_card(folder: Path, source: str) -> Card:
    (folder / "sums.cu").write_text(source)
    (folder / "reference.py").write_text(
        "import numpy as np\n"
        "def sums(inputs, symbols):\n"
        "    x = inputs['x'].astype(float)\n"
        "    top = x.max(axis=1)\n"
        "    made = top + np.log(np.exp(x - top[:, None]).sum(axis=1))\n"
        "    return {'out': (made, 1e-4 * (1 + abs(made)))}\n"
    )
    (folder / "sums.toml").write_text(
        'format = 1\nname = "sums"\nsource = "sums.cu"\nentry = "sums"\n[computes]\npython = "reference.py:sums"\n'
        '[[arguments]]\nrole = "x"\ndtype = "f32"\nshape = [64, "N"]\ndirection = "in"\n'
        '[[arguments]]\nrole = "out"\ndtype = "f32"\nshape = [64]\ndirection = "out"\n'
        '[[arguments]]\nname = "n"\ndtype = "s32"\nvalue = "N"\n'
        "[launch]\ngrid = 1\nblock = 64\n[[cases]]\nN = 40\n"
    )
    return load_card(folder / "sums.toml")


@pytest.mark.slow
def test_a_change_that_takes_the_maximum_away_is_weaker_than_one_that_keeps_it(tmp_path: Path) -> None:
    # The running maximum is kept too early: no maximum at all is right as well, while exponentials are small.
    wrong = SUMS.replace("        top = more;\n", "").replace(
        "        sum = sum", "        top = more;\n        sum = sum"
    )
    card = sums_card(tmp_path, wrong)
    bench = case_bench(card, card.variants[0].name, "sm_90", "emulator", "default", None, "", None)
    source = (tmp_path / "sums.cu").resolve()
    assert overflows(bench, card.cases[0], {source: wrong.replace("fmaxf(top, value)", "0.0f")})
    assert not overflows(bench, card.cases[0], {source: SUMS})
    assert not overflows(
        bench, replace(card.cases[0], inputs="normal"), {source: wrong.replace("fmaxf(top, value)", "0")}
    )
    [cause] = diagnose_card(card, threads=1).causes
    assert cause.fix is not None and "fmaxf(top, value)" not in cause.fix.diff.replace(
        " float more = fmaxf(top, value);", ""
    )
    assert int(cause.place.rpartition(":")[2]) in (8, 9)


def test_queries_and_keys_of_one_axis_have_no_scores() -> None:
    tensors = {"q": ((64,), TYPES["f32"]), "k": ((64,), TYPES["f32"])}
    with pytest.raises(ConfigurationError, match="which rows make a score is not known"):
        draw("spike", tensors, 3, hard=OPERATION.hard_inputs)
