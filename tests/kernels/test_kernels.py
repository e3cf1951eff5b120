"""The shipped kernels pass on every target, and the wrong ones fail with the tiles that their cards announce."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from wmmadiag.results.model import CaseResult
from wmmadiag.subject.card_files.read import load_card
from wmmadiag.subject.check import check_card

KERNELS = Path(__file__).parents[2] / "kernels"
WRONG = KERNELS / "attention" / "wrong"
RIGHT_CARDS = sorted(KERNELS.glob("*/*.toml"))  # wrong/ and lookalike/ below them: test_wrong_kernels.py

# The rest of the cases differ from these in sizes only. The others run on one target.
EVERYWHERE = {"tail", "causal_d128", "odd"}
LARGE = "batched"  # B=2, H=8, S=512: seconds, not a test's business; `wmmadiag check kernels/*/*.toml` runs it


def _small_cases(path: Path, arch: str) -> list[str]:
    names = [case.name for case in load_card(path).cases if case.name != LARGE]
    return [name for name in names if arch == "sm_90" or name in EVERYWHERE]


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90"])
@pytest.mark.parametrize("path", RIGHT_CARDS, ids=lambda path: f"{path.parent.name}-{path.stem}")
@pytest.mark.corpus
def test_right_kernel_passes(path: Path, arch: str) -> None:
    cases = _small_cases(path, arch)
    assert cases
    report = check_card(load_card(path), arch=arch, cases=cases)
    failures = [
        (case.variant, case.case, case.status, case.problem) for case in report.cases if case.status != "passed"
    ]
    assert failures == []


def _tiles(result: CaseResult) -> list[str]:
    """Each wrong head's map as text: '#' for a tile with a wrong element, tile rows separated by blanks."""
    (observation,) = result.observations
    return [" ".join("".join("#" if n else "." for n in row) for row in tiles.counts) for tiles in observation.tiles]


def _wrong_rows(result: CaseResult) -> set[int]:
    (observation,) = result.observations
    rows = observation.axes[2]  # of B, H, S, D
    return {index for start, stop in rows.ranges for index in range(start, stop)}


ALL_WRONG_S64 = "#### #### #### ####"
ALL_WRONG_S100 = "#### #### #### #### #### #### ####"


@pytest.mark.parametrize(
    ("name", "case", "expected"),
    [
        ("qk_not_transposed", "two_heads", ALL_WRONG_S64),
        ("qk_not_transposed", "tail", ALL_WRONG_S100),
        ("pv_overwritten", "tail", ALL_WRONG_S100),
        ("ldm_ignores_padding", "two_heads", ALL_WRONG_S64),
        ("ldm_ignores_padding", "tail", ALL_WRONG_S100),
        ("too_few_warps", "two_heads", ".... #### .... ####"),
        ("too_few_warps", "tail", ".... #### .... #### .... #### ...."),
    ],
)
def test_wrong_kernel_fails_with_its_tile_map(name: str, case: str, expected: str) -> None:
    (result,) = check_card(load_card(WRONG / f"{name}.toml"), cases=[case]).cases
    assert result.status == "failed"
    assert _tiles(result) == [expected] * 2  # both heads


@pytest.mark.parametrize(
    ("name", "rows_are_wrong"),
    [
        ("ldm_ignores_padding", lambda row: row % 16 != 0),
        ("too_few_warps", lambda row: row % 32 >= 16),
    ],
    ids=["ldm_ignores_padding", "too_few_warps"],
)
def test_wrong_rows(name: str, rows_are_wrong: Callable[[int], bool]) -> None:
    (result,) = check_card(load_card(WRONG / f"{name}.toml"), cases=["two_heads"]).cases
    assert _wrong_rows(result) == {row for row in range(64) if rows_are_wrong(row)}


def test_overwritten_accumulator_is_right_with_one_tile_of_keys() -> None:
    (result,) = check_card(load_card(WRONG / "pv_overwritten.toml"), cases=["two_heads"]).cases
    assert result.status == "passed"


def test_store_to_a_local_array_dies_and_is_announced() -> None:
    report = check_card(load_card(WRONG / "local_array.toml"), cases=["two_heads"])
    (result,) = report.cases
    assert result.status == "failed"
    assert result.problem is not None
    assert result.problem.kind == "trap"
    assert any("store_matrix_sync" in note for compiled in report.compiled for note in compiled.notes)
