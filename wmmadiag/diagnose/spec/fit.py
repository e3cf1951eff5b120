"""Which change of a reference gives what a wrong kernel gave."""

from __future__ import annotations

import ast
import contextlib
import io
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wmmadiag.diagnose.spec.mutations import mutants
from wmmadiag.diagnose.spec.program import ReferencePart, ReferenceProgram, program_of
from wmmadiag.subject.binding import BoundCase
from wmmadiag.subject.verdict import Verdict, wrong_masks

MOST = 1500
"""Changes that are tried."""
_APART = 4.0
"""How many bounds the reference itself must be off, at the worst element, for a fit to say anything."""


@dataclass(frozen=True, slots=True)
class Reproduced:
    """A change with which the reference gives the kernel's output."""

    # before, after: text of the changed expression; `after` is "" for a statement left out
    before: str
    after: str
    # file, line: of the user's reference; "" and 0 for the project's own
    file: str
    line: int
    residual: float  # largest |kernel − changed reference| in units of the bound, over all elements

    def sentence(self) -> str:
        """What the kernel computes, in one sentence."""
        if not self.after:
            return f"the kernel computes what the reference does without `{self.before}`"
        return f"the kernel computes what the reference does with `{self.after}` in place of `{self.before}`"


def reproduced(bound: BoundCase, verdict: Verdict) -> tuple[Reproduced, ...]:
    """The changes of a case's reference that give all of a finished, wrong run's output, the nearest first.

    Args:
        bound: the case; its arrays hold what the run left.
    """
    program = program_of(bound)
    observed = {role: array.astype(np.float64) for role, array in bound.outputs().items()}
    if program is None or not any(mask.any() for mask in wrong_masks(bound, verdict).values()):
        return ()
    found: list[Reproduced] = []
    with warnings.catch_warnings(), np.errstate(all="ignore"), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        if not _tells(observed, verdict):
            return ()
        for number, (part, tree, before, after, line) in enumerate(_changes(program)):
            if number >= MOST:
                break
            try:
                residual = _residual(observed, program.changed(part, tree), verdict)
            except Exception:  # a changed function may raise anything, and give anything
                continue
            if residual <= 1:
                place = line + part.line - 1 if part.file else 0
                found.append(Reproduced(before, after, part.file, place, residual))
    return tuple(sorted(dict.fromkeys(found), key=lambda one: (len(one.before) + len(one.after), one.residual)))


def _changes(program: ReferenceProgram) -> Iterator[tuple[ReferencePart, ast.FunctionDef, str, str, int]]:
    siblings = sorted(name for name, value in vars(np).items() if isinstance(value, np.ufunc))
    for part in program.parts:
        for tree, before, after, line in mutants(part.tree, siblings):
            yield part, tree, before, after, line


def _tells(observed: Mapping[str, NDArray[np.float64]], verdict: Verdict) -> bool:
    """Whether the output is so far from the reference that a change which gives it is no chance."""
    return _residual(observed, verdict.expected, verdict) > _APART


def _residual(
    observed: Mapping[str, NDArray[np.float64]], predicted: Mapping[str, NDArray[np.float64]], verdict: Verdict
) -> float:
    """The largest difference in units of the bound; infinite where one alone is not finite.

    What is given and returned in one array is judged under both names, observed under one, and given by the reference
    under the other.
    """
    worst = 0.0
    for role, seen in observed.items():
        judged = verdict.judgements.get(role)
        if judged is None:
            continue
        named = next((name for name in predicted if name == role or _same(verdict, name, role)), "")
        said = np.asarray(predicted.get(named, np.nan), np.float64)
        if said.shape != seen.shape:
            return float("inf")
        same = (seen == said) | (np.isnan(seen) & np.isnan(said))
        ratio = np.where(same, 0.0, np.abs(seen - said) / judged.bound)
        worst = max(worst, float(np.where(np.isnan(ratio), np.inf, ratio).max(initial=0.0)))
    return worst


def _same(verdict: Verdict, one: str, other: str) -> bool:
    """Whether two names are of one array."""
    expected = verdict.expected
    return one in expected and other in expected and np.array_equal(expected[one], expected[other], equal_nan=True)
