"""The first line whose values depart from the operation, as a disagreement; backed by wrong elements of the output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from wmmadiag.ops.parts.rounding import Where
from wmmadiag.ops.stages.model import FINAL, INNER, ExpectedOutput, Judged, SampleRole, Stages
from wmmadiag.provenance.model import Disagreement, Reach, Stage
from wmmadiag.provenance.outputs import JudgedOutput
from wmmadiag.provenance.stages import first_departure, stage_of
from wmmadiag.subject.binding import BoundCase
from wmmadiag.subject.verdict import judge_case, wrong_masks


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
    wrong = wrong_masks(case, judge_case(case, other_readings=False))
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
        root = _output(judged, unexplained)
    if root is not None and others:
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
        if seen.kind == FINAL:
            mask[output.lead][seen.row[here], seen.column[here]] = True
        else:
            mask[output.lead][seen.row[here]] = True
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
    few = 2 * one.best.fit.departs < len(seen.values)
    meant = one.best.words if few else operation.words.inner if seen.kind == INNER else "the operation's sum so far"
    words = f"what is {_VERBS[seen.role]} here is not {meant}" + ("" if few else ", read in any known way")
    return Disagreement(
        "value", seen.place, words, other=made[-1] if from_memory else None, detail=tuple(detail),
        count=one.best.fit.departs, reach=tuple(Reach.of_mask(role, mask) for role, mask in backed.items()),
        hint=_COMPARE,
    )  # fmt: skip


def _output(judged: Sequence[Judged], wrong: Mapping[str, Where]) -> Disagreement | None:
    """All lines are consistent, and the output is not: what its last store leaves."""
    final = [one for one in judged if one.seen.kind == FINAL]
    stores = [one.seen for one in final if one.seen.role is SampleRole.STORE]
    if not stores or not all(one.fits for one in final):
        return None
    reach = tuple(Reach.of_mask(role, mask) for role, mask in wrong.items())
    place = max(stores, key=lambda seen: int(seen.group.max())).place
    words = "values are not the operation's once they are stored here"
    return Disagreement("value", place, words, reach=reach, hint=_COMPARE)


_COMPARE = "compare what this line stores with the line before, where values were right"
_VERBS = {
    SampleRole.OPERAND: "multiplied",
    SampleRole.ACCUMULATOR: "accumulated onto",
    SampleRole.RESULT: "accumulated",
    SampleRole.STORE: "stored",
}
