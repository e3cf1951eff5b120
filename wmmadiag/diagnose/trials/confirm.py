"""A change that a trial found right, run as it would be: in the source's text, on every case, with every check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from wmmadiag.subject.bench import CaseRun, Workbench


@dataclass(frozen=True, slots=True)
class Confirmation:
    """How a change did.

    Attributes:
        runs: of the card's cases, the smallest first; they end with the first that fails.
    """

    runs: tuple[CaseRun, ...]

    @property
    def right(self) -> bool:
        """Every case passed: right numbers, and no check found an error."""
        return all(run.passed for run in self.runs)


def confirm(bench: Workbench, files: Mapping[Path, str]) -> Confirmation:
    """Run the cases with some files' texts changed.

    Args:
        bench: of the same card and variant, with the checks that count.
        files: as `TrialBench.files` gives them.
    """
    runs: list[CaseRun] = []
    for case in bench.cases():
        runs.append(bench.run(case, files))
        if not runs[-1].passed:
            break
    return Confirmation(tuple(runs))
