"""Fit every fault model to a finished, wrong run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wmmadiag.diagnose.faults.model import Candidate, Doubles, Fitted
from wmmadiag.diagnose.faults.problem import Problem, Rows, problem_of
from wmmadiag.diagnose.faults.registry import FaultModel, all_fault_models
from wmmadiag.subject.binding import BoundCase

_PROBED_ROWS = 4  # of each probed head
_PROBED_HEADS = 3
_PROBE_PART = 0.5  # of a probed row's wrong elements that a candidate must hit to be evaluated on all rows
_SUBSTANTIAL = 0.1  # of the wrong elements
_BETTER = 0.25  # how much nearer than the oracle a prediction must lie where it explains
_NAN_PART = 0.9  # of the output: with more NaN than that, its place is no evidence
_LARGEST = 1 << 31  # multiply-adds of one evaluation; larger runs are not fitted


@dataclass(frozen=True, slots=True)
class _Probe:
    rows: Rows
    observed: Doubles
    wrong: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Fit:
    """A candidate against all rows: (B, H, rows, columns) each."""

    right: NDArray[np.bool_]
    difference: Doubles
    allowed: Doubles


def fit(bound: BoundCase, *, seconds: float = 2.0) -> tuple[Fitted, ...]:
    """The fault models that reproduce a finished, wrong run, best first.

    Empty where the run is right, too large, of an operation without models, or where no model explains something
    substantial.

    Args:
        seconds: of computing (not of waiting for a busy machine) after which no further model is tried.
    """
    problem = problem_of(bound)
    if problem is None or not problem.wrong.any() or _work(problem) > _LARGEST:
        return ()
    return fit_problem(problem, seconds=seconds)


def fit_problem(problem: Problem, *, seconds: float = 2.0) -> tuple[Fitted, ...]:
    """As `fit`."""
    stop = time.thread_time() + seconds
    probes = _probes(problem)
    found: list[tuple[int, int, Fitted]] = []
    seen: list[Doubles] = []
    with np.errstate(all="ignore"):
        for rank, candidate in _candidates(problem):
            if time.thread_time() > stop:
                break
            # Once everything is explained, only what might do so, too, is of interest.
            if not _plausible(candidate, probes, any(not one.partial for _, _, one in found)):
                continue
            outcome = evaluate(problem, candidate)
            fitted = None if outcome is None else _fitted(problem, candidate, outcome)
            if fitted is None or outcome is None:
                continue
            same = _known(fitted, outcome.difference, seen, [one for _, _, one in found])
            if same is not None:
                earlier = found[same]
                found[same] = (earlier[0], earlier[1], _or(earlier[2], fitted))
                continue
            seen.append(outcome.difference)
            found.append((rank, len(found), fitted))
    wrong = int(np.count_nonzero(problem.wrong))
    return tuple(one for _, _, one in sorted(found, key=lambda entry: _order(entry, wrong)))


def _order(entry: tuple[int, int, Fitted], wrong: int) -> tuple[float, ...]:
    rank, number, fitted = entry
    unexplained = wrong - fitted.explains + fitted.broken
    return (fitted.partial, unexplained if fitted.partial else 0, rank, number)


def _known(fitted: Fitted, difference: Doubles, seen: list[Doubles], found: list[Fitted]) -> int | None:
    """Which earlier fit of the same model makes the same prediction with other parameters."""
    for number, (one, other) in enumerate(zip(found, seen, strict=True)):
        if one.model == fitted.model and np.allclose(difference, other, rtol=1e-6, atol=1e-12, equal_nan=True):
            return number
    return None


def _or(earlier: Fitted, other: Fitted) -> Fitted:
    """The earlier fit, with the parameters under which the same is predicted."""
    said = ", ".join(f"{name}={value}" for name, value in other.parameters.items())
    before = earlier.parameters.get("or")
    return replace(earlier, parameters={**earlier.parameters, "or": f"{before}; {said}" if before else said})


def _work(problem: Problem) -> int:
    depth = max(array.shape[-1] for array in problem.arrays.values())
    keys = max(array.shape[-2] for array in problem.arrays.values())
    return int(problem.observed.size * max(depth, keys))


def _candidates(problem: Problem) -> Iterator[tuple[int, Candidate]]:
    models: tuple[FaultModel, ...] = all_fault_models()
    for model in models:
        if problem.operation in model.operations:
            for candidate in model.propose(problem):
                yield model.rank, candidate


def _probes(problem: Problem) -> tuple[_Probe, ...]:
    """A few wrong rows of a few heads: the first, the last, the most wrong."""
    counts = problem.wrong.sum(axis=(2, 3))
    affected = [lead for lead in problem.leads if counts[lead]]
    most = max(affected, key=lambda lead: int(counts[lead]))
    leads = dict.fromkeys([most, affected[-1], affected[0]])
    probes = []
    for lead in list(leads)[:_PROBED_HEADS]:
        per_row = problem.wrong[lead].sum(axis=1)
        finite = np.isfinite(problem.observed[lead]).any(axis=1) & (per_row > 0)
        rows = np.flatnonzero(finite) if finite.any() else np.flatnonzero(per_row)
        peak = rows[np.argmax(per_row[rows])]
        chosen = sorted({int(peak), int(rows[0]), int(rows[-1]), int(rows[len(rows) // 2])})[:_PROBED_ROWS]
        index = np.array(chosen, np.intp)
        probes.append(_Probe(problem.rows(lead, index), problem.observed[lead][index], problem.wrong[lead][index]))
    return tuple(probes)


def tolerances(rows: Rows, predicted: Doubles, candidate: Candidate) -> Doubles:
    """What rounding may move a changed output: the bound, times what the change enlarges.

    The bound is first order in the size of the summed products; a change that makes a whole row larger (no
    normalisation, say) enlarges it likewise.
    """
    if candidate.coarser:
        coarse: Doubles = rows.problem.allowed_under(candidate.coarser)[rows.lead][rows.index]
        return coarse
    allowed = rows.problem.allowed[rows.lead][rows.index]
    expected = rows.expected
    size = np.abs(expected).max(axis=1, keepdims=True)
    new = np.where(np.isfinite(predicted), np.abs(predicted), 0.0).max(axis=1, keepdims=True)
    growth = np.maximum(1.0, new / np.maximum(size, 1e-300))
    allowed = allowed * (candidate.looser * growth)
    allowed = allowed + rows.problem.elements[rows.problem.role].unit * np.abs(predicted)
    if not rows.problem.attends:
        return np.asarray(allowed)
    # A row with one key has next to no bound; with another key its weights are rounded like any others.
    return np.asarray(np.maximum(allowed, new * rows.problem.weight_rounding))


def _matches(
    rows: Rows, observed: Doubles, predicted: Doubles, candidate: Candidate
) -> tuple[NDArray[np.bool_], Doubles]:
    allowed = tolerances(rows, predicted, candidate)
    right = np.abs(observed - predicted) <= allowed
    open_ = np.isnan(predicted)
    right |= open_ & ~np.isfinite(observed)
    if candidate.hypothesis == "causal-mask" or candidate.about in (
        "mask",
        "lengths",
    ):  # a row that a mask leaves without a key may be 0, too
        right |= open_.all(axis=1, keepdims=True) & (observed == 0)
    right |= np.isinf(observed) & (observed == predicted)
    return right & ~rows.problem.unwritten[rows.lead][rows.index], allowed


def _predicted(candidate: Candidate, rows: Rows) -> Doubles:
    """What a candidate says of some rows; of rows that never had a key only a model of these rows says anything.

    Any formula is 0/0 there. A kernel whose only fault is that it is 0/0, too, is not explained by other formulas.
    """
    predicted = candidate.predict(rows)
    if candidate.hypothesis == "masked-row" or not rows.causal or predicted.shape != rows.expected.shape:
        return predicted
    empty = ~rows.allowed.any(axis=1, keepdims=True)
    return np.where(empty & np.isnan(predicted), rows.expected, predicted) if empty.any() else predicted


def _plausible(candidate: Candidate, probes: tuple[_Probe, ...], whole: bool) -> bool:
    """Whether some probed row's wrong elements are hit, or, for `whole`, all of every row's."""
    for probe in probes:
        predicted = _predicted(candidate, probe.rows)
        right, _ = _matches(probe.rows, probe.observed, predicted, candidate)
        if whole:
            if (probe.wrong & ~right).any():
                return False
            continue
        hit = (right & probe.wrong).sum(axis=1)
        if (hit >= np.maximum(_PROBE_PART * probe.wrong.sum(axis=1), 1)).any():
            return True
    return whole


def evaluate(problem: Problem, candidate: Candidate) -> Fit | None:
    """A candidate against every row of every (batch, head)."""
    right = np.empty(problem.observed.shape, np.bool_)
    difference = np.empty(problem.observed.shape)
    allowed = np.empty(problem.observed.shape)
    for lead in problem.leads:
        rows = problem.all_rows(lead)
        predicted = _predicted(candidate, rows)
        if predicted.shape != problem.observed[lead].shape:
            return None
        right[lead], allowed[lead] = _matches(rows, problem.observed[lead], predicted, candidate)
        difference[lead] = np.abs(problem.observed[lead] - predicted)
    return Fit(right, difference, allowed)


def _fitted(problem: Problem, candidate: Candidate, outcome: Fit) -> Fitted | None:
    """What is left of a candidate, or None where it explains too little, or nothing the input could tell."""
    wrong = problem.wrong
    explained = outcome.right & wrong
    count, total = int(np.count_nonzero(explained)), int(np.count_nonzero(wrong))
    broken = int(np.count_nonzero(~outcome.right & ~wrong))
    if count < max(1, _SUBSTANTIAL * total) or broken >= count:
        return None
    finite = explained & np.isfinite(problem.observed)
    # That NaN is predicted somewhere says little, that it is predicted there and nowhere else much.
    open_ = count - int(np.count_nonzero(finite))
    if open_ > count / 2 and (broken or count < total or wrong.mean() > _NAN_PART):
        return None
    if finite.any() and not candidate.coarser:
        # A loosened bound may reach from the kernel's value to the oracle's: then nothing has been shown.
        own = np.abs(problem.observed - problem.expected)[finite]
        if np.sqrt(np.mean(outcome.difference[finite] ** 2)) > np.sqrt(np.mean(own**2)) * _BETTER:
            return None
    partial = count < total or broken > 0
    with np.errstate(all="ignore"):
        ratio = np.where(outcome.difference == 0, 0.0, outcome.difference / outcome.allowed)
    excused = outcome.right & ~np.isfinite(outcome.difference)
    ratio = np.where(excused, 0.0, np.where(np.isnan(ratio), np.inf, ratio))
    return Fitted(
        candidate.hypothesis,
        candidate.model,
        candidate.words,
        dict(candidate.parameters),
        float(ratio.max()),
        {problem.role: explained.reshape(problem.shape)},
        broken,
        partial,
        candidate,
    )
