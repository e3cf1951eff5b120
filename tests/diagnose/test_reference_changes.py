"""Which change of the reference gives what a wrong kernel computed."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import numpy as np
import pytest

from wmmadiag import backends
from wmmadiag.diagnose.spec.fit import reproduced
from wmmadiag.diagnose.spec.program import ReferencePart, ReferenceProgram, TooManyRoundsError
from wmmadiag.diagnose.spec.trees import copied
from wmmadiag.subject.bench import CaseRun, Workbench
from wmmadiag.subject.card_files.read import load_card
from wmmadiag.subject.compiling import SubjectCompiler

ROOT = Path(__file__).parents[2]


def _run(changed: tuple[str, str] | None) -> CaseRun:
    """A case of the GEMM that reads and writes C in one array."""
    card = load_card(ROOT / "kernels/gemm/tf32.toml")
    bench = Workbench(card, card.variants[0], "sm_90", backends.backend("emulator"), (), SubjectCompiler())
    text = card.source.read_text("utf-8")
    if changed is not None:
        assert text.count(changed[0]) == 1
        text = text.replace(*changed)
    case = next(one for one in bench.cases() if one.name == "odd")
    return bench.run(case, {card.source.resolve(): text})


def test_what_is_given_and_returned_in_one_array_is_held_to_changed_references() -> None:
    run = _run(("x += beta * T::widen(*target);", "x += T::widen(*target);"))
    assert not run.passed and run.bound is not None and run.verdict is not None
    said = [one.sentence() for one in reproduced(run.bound, run.verdict)]
    assert any("beta" in one for one in said), said


def test_a_right_run_is_no_changed_reference() -> None:
    run = _run(None)
    assert run.passed and run.bound is not None and run.verdict is not None
    assert reproduced(run.bound, run.verdict) == ()


def doubled(x: np.ndarray) -> dict[str, np.ndarray]:
    made, rounds = x, 0
    while rounds < 3:
        made = np.concatenate([made, made])
        rounds += 1
    return {"y": made}


@pytest.mark.parametrize(
    ("old", "new", "size"),
    [("rounds < 3", "rounds <= 3", 32), ("rounds < 3", "rounds < 40", None), ("rounds += 1", "rounds -= 1", None)],
    ids=["one more", "many more", "endless"],
)
def test_a_changed_reference_goes_round_hardly_more_often(old: str, new: str, size: int | None) -> None:
    """Each round doubles the array: forty of them would take all memory there is."""
    text = inspect.getsource(doubled)
    trees = [ast.parse(one).body[0] for one in (text, text.replace(old, new))]
    assert text.count(old) == 1 and all(isinstance(one, ast.FunctionDef) for one in trees)
    part = ReferencePart(doubled, trees[0], "", 1)  # type: ignore[arg-type]
    program = ReferenceProgram(doubled, (part,), lambda function: function(np.ones(2)))
    if size is None:
        with pytest.raises(TooManyRoundsError):
            program.changed(part, trees[1])  # type: ignore[arg-type]
    else:
        assert program.changed(part, trees[1])["y"].size == size  # type: ignore[arg-type]


def test_a_copied_tree_is_the_same_and_shares_nothing() -> None:
    tree = ast.parse("def f(x, *, y=(1, None)):\n    if x[1:] < y and not x:\n        x += [y]\n    return f'{x}'")
    made = copied(tree)
    assert ast.dump(made, include_attributes=True) == ast.dump(tree, include_attributes=True)
    assert not {id(one) for one in ast.walk(made)} & {id(one) for one in ast.walk(tree)}
