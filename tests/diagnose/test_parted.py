"""Programs of many changes in which one of them spoils what the others are tried on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from wmmadiag.diagnose.changes import Change, TextEdit
from wmmadiag.diagnose.trials.outcomes import Outcome
from wmmadiag.diagnose.trials.parted import Ran, parted
from wmmadiag.diagnose.trials.setting import Setting
from wmmadiag.diagnose.trials.trial_bench import TrialBench
from wmmadiag.subject.card_files.read import load_card


def changes(count: int) -> list[Change]:
    return [Change("made", (TextEdit("k.cu", at, at + 1, "x"),), "expression", "value", str(at)) for at in range(count)]


@pytest.mark.parametrize("spoiling", [set(), {0}, {9}, {3, 12}, {5, 6}])
def test_what_spoils_a_program_is_found_in_halves(spoiling: set[int]) -> None:
    every, asked = changes(16), list[int]()

    def run(some: Sequence[Change], anyway: bool) -> Ran:
        asked.append(len(some))
        found = {one: Outcome(one, "right", 4) for one in some}
        return Ran(found, faithful=not any(int(one.note) in spoiling for one in some))

    made = parted(every, run)
    assert {int(one.note) for one in made.misleading} == spoiling == {int(one.note) for one in made.alone}
    assert {int(one.note) for one in made.found} == set(range(16)) - spoiling
    assert len(asked) <= 1 + 8 * len(spoiling)
    assert made.found.keys().isdisjoint(made.alone)


def test_what_differs_in_every_part_is_the_kernels_own() -> None:
    asked = list[int]()

    def run(some: Sequence[Change], anyway: bool) -> Ran:
        asked.append(len(some))
        return Ran({one: Outcome(one, "same", 4) for one in some if anyway}, faithful=False)

    made = parted(changes(16), run)
    assert len(made.found) == 16 and not made.alone and asked == [16, 8, 8, 4, 4, 4, 4, 16]


def test_a_reference_that_becomes_a_value_does_not_spoil_the_others(tmp_path: Path) -> None:
    # `(sel ? AS_CONST(y) : AS_FLOAT4(y)) = …` compiles, and assigns to a copy.
    (tmp_path / "copy.cu").write_text(
        "#define AS_FLOAT4(p) (reinterpret_cast<float4*>(&(p))[0])\n"
        "#define AS_CONST(p) (reinterpret_cast<const float4*>(&(p))[0])\n"
        "__global__ void copy(const float* x, float* y, int n) {\n"
        "    int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;\n"
        "    if (i + 4 <= n) { AS_FLOAT4(y[i]) = AS_CONST(x[i]); y[i] += 1.0f; }\n"
        "}\n"
    )
    (tmp_path / "reference.py").write_text("def copy(inputs, symbols):\n    return {'y': (inputs['x'] + 0.0, 1e-6)}\n")
    role = '[[arguments]]\nrole = "{0}"\ndtype = "f32"\nshape = ["N"]\ndirection = "{1}"\n'
    (tmp_path / "copy.toml").write_text(
        'format = 1\nname = "copy"\nsource = "copy.cu"\nentry = "copy"\n[computes]\npython = "reference.py:copy"\n'
        + role.format("x", "in") + role.format("y", "out")
        + '[[arguments]]\nname = "n"\ndtype = "s32"\nvalue = "N"\n'
        '[launch]\ngrid = "ceil_div(N, 128)"\nblock = 32\n[[cases]]\nN = 256\n'
    )  # fmt: skip
    card = load_card(tmp_path / "copy.toml")
    bench = TrialBench(Setting(card, card.variants[0], card.cases[0]), threads=1)
    [file] = bench.texts
    text = bench.texts[file].decode()

    def edit(old: str, new: str, kind: str) -> Change:
        at = text.index(old, text.index("if (i"))
        return Change("made", (TextEdit(file, at, at + len(old), new),), kind, "value", new)  # type: ignore[arg-type]

    spoiling = edit("AS_FLOAT4(y[i])", "AS_CONST(y[i])", "expression")
    others = [
        edit("1.0f", "0.0f", "expression"),
        edit("i + 4", "i + 3", "expression"),
        edit("n)", "n - 1)", "expression"),
    ]
    outcomes = {one.change: one for one in bench.try_batch([spoiling, *others])}
    assert outcomes[others[0]].verdict == "right" and outcomes[others[1]].verdict == "same"
    assert all(outcomes[one].faithful for one in others)
    assert outcomes[spoiling].verdict == "refused"
