"""What a platform probe answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

ProbeVerdict: TypeAlias = Literal["right", "wrong", "undecided"]
"""Right: the platform does what documentation and wmmadiag's tables say. Wrong: it does something else."""

EXIT_CODES: Mapping[ProbeVerdict, int] = {"right": 0, "wrong": 1, "undecided": 3}


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """The answer to one question on one architecture."""

    verdict: ProbeVerdict  # see `ProbeVerdict`
    lines: tuple[str, ...]  # one or two plain sentences that a user can act on
    table: tuple[str, ...] = ()  # further lines, for those who want to see all of it
    # what was measured, of JSON's types; the same on every backend, so that a GPU's can be replayed
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer with what it was asked of."""

    probe: str
    arch: str
    backend: str
    seconds: float
    answer: ProbeAnswer

    def as_data(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "probe": self.probe,
            "arch": self.arch,
            "backend": self.backend,
            "verdict": self.answer.verdict,
            "lines": list(self.answer.lines),
            "table": list(self.answer.table),
            "data": dict(self.answer.data),
            "seconds": round(self.seconds, 4),
        }


def exit_code(answers: list[Answered]) -> int:
    """1 if any answer is wrong, else 3 if any is undecided, else 0."""
    codes = {EXIT_CODES[one.answer.verdict] for one in answers}
    return 1 if 1 in codes else 3 if 3 in codes else 0
