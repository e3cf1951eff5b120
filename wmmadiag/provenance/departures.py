"""The first line whose values depart from the operation, as a disagreement; backed by wrong elements of the output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from wmmadiag.ops.parts.rounding import Doubles, Where
from wmmadiag.ops.stages.model import FINAL, INNER, ExpectedOutput, Judged, SampleRole, Stages
from wmmadiag.place import Place
from wmmadiag.provenance.model import Disagreement, Reach, Stage
from wmmadiag.provenance.outputs import JudgedOutput
from wmmadiag.provenance.stages import first_departure, stage_of
from wmmadiag.subject.binding import BoundCase
from wmmadiag.subject.verdict import Verdict, judge_case, wrong_masks


def stages_and_root(
    case: BoundCase,
    operation: Stages,
    judged: Sequence[Judged],
    expected: Sequence[ExpectedOutput],
    others: Sequence[Disagreement],
    outputs: Sequence[JudgedOutput],
) -> tuple[tuple[Stage, ...], tuple[Disagreement, ...], Mapping[str, Where], tuple[str, ...]]:
    """(stages, the root if one line departs first, wrong elements that tags say nothing about, notes).

    Args:
        others: disagreements of tags; what they reach needs no other cause.
        outputs: what tags say of each output's elements.
    """
    if not expected or not judged:
        return (), (), {}, ()
    verdict = judge_case(case, other_readings=False)
    wrong = wrong_masks(case, verdict)
    for one in others:
        for role, mask in one.masks.items():
            if role in wrong:
                wrong[role] = wrong[role] & ~mask
    known = {output.role: output.explained for output in outputs}
    unknown = {role: mask & ~known[role] for role, mask in wrong.items() if role in known}
    wrong = {role: mask & known[role] for role, mask in wrong.items() if role in known}
    unexplained = {role: mask for role, mask in wrong.items() if mask.any()}
    # Whatever departs after the first departure may be its consequence; scores and weights depend on no sum.
    departing = [one for one in judged if not one.fits]
    first = min(departing, key=lambda one: (one.seen.kind, one.departs_at), default=None)
    root = None if first is None or not unexplained else _claim(operation, first, judged, expected, unexplained)
    stages = [
        stage_of(one, expected, "fits" if one.fits else "departs" if root is not None else "unknown") for one in judged
    ]
    if root is None and unexplained:
        root = _output(case, operation, verdict, judged, unexplained)
    if root is not None and root.kind == "value" and others:
        root = replace(root, because_of=others[0])
    notes = tuple(_notes(stages, root))
    found = () if root is None else (root,)
    return tuple(stages), found, {role: mask for role, mask in unknown.items() if mask.any()}, notes


def _notes(stages: Sequence[Stage], root: Disagreement | None) -> Iterator[str]:
    for stage in stages:
        if stage.status == "unknown" and root is None:
            yield f"{stage.place}: {stage.what} does not fit any known stage"


def _claim(
    operation: Stages,
    one: Judged,
    judged: Sequence[Judged],
    expected: Sequence[ExpectedOutput],
    wrong: Mapping[str, Where],
) -> Disagreement | None:
    """A line's departure, if its values and the output back it."""
    seen, departing = one.seen, ~one.best.fit.right
    reach: dict[str, Where] = {}
    for number in np.unique(seen.output[departing]):
        output = expected[int(number)]
        if output.role not in wrong:
            continue
        mask = reach.setdefault(output.role, np.zeros(wrong[output.role].shape, bool))
        here = departing & (seen.output == number)
        if seen.kind == FINAL and not one.faults:
            mask[output.lead][seen.row[here], seen.column[here]] = True
        else:
            mask[output.lead][seen.row[here]] = True
    kind, words, place = "value", "", seen.place
    if (
        operation.words.several_factors
        and seen.kind == FINAL
        and seen.role is SampleRole.STORE
        and all(other.fits for other in judged if other.seen.kind == INNER or other.seen.role is not SampleRole.STORE)
    ):
        factors = _factors_of_row(one)
        if factors:
            kind = "normalisation"
            words = operation.words.several_factors.format(", ".join(factors))
    if one.faults:
        fault = one.faults[0]
        kind, words = fault.kind, fault.words
        if kind == "scale" and fault.reading.factor is not None:
            earlier = [other for other in judged if other.seen.group[0] < seen.group[0]]
            place = _where_scaled(fault.reading.factor, operation.notations, earlier) or place
        if seen.partial or fault.everywhere:
            reach = dict(wrong)
    backed = {role: mask & wrong[role] for role, mask in reach.items() if (mask & wrong[role]).any()}
    if not backed:
        return None
    first = first_departure(one, expected)
    assert first is not None
    axes = operation.words.inner_axes if seen.kind == INNER else "(row, column)"
    detail = [
        f"first at {axes} {list(first.index)}: {first.observed:.6g}, expected {first.expected:.6g}",
        f"{one.best.fit.departs} of {len(seen.values)} values checked here depart from {one.best.words}",
    ]
    made = [other.seen.place for other in judged if other.seen.kind == INNER and other.seen.role is SampleRole.STORE]
    from_memory = seen.role is SampleRole.OPERAND and bool(made)
    if not words:
        few = 2 * one.best.fit.departs < len(seen.values)
        meant = one.best.words if few else operation.words.inner if seen.kind == INNER else "the operation's sum so far"
        words = f"what is {_VERBS[seen.role]} here is not {meant}" + ("" if few else ", read in any known way")
    other_place = seen.place if place != seen.place else made[-1] if from_memory else None
    return Disagreement(
        kind, place, words, other=other_place, detail=tuple(detail),
        count=one.best.fit.departs, reach=tuple(Reach.of_mask(role, mask) for role, mask in backed.items()),
        hint=operation.words.hints[kind],
    )  # fmt: skip


def _factors_of_row(one: Judged) -> tuple[str, ...]:
    """The few factors that values of the first departing row have, or nothing."""
    seen, fit = one.seen, one.best.fit
    at = int(np.flatnonzero(~fit.right)[0])
    row = (seen.output == seen.output[at]) & (seen.row == seen.row[at]) & (seen.matrix == seen.matrix[at])
    big = row & (np.abs(fit.expected) > 0.05 * np.abs(fit.expected[row]).max(initial=0.0)) & np.isfinite(seen.values)
    if np.count_nonzero(big) < 8:
        return ()
    ratios = np.sort(seen.values[big] / fit.expected[big])
    starts = np.flatnonzero(np.r_[True, np.diff(ratios) > 0.01 * np.abs(ratios[:-1])])
    return tuple(f"{ratios[start]:.4g}" for start in starts) if 1 < len(starts) <= min(8, len(ratios) // 4) else ()


_VERBS = {
    SampleRole.OPERAND: "multiplied",
    SampleRole.ACCUMULATOR: "accumulated onto",
    SampleRole.RESULT: "accumulated",
    SampleRole.STORE: "stored",
}


def _where_scaled(factor: float, notations: Sequence[float], before: Sequence[Judged]) -> Place | None:
    """The line that left values by an unusual factor which is the one that later ones turned out to have."""
    for one in before:
        found = one.best.factor
        if one.seen.kind != INNER or found is None or one.best.usual:
            continue
        if any(abs(found / (factor * x) - 1) < 0.02 for x in notations):
            return one.seen.place
    return None


def _output(
    case: BoundCase, operation: Stages, verdict: Verdict, judged: Sequence[Judged], wrong: Mapping[str, Where]
) -> Disagreement | None:
    """All lines are consistent, and the output is not: what its last store leaves."""
    stores = [one for one in judged if one.seen.kind == FINAL and one.seen.role is SampleRole.STORE]
    if not stores or not all(one.fits for one in judged if one.seen.kind == FINAL):
        return None
    last = max(stores, key=lambda one: int(one.seen.group.max()))
    place = last.seen.place
    outputs = {role: array.astype(np.float64) for role, array in case.outputs().items()}
    for role, mask in wrong.items():
        observed, right, bound = outputs[role], verdict.expected[role], verdict.judgements[role].bound
        by_row, hints = operation.words.row_factor, operation.words.hints
        rows = np.asarray(mask.any(axis=-1) if by_row else np.ones(mask.shape[:-1], bool))
        factor = _factor(observed, right, bound, rows, per_row=bool(by_row))
        reach = (Reach.of_mask(role, mask),)
        index = tuple(map(int, np.argwhere(mask)[0]))
        detail = f"first at {role}{list(index)}: {observed[index]:.6g}, expected {right[index]:.6g}"
        if factor is not None and by_row:
            words = by_row.format(f"row {list(index[:-1])}: {factor:.4g}")
            kind = "normalisation"
            return Disagreement(kind, place, words, detail=(detail,), reach=reach, hint=hints[kind])
        if factor is not None:
            words = f"the output is {factor:.4g} times what it must be"
            return Disagreement("scale", place, words, detail=(detail,), reach=reach, hint=hints["scale"])
        if not any(one.seen.partial for one in judged):
            words = "values are right until they are stored here"
            return Disagreement("value", place, words, detail=(detail,), reach=reach, hint=hints["value"])
    return None


def _factor(observed: Doubles, expected: Doubles, bound: Doubles, rows: Where, *, per_row: bool) -> float | None:
    """The factor of the first wrong row, if one factor per row (or one for all) explains every wrong element."""
    x, y, b = observed[rows], expected[rows], bound[rows]
    if not np.isfinite(x).all() or not np.isfinite(y).all():
        return None
    axis = 1 if per_row else None
    with np.errstate(invalid="ignore", divide="ignore"):
        below = (y * y).sum(axis=axis, keepdims=True)
        factor = np.where(below > 0, (x * y).sum(axis=axis, keepdims=True) / below, 0.0)
        right = np.abs(x - factor * y) <= 2.0 * (1.0 + np.abs(factor)) * b
    if not right.all() or (factor == 0).any():
        return None
    return float(factor.reshape(-1)[0])
