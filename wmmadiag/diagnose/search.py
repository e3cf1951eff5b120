"""Find one cause of one failing case: ask the hypotheses, then let trials decide between their claims."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from wmmadiag.diagnose.claim import Answer, Claim, NotSo, Roots
from wmmadiag.diagnose.edits import Edit
from wmmadiag.diagnose.evidence import Evidence, mask_of
from wmmadiag.diagnose.lines.softmax import located
from wmmadiag.diagnose.registry import all_hypotheses
from wmmadiag.diagnose.trials.launches import speaks_of_launch
from wmmadiag.diagnose.trials.room import with_room
from wmmadiag.diagnose.trials.trial import (
    FEWER,
    Budget,
    Trial,
    all_edits,
    anomalies,
    candidates,
    changed_texts,
    launched,
    read_places,
    tried,
)
from wmmadiag.diagnose.trials.workbench import CaseRun
from wmmadiag.place import Place
from wmmadiag.subject.compiling import Texts

CERTAIN, PER_CLAIM, SUSPICIONS = 30, 40, 90
"""Edits tried per claim where the likeliest claim is certain, where it is not, and without any claim."""
_AHEAD = 2
"""Changes whose compilation has begun while an earlier one is tried."""
_RIVALS = 16
"""Edits tried where another launch makes the kernel right already."""
_LAST_LAUNCHES = 1.0, 9
"""Seconds and number of the launches that are tried after all edits."""
_CONFIRMED = 6
"""Changes that help of which it is looked whether their claim is gone."""

_OF_ACCESSES = frozenset(
    {
        "alignment", "async-copy-order", "async-copy-size", "divergent-barrier", "missing-barrier", "out-of-bounds",
        "uninitialised-memory",
    }
)  # fmt: skip
"""Faults that a watched run shows wherever they are, whatever the numbers: where it does not, there are none."""

_ROOM = "seen in a run with room behind each array, which goes on where this one dies"

_MASKING = ("causal-mask", "tail-masking")
_AGREEMENT = 5.0
"""How much nearer the root a claim ranks that a fault model confirms."""

_Item: TypeAlias = tuple[Claim | None, str, Edit]

Regressions = Callable[[Texts], "tuple[int, int]"]
"""Changed texts → (cases that fail, of these such that passed before)."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search came to.

    Attributes:
        answers: of every hypothesis, by id.
        claims: all of them, the likeliest root first.
        claim: the one that the trial confirms, or the likeliest without one; None for a change that nothing claimed.
        trial: a change that makes the case pass, or at least removes this cause; None where there is none.
        tries: how many changes were tried.
        rival: another launch that makes every case pass as well, or None.
    """

    answers: Mapping[str, Answer]
    claims: tuple[Claim, ...]
    claim: Claim | None
    trial: Trial | None
    tries: int
    rival: Trial | None = None


def ask(evidence: Evidence) -> dict[str, Answer]:
    """Every hypothesis's answer, by id.

    Where an access outside its array ended the run, also what the run shows with room around the arrays.
    """
    answers = {name: hypothesis.test(evidence) for name, hypothesis in all_hypotheses().items()}
    roomy = with_room(evidence)
    if roomy is not None:
        for name, hypothesis in all_hypotheses().items():
            further = hypothesis.test(roomy)
            if isinstance(further, tuple) and not isinstance(answers[name], tuple):
                answers[name] = tuple(_in_room(claim) for claim in further)
    return answers


def _once(claims: Sequence[Claim]) -> list[Claim]:
    """What the compiler repeats in an unrolled loop is said once, unless it is known which elements each spoils."""
    found: dict[object, Claim] = {}
    for number, claim in enumerate(claims):
        lines = tuple((one.file, one.line) if one is not None else None for one in (claim.place, claim.other))
        same = (claim.hypothesis, claim.verdict, claim.sentence, lines)
        found.setdefault(same if claim.reach is None else number, claim)
    return list(found.values())


def _in_room(claim: Claim) -> Claim:
    """A claim from a run with room: what is certain there led to the address at which the other run died."""
    certain = (claim.exact or claim.likeliest_first) and claim.verdict == "proven"
    rank = min(claim.rank, Roots.ADDRESS - 1) if certain else claim.rank
    # Strides that do not fit say what is wrong; elements outside an array alone do not say which index leads there.
    seen = claim.seen and (claim.exact or "read-0" in claim.values or claim.hypothesis == "out-of-bounds")
    return replace(claim, rank=rank, evidence=(_ROOM, *claim.evidence), seen=seen)


def ordered(answers: Mapping[str, Answer], evidence: Evidence) -> tuple[Claim, ...]:
    """All claims: nearest the root first, then what explains most; what explains nothing last."""
    given = _once([claim for answer in answers.values() if isinstance(answer, tuple) for claim in answer])
    claims = [located(_lifted(_agreed(claim, given), evidence), evidence) for claim in given]

    def key(claim: Claim) -> tuple[bool, float, int]:
        explained = mask_of(claim.reach, evidence.wrong)
        useless = explained == 0 and evidence.wrong_count > 0
        return useless, claim.rank, -explained

    return tuple(sorted(claims, key=key))


def _lifted(claim: Claim, evidence: Evidence) -> Claim:
    """A claim at the lines that use a thin wrapper, not at the wrapper's own."""
    if claim.place is None:
        return claim
    place = evidence.lifted(claim.place)
    other = evidence.lifted(claim.other) if claim.other is not None else None
    # The wrapper may be what is wrong, though: it is looked at as closely as its use.
    own = tuple(one.line for one in (claim.place, claim.other) if one is not None and one.file == place.file)
    if (place.file, place.line) != (claim.place.file, claim.place.line) and other is None:
        other = claim.place
    return replace(claim, place=place, other=other, edit_lines=tuple(dict.fromkeys((*claim.edit_lines, *own))))


def _agreed(claim: Claim, given: Sequence[Claim]) -> Claim:
    """A claim whose line is known but not its fault, as the fault of which the model gives the kernel's output."""
    if claim.exact or claim.verdict != "proven":
        return claim
    options = claim.edit_hypotheses or (claim.hypothesis,)
    whole = [one for one in given if one.verdict == "reproduced" and one.residual is not None]
    model = next((one for name in options for one in whole if one.hypothesis == name), None)
    if model is None:  # numbers that another fault gives to the last bit of the bound say more than a guess at a line
        guess = bool(whole) and (not claim.seen or claim.at_most is not None)
        return replace(claim, rank=max(claim.rank, Roots.MODEL + _AGREEMENT)) if guess else claim
    name = model.hypothesis
    # Where values depart, or sums lack keys that a mask hides, is where it shows.
    if model.told or (name in _MASKING and name != claim.hypothesis):
        shown = claim.place if claim.place != model.place else claim.other
        evidence = (*model.evidence, *claim.evidence)
        return replace(model, other=shown, evidence=evidence, rank=claim.rank - _AGREEMENT)
    readings = {one.hypothesis for one in given if (one.sentence, one.place) == (claim.sentence, claim.place)}
    return replace(
        claim,
        hypothesis=name,
        instead=claim.instead or model.sentence,
        evidence=(*claim.evidence, *model.evidence),
        rank=claim.rank - _AGREEMENT,
        edit_hypotheses=(name, *(one for one in options if one != name)),
        values={**model.values, **claim.values},
        residual=model.residual,
        ambiguous=len(readings) > 1,
        model=model.model,
    )


@dataclass(slots=True)
class _Search:
    evidence: Evidence
    budget: Budget
    regressions: Regressions
    claims: Sequence[Claim] = ()
    answers: Mapping[str, Answer] = field(default_factory=dict)
    seen: set[tuple[str, str]] = field(default_factory=set)
    tries: int = 0
    right_here: list[tuple[int, Claim | None, Trial]] = field(default_factory=list)
    better: list[tuple[Claim, Trial]] = field(default_factory=list)
    rival: Trial | None = None
    beside: list[Claim] = field(default_factory=list)
    known: frozenset[tuple[str, str]] | None = None
    roomy: CaseRun | None = None

    def decisive(self, claim: Claim | None, trial: Trial | None) -> bool:
        """Whether a trial makes every case pass; what is nearly as good is kept."""
        if trial is None:
            return False
        self.tries += 1
        if trial.effect == "right":
            failing, worse = self.regressions(trial.texts)
            if not failing:
                return True
            if not worse and claim is not None and claim.verdict != "undecided":
                self.right_here.append((failing, claim, trial))
        elif trial.effect == "better" and claim is not None and claim.verdict == "proven":
            if self._same_numbers(trial):
                of_its_kind = (one for one in self.claims if one.hypothesis == trial.edit.hypothesis and _by_check(one))
                gone = [one for one in of_its_kind if _removed(self.evidence, one, trial)]
                self.beside += [one for one in gone if not self.is_beside(one)]
            if not self.is_beside(claim) and self._is_progress(trial):
                self.better.append((claim, trial))
        return False

    def _is_progress(self, trial: Trial) -> bool:
        """Whether nothing gets worse: one of two causes is gone then, and not merely what the kernel did wrong.

        A change after which a kernel does less, or something else, takes away findings, too.
        """
        before, after = self.evidence.run, trial.run
        if before.verdict is not None:
            return _no_worse(before, after)
        if self.known is None:
            roomy = with_room(self.evidence)
            self.roomy = roomy.run if roomy is not None else None
            self.known = before.errors() | (roomy.run.errors() if roomy is not None else frozenset())
        if self.roomy is not None and not _no_worse(self.roomy, after):
            return False
        # Of a kernel that died nothing was right: numbers that are nearly all wrong show no progress.
        elements = sum(mask.size for mask in after.wrong.values())
        return after.errors() <= self.known and after.wrong_count < FEWER * elements

    def _same_numbers(self, trial: Trial) -> bool:
        """Whether a change took away what a check saw, and every number stayed as wrong as it was."""
        before, after = self.evidence.run, trial.run
        if before.verdict is None or not self.evidence.wrong_count or not before.errors() - after.errors():
            return False
        pairs = ((mask, after.wrong.get(role)) for role, mask in before.wrong.items())
        return all(other is not None and np.array_equal(mask, other) for mask, other in pairs)

    def is_beside(self, claim: Claim) -> bool:
        """Whether what a claim says can be mended, and no number gets right by that."""
        return any(claim is one for one in self.beside)

    def through(self, claims: Sequence[Claim]) -> tuple[Claim | None, Trial] | None:
        """Launches, then edits, then for lack of certain claims every edit near what is known.

        More blocks or threads make up for many mistakes of a source. So another launch is the answer only where no
        likely edit is one, and is tried last where what was seen is not about the launch.
        """
        first = claims[:2]
        launch = self._launches([claim for claim in first if speaks_of_launch(claim)], self.budget)
        if launch is not None and launch[1].edit.hypothesis == "shared-memory-limit":
            return launch
        found = self._by_edits(claims, most=_RIVALS if launch is not None else None)
        if found is not None:
            self.rival = launch[1] if launch is not None else None
            return found
        if launch is not None:
            return launch
        return self._launches([one for one in first if not speaks_of_launch(one)], Budget(*_LAST_LAUNCHES))

    def _launches(self, claims: Sequence[Claim], budget: Budget) -> tuple[Claim | None, Trial] | None:
        for claim in claims:
            for trial in launched(self.evidence, claim, budget):
                if self.decisive(claim, trial):
                    return claim, trial
        return None

    def _by_edits(self, claims: Sequence[Claim], most: int | None) -> tuple[Claim | None, Trial] | None:
        for one, file, edit in self._begun(itertools.islice(self._edits(claims), most)):
            if self.budget.spent:
                return None
            if one is not None and edit.hypothesis == one.hypothesis and self.is_beside(one):
                continue
            tried_one = tried(self.evidence, file, edit, self.budget, self.seen)
            if self.decisive(one, tried_one):
                assert tried_one is not None
                return one, tried_one
        return None

    def _begun(self, items: Iterator[_Item]) -> Iterator[_Item]:
        """The same edits; while one is tried, the next ones are being compiled."""
        waiting: deque[_Item] = deque()
        try:
            for item in items:
                _, file, edit = item
                texts = changed_texts(self.evidence, file, edit)
                if texts is None:
                    continue
                self.evidence.bench.begin(self.evidence.case, texts)
                waiting.append(item)
                if len(waiting) > _AHEAD:
                    yield waiting.popleft()
            yield from waiting
        finally:
            self.evidence.bench.ahead.drop()

    def _edits(self, claims: Sequence[Claim]) -> Iterator[_Item]:
        certain = bool(claims) and claims[0].exact and claims[0].verdict == "proven"
        for file, edit in anomalies(self.evidence, claims):
            alike = (claim for claim in claims if claim.hypothesis == edit.hypothesis)
            yield next(alike, claims[0] if claims else None), file, edit
        near = candidates(self.evidence, claims[:3] if certain else claims, CERTAIN if certain else PER_CLAIM)
        if certain:
            yield from near
        elif self.evidence.modelled or any(claim.verdict != "undecided" for claim in claims):
            yield from near
            yield from self._suspicions([*_followed(self.evidence, claims), *read_places(self.evidence)])
        else:  # suspicions alone, of an operation that is not known: none of them is worth much more than a guess
            places = self.evidence.output_lines, read_places(self.evidence), self.evidence.multiplying_lines
            yield from _by_turns(near, *map(self._suspicions, places))

    def _suspicions(self, places: Iterable[Place]) -> Iterator[_Item]:
        # What the run rules out is not what a change mends: such changes only use up the time for others.
        found = sorted(all_edits(self.evidence, places), key=lambda one: self._ruled_out(one[2]))
        for _, file, edit in found[:SUSPICIONS]:
            yield None, file, edit

    def _ruled_out(self, edit: Edit) -> bool:
        answer = self.answers.get(edit.hypothesis) if edit.hypothesis in _OF_ACCESSES else None
        return isinstance(answer, NotSo) and answer.verdict in ("refuted", "not applicable")


def _by_turns(*sources: Iterator[_Item]) -> Iterator[_Item]:
    """One of each, and so on, until all have ended."""
    for some in itertools.zip_longest(*sources):
        yield from (one for one in some if one is not None)


def find_cause(evidence: Evidence, budget: Budget, regressions: Regressions) -> Found:
    """One cause of a failing case.

    A claim is beside the cause where a change removes what it says and no number gets right: it comes last then.

    Claims are tried in their order, first at their own lines, then in the whole kernel; after them every edit there
    is, nearest to what provenance followed first. A change that makes all cases pass decides.
    """
    began = time.perf_counter()
    answers = ask(evidence)
    claims = ordered(answers, evidence)
    budget.excuse(time.perf_counter() - began)
    search = _Search(evidence, budget, regressions, claims, answers)
    decided = search.through(claims)
    if decided is not None:
        return Found(answers, claims, *decided, search.tries, search.rival)
    if search.right_here:
        _, partly, trial = min(search.right_here, key=lambda item: item[0])
        return Found(answers, claims, partly, trial, search.tries)
    # What mends the fault that was claimed comes before what happens to help.
    search.better.sort(key=lambda pair: (pair[0].hypothesis != pair[1].edit.hypothesis, claims.index(pair[0])))
    for partial, trial in search.better[:_CONFIRMED]:
        if _removed(evidence, partial, trial) and not regressions(trial.texts)[1]:
            return Found(answers, claims, partial, trial, search.tries)
    claims = tuple(sorted(claims, key=search.is_beside))
    return Found(answers, claims, claims[0] if claims else None, None, search.tries)


def _followed(evidence: Evidence, claims: Sequence[Claim]) -> Iterator[Place]:
    """Lines that wrong values are known to have passed, the most telling first."""
    for claim in claims:
        yield from (place for place in (claim.place, claim.other) if place is not None)
    if evidence.departure is not None:
        yield evidence.departure.place
    run = evidence.provenance
    if run is not None:
        yield from (one.place for one in run.multiplications)
    yield from evidence.output_lines


def _by_check(claim: Claim) -> bool:
    """Whether a check of accesses saw it, which does not tell the wrong elements that come of it."""
    return claim.seen and claim.verdict == "proven" and claim.reach is None


def _no_worse(before: CaseRun, after: CaseRun) -> bool:
    """Whether no element is wrong that was right."""
    pairs = ((mask, after.wrong.get(role)) for role, mask in before.wrong.items())
    return all(other is not None and not (other & ~mask).any() for mask, other in pairs)


def _removed(evidence: Evidence, claim: Claim, trial: Trial) -> bool:
    """Whether a change removed what a claim was made of, though the case still fails: one of two causes."""
    after = Evidence(evidence.bench, evidence.case, trial.texts, trial.run)
    again = all_hypotheses()[claim.hypothesis].test(after)
    if not isinstance(again, tuple):
        return True
    return not any(one.sentence == claim.sentence for one in again)
