"""Trying edits: apply one to a copy, compile, run the failing case, see what is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias

from wmmadiag.diagnose.claim import Claim
from wmmadiag.diagnose.edits import Change, Edit, apply, edits
from wmmadiag.diagnose.edits.conditions import STRICT
from wmmadiag.diagnose.edits.registry import derived, derived_kinds
from wmmadiag.diagnose.edits.signs import SIGN
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.mends.heads import head_mends
from wmmadiag.diagnose.mends.softmax import mends
from wmmadiag.diagnose.mends.terms import term_mends
from wmmadiag.diagnose.source.model import SourceModel
from wmmadiag.diagnose.source.slices import Slicer
from wmmadiag.diagnose.trials.launches import other_launches
from wmmadiag.diagnose.trials.workbench import CaseRun
from wmmadiag.place import Place
from wmmadiag.subject.card import LaunchShape
from wmmadiag.subject.compiling import Texts

_STEP = 0.08
"""What one dependence between an edit and the line that evidence names weighs against the edit's own rank."""
_ANOMALY, _ANOMALIES = 0.036, 6
"""How plausible a change must be that the layout of fragments asks for, to come first; and how many may."""
_FAR = 4
_NEXT, _OUTSIDE = 0.4, 1.5
"""How many dependences the next of some lines, and any other line, count as where the likeliest are known in order."""
_IN_ORDER = 4
"""How many lines of such an order are told apart: each costs a search for edits of its own."""
_NONE: Mapping[int, float] = MappingProxyType({})
_DERIVED = 0.4
"""The share of it that weighs where an edit follows from how fragments are laid out."""
_LATER = 0.05
"""What it weighs that a claim is less likely the root, for each one before it."""
_ALIKE = 0.03
"""What it weighs that an edit is of the same kind and at the same line as another one, for each one before it."""
FEWER = 0.7
"""A change is better when fewer than this share of the wrong elements is left."""
_KNOWN = 0.2
"""How much sooner a change is tried that undoes just the fault that a model gives."""
_OTHER = 0.04
"""What it weighs that an edit mends another fault than the likeliest, for each one before it."""
_HOW_OFTEN = frozenset({"loop-extent", "unwritten-output", "too-few-warps"})
"""Faults of what decides whether, and how often, the line runs at which they show."""
_LOOPS = "loop-extent"
_FORETOLD = 0.3
"""How much sooner a change is tried that lets every element be stored once."""
_STORES = frozenset({"write-conflict", "unwritten-output", "too-few-warps", "launch-coverage"})
"""Claims about who stores what."""

Effect: TypeAlias = Literal["right", "better", "none", "broken"]
"""right: the case passes. better: fewer wrong elements, or an error less and none new. broken: does not compile."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One edit, tried.

    Attributes:
        file: shown name of the file that it changes.
        texts: all texts with it applied.
        run: of the failing case.
        launch: in place of the card's, where that is the change.
    """

    edit: Edit
    file: str
    texts: Texts
    run: CaseRun
    effect: Effect
    launch: LaunchShape | None = None


@dataclass(slots=True)
class Budget:
    """What trials may cost: wall time in seconds, and their number."""

    seconds: float
    trials: int
    started: float = field(default_factory=time.perf_counter)

    def excuse(self, seconds: float) -> None:
        """Time that was no trial's."""
        self.started += seconds

    @property
    def left(self) -> float:
        """Seconds that are left; negative once they are spent."""
        return self.seconds - (time.perf_counter() - self.started)

    @property
    def spent(self) -> bool:
        """Nothing is left."""
        return self.trials <= 0 or self.left < 0


def edits_for(evidence: Evidence, claim: Claim) -> list[tuple[float, str, Edit]]:
    """(how implausible, file, edit) that may mend what a claim says, the most plausible first.

    What is at the claim's lines, or what these depend on, comes before the rest of the kernel.
    """
    near = [*_known(evidence, claim), *_near(evidence, claim)]
    seen = {(file, edit.changes) for _, file, edit in near}
    far = [one for one in _far(evidence, claim) if (one[1], one[2].changes) not in seen]
    return sorted([*near, *far], key=lambda item: item[0])


def _near(evidence: Evidence, claim: Claim) -> list[tuple[float, str, Edit]]:
    """Edits at the claim's lines, and at what these depend on."""
    wanted, lines, values = _wanted(claim), _lines(evidence, claim), _values(evidence, claim)
    first = claim.edit_lines if claim.likeliest_first else ()
    later = {line: _NEXT * min(at, _IN_ORDER) for at, line in enumerate(first)}
    near = _ranked(evidence, wanted, lines, values, _step(claim), later)
    if claim.hypothesis in _HOW_OFTEN and _LOOPS in wanted:
        # Heads of loops are asked for by themselves, too: among all faults only the best few edits are offered.
        known = {(file, edit.changes) for _, file, edit in near}
        heads = _ranked(evidence, (_LOOPS,), lines, values, _step(claim))
        near += [one for one in heads if one[2].kind == "loops" and (one[1], one[2].changes) not in known]
        near.sort(key=lambda item: item[0])
    return near


def _far(evidence: Evidence, claim: Claim) -> list[tuple[float, str, Edit]]:
    """Edits anywhere in the kernel, as if so many dependences away."""
    away = _step(claim) * _FAR
    found = _ranked(evidence, _wanted(claim), None, _values(evidence, claim))
    return [(rank + away, file, edit) for rank, file, edit in found]


def _wanted(claim: Claim) -> Sequence[str]:
    return claim.edit_hypotheses or (claim.hypothesis,)


def _values(evidence: Evidence, claim: Claim) -> Mapping[str, float | int]:
    return {**evidence.values, **claim.values}


def _step(claim: Claim) -> float:
    """Where a model knows the fault, the line at which it shows says less."""
    return _STEP / 2 if claim.residual is not None else _STEP


def _known(evidence: Evidence, claim: Claim) -> list[tuple[float, str, Edit]]:
    """What undoes the fault that a model gives, in the part of the source that makes it: tried before all else."""
    known = []
    for file in evidence.files if claim.model else ():
        source = evidence.source_model(file)
        made = head_mends(source, claim.model, _values(evidence, claim)) if source is not None else ()
        known += [(edit.rank - _KNOWN, file, edit) for edit in made]
        if source is not None and claim.told and claim.place is not None and claim.place.file == file:
            lines = dict.fromkeys((claim.place.line, *claim.edit_lines))
            made = term_mends(source, claim.model, claim.hypothesis, lines)
            known += [(edit.rank - _KNOWN, file, edit) for edit in made]
    parts = evidence.softmax
    model = evidence.source_model(parts[0]) if parts is not None else None
    if parts is None or model is None:
        return known
    # Where a model gives the fault, no other one is meant.
    options = [claim.hypothesis] if claim.model else _wanted(claim)
    return known + [
        (edit.rank + _OTHER * min(position, 4) - _KNOWN * bool(claim.model), parts[0], edit)
        for position, hypothesis in enumerate(options)
        for edit in mends(model, parts[1], hypothesis, claim.model, _values(evidence, claim))
    ]


def _foretold(evidence: Evidence, claim: Claim) -> list[tuple[float, str, Edit]]:
    """Changes that let every element be stored once, as far as the source tells: tried before all else."""
    del claim
    return [(edit.rank - _FORETOLD, file, edit) for file, edit in evidence.forecast.mends()]


_Make: TypeAlias = Callable[[Evidence, Claim], list[tuple[float, str, Edit]]]


def candidates(evidence: Evidence, claims: Sequence[Claim], most: int) -> Iterator[tuple[Claim, str, Edit]]:
    """The edits of all claims in one order, the most plausible first; a change for the first claim that has it.

    A claim's edits are made only once nothing more plausible is left: most searches end before.
    """
    order = count()
    heap: list[tuple[float, int, int, _Make | tuple[str, Edit], bool]] = []
    for position, claim in enumerate(claims):
        later = _LATER * min(position, 5)
        heappush(heap, (later - _KNOWN * bool(claim.model), position, next(order), _known, False))
        heappush(heap, (later, position, next(order), _near, False))
        heappush(heap, (later + _step(claim) * _FAR, position, next(order), _far, False))
    dealt = next((at for at, claim in enumerate(claims) if claim.hypothesis in _STORES), -1)
    if dealt >= 0:
        heappush(heap, (-_FORETOLD, dealt, next(order), _foretold, False))
    left = [most] * len(claims)
    seen: set[tuple[str, tuple[Change, ...]]] = set()
    alike: dict[tuple[str, str, int], int] = {}
    while heap:
        rank, position, _, item, placed = heappop(heap)
        if not isinstance(item, tuple):
            later = _LATER * min(position, 5) if item is not _foretold else 0.0
            for own, file, edit in item(evidence, claims[position]):
                heappush(heap, (own + later, position, next(order), (file, edit), False))
            continue
        file, edit = item
        if not placed:
            if (file, edit.changes) in seen or not left[position]:
                continue
            seen.add((file, edit.changes))
            left[position] -= 1
            place = (file, edit.kind, edit.line)
            alike[place] = alike.get(place, -1) + 1
            if alike[place] and not _meant(claims[position], edit):
                heappush(heap, (rank + _ALIKE * alike[place], position, next(order), item, True))
                continue
        yield claims[position], file, edit


def all_edits(evidence: Evidence, near: Iterable[Place]) -> list[tuple[float, str, Edit]]:
    """Edits of every kind at some lines and what they depend on; in the whole kernel where there are none."""
    lines: dict[str, set[int]] = {}
    for place in near:
        lines.setdefault(place.file, set()).add(place.line)
    return _ranked(evidence, None, lines or None, evidence.values)


def anomalies(evidence: Evidence, claims: Sequence[Claim]) -> list[tuple[str, Edit]]:
    """(file, edit): what evidence passed that is laid out as no fragment is, the plainest first.

    Whatever else was seen may follow from it: a lane that names a wrong row reads what another tile's copy writes.
    """
    lines: dict[str, set[int]] = {}
    for claim in claims:
        for file, own in (_lines(evidence, claim) or {}).items():
            lines.setdefault(file, set()).update(own)
    for place in (*evidence.output_lines, *read_places(evidence)):
        lines.setdefault(place.file, set()).add(place.line)
    best: dict[tuple[str, tuple[Change, ...]], tuple[float, str, Edit]] = {}
    for file, own in lines.items():
        model = evidence.source_model(file) if file in evidence.files else None
        near = Slicer(model).distances(own) if model is not None else {}
        for edit in derived(model, near) if model is not None and near else ():
            rank = edit.rank + _DERIVED * _STEP * 0.1 * min(near.get(edit.line, _FAR), _FAR)
            key = (file, edit.changes)
            if edit.rank <= _ANOMALY and (key not in best or rank < best[key][0]):
                best[key] = (rank, file, edit)
    return [(file, edit) for _, file, edit in sorted(best.values(), key=lambda item: item[0])[:_ANOMALIES]]


def _meant(claim: Claim, edit: Edit) -> bool:
    """Whether a change of just this kind is known to be the one: then each place for it is as likely as the first."""
    return any(claim.values.get(hint) and edit.kind == kind for hint, kind in ((STRICT, "conditions"), (SIGN, "signs")))


def read_places(evidence: Evidence) -> Iterator[Place]:
    """Where inputs are read, by a kernel of whose operation nothing else is known."""
    seen = evidence.reading if not evidence.modelled else None
    yield from dict.fromkeys(place for places in seen.places.values() for place in places) if seen is not None else ()


def _lines(evidence: Evidence, claim: Claim) -> dict[str, set[int]] | None:
    """The lines that a claim names, by file; those that store the output where it names none."""
    lines: dict[str, set[int]] = {}
    for place in (claim.place, claim.other, *(evidence.output_lines if claim.place is None else ())):
        for frame in place.frames() if place is not None else ():
            lines.setdefault(frame.file, set()).add(frame.line)
    if claim.place is not None:
        lines.setdefault(claim.place.file, set()).update(claim.edit_lines)
    elif claim.edit_lines:
        lines = {evidence.files[0]: set(claim.edit_lines)}
    if claim.place is not None and claim.hypothesis in _HOW_OFTEN:
        for frame in claim.place.frames():
            model = evidence.source_model(frame.file) if frame.file in evidence.files else None
            if model is not None:
                lines.setdefault(frame.file, set()).update(Slicer(model).governing(frame.line))
    return lines or None


def _ranked(
    evidence: Evidence,
    wanted: Sequence[str] | None,
    lines: Mapping[str, set[int]] | None,
    values: Mapping[str, float | int],
    step: float = _STEP,
    later: Mapping[int, float] = _NONE,
) -> list[tuple[float, str, Edit]]:
    """Edits by plausibility and by how many dependences they are away from the lines.

    `later`: lines that count as further away, and by how many dependences.
    """
    best: dict[tuple[str, tuple[Change, ...]], tuple[float, str, Edit]] = {}
    for file in evidence.files:
        model = evidence.source_model(file) if lines is None or file in lines else None
        if model is None:
            continue
        away: dict[int, float] = dict.fromkeys(_code_lines(model), 0)
        if lines is not None:
            away = {
                line: steps + _OUTSIDE * bool(later) for line, steps in Slicer(model).distances(lines[file]).items()
            }
            away |= {line: later.get(line, 0) for line in lines[file]}
        # Ring by ring: what is asked for many lines at once is few per line.
        for distance in sorted(set(away.values())):
            ring = [line for line, steps in away.items() if steps == distance]
            for edit in edits(model, hypotheses=wanted, lines=ring, values=values):
                order = min(wanted.index(edit.hypothesis), 4) if wanted is not None else 0
                share = _DERIVED if edit.kind in derived_kinds() else 1.0
                rank = edit.rank + share * step * distance + _OTHER * order
                known = best.get((file, edit.changes))
                if known is None or rank < known[0]:
                    best[file, edit.changes] = (rank, file, edit)
    return sorted(best.values(), key=lambda item: item[0])


def _code_lines(model: SourceModel) -> Iterator[int]:
    """The lines of the kernel and of what it calls."""
    for function in model.functions:
        yield from range(function.line, model.line_of(function.end) + 1)


def changed_texts(evidence: Evidence, file: str, edit: Edit) -> Texts | None:
    """All texts with an edit applied; None where it changes nothing."""
    text = evidence.text_of(file)
    changed = apply(text, edit) if text is not None else None
    if changed is None or changed == text:
        return None
    return {**evidence.texts, Path(file).resolve(): changed}


def tried(evidence: Evidence, file: str, edit: Edit, budget: Budget, seen: set[tuple[str, str]]) -> Trial | None:
    """Try one edit; None where it changes nothing, or its text is in `seen`."""
    texts = changed_texts(evidence, file, edit)
    if texts is None:
        return None
    text = (file, texts[Path(file).resolve()])
    if text in seen:
        return None
    seen.add(text)
    budget.trials -= 1
    run = evidence.bench.run(evidence.case, texts)
    return Trial(edit, file, texts, run, effect_of(evidence.run, run))


def launched(evidence: Evidence, claim: Claim, budget: Budget) -> Iterator[Trial]:
    """Try other launches; the bench keeps the one of the trial that was yielded last until the next is asked for."""
    bench, own = evidence.bench, evidence.bench.launch
    try:
        for other in other_launches(evidence, claim):
            if budget.spent:
                return
            bench.launch = other.shape
            edit = Edit("launch", other.hypothesis, other.line, other.summary, other.changes, 0.0)
            texts = (changed_texts(evidence, other.file, edit) if other.changes else None) or evidence.texts
            run = bench.run(evidence.case, texts)
            yield Trial(edit, other.file, texts, run, effect_of(evidence.run, run), other.shape)
    finally:
        bench.launch = own


def effect_of(before: CaseRun, after: CaseRun) -> Effect:
    """What a change did to a case."""
    if after.compilation is None:
        return "broken"
    if after.passed:
        return "right"
    if after.verdict is None:
        return "none"
    if before.verdict is None:
        return "better"
    new = after.errors() - before.errors()
    if new:
        return "none"
    if after.wrong_count < FEWER * before.wrong_count or after.errors() < before.errors():
        return "better"
    return "none"
