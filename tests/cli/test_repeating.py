"""The command that a report or a diagnosis says repeats it: parsed by the command line itself, it asks for the same."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

import wmmadiag
from wmmadiag import api
from wmmadiag.backends import RunLimits
from wmmadiag.cli import check, diagnose
from wmmadiag.subject.repeating import options

KERNELS = Path(__file__).parents[2] / "kernels"
CARD = KERNELS / "gemm/wrong/blas_ldb_is_n.toml"
RIGHT = KERNELS / "gemm/lookalike/row_tail.toml"


def parsed(command: str, module: object) -> argparse.Namespace:
    name = module.__name__.rpartition(".")[2]  # type: ignore[attr-defined]
    words = shlex.split(command)
    assert words[:2] == ["wmmadiag", name]
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)  # type: ignore[attr-defined]
    return parser.parse_args(words[2:])


def two_variants(tmp_path: Path) -> Path:
    card = tmp_path / "k.toml"
    text = CARD.read_text().replace('source = "', f'source = "{CARD.parent}/')
    card.write_text(text + "\n[variants.one]\n[variants.other]\n")
    return card


def test_a_case_is_repeated_with_all_that_it_was_asked_for(tmp_path: Path) -> None:
    card = two_variants(tmp_path)
    name = api.open_card(card).cases[0].name
    report = wmmadiag.check(
        card, arch="sm_86", variants=["other"], cases=[name], seed=7, inputs="uniform", checks=["races", "memory"],
        schedules=1, provenance=True, against=CARD, limits=RunLimits(seconds=50.0), macros={"UNUSED": "1"},
        symbols={"batch": 1}, shared="16 * 64",
    )  # fmt: skip
    found = parsed(report.cases[0].repeat, check)
    assert (found.paths, found.case, found.variant) == ([str(card)], [name], ["other"])
    assert (found.arch, found.seed, found.inputs) == (["sm_86"], 7, "uniform")
    assert (found.checks, found.schedules, found.provenance) == ("races,memory", 1, True)
    assert (found.against, found.budget_seconds, found.backend) == (str(CARD), 50.0, "emulator")
    assert (found.define, found.symbol, found.shared) == ([("UNUSED", "1")], [("batch", "1")], "16 * 64")


def test_a_diagnosis_is_repeated_with_all_that_it_was_asked_for(tmp_path: Path) -> None:
    card = two_variants(tmp_path)
    names = [case.name for case in api.open_card(card).cases][:2]
    said = api.diagnosis(
        card, arch="sm_86", variant="other", cases=names, seed=7, inputs="uniform", checks="none", effort="quick",
        macros={"UNUSED": "1"},
    )  # fmt: skip
    found = parsed(said.repeat, diagnose)
    assert (found.path, found.case, found.variant) == (str(card), names, "other")
    assert (found.arch, found.seed, found.inputs, found.checks) == ("sm_86", 7, "uniform", "none")
    assert (found.effort, found.define, found.backend) == ("quick", [("UNUSED", "1")], "emulator")


def test_what_was_not_asked_for_is_not_said() -> None:
    said = api.diagnosis(RIGHT)
    assert said.repeat == f"wmmadiag diagnose {RIGHT} --arch sm_90"
    assert options({"threads": (3, 0), "backend": ("gpu", "emulator"), "compiler": ("auto", "auto")}) == (
        "--threads", "3", "--backend", "gpu",
    )  # fmt: skip
