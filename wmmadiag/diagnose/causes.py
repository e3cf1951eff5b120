"""From what was examined to the causes: what is broken, where, how that is known, and what mends it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.checks.finding import Level
from wmmadiag.diagnose.certain import by_itself
from wmmadiag.diagnose.changes import Change, applied
from wmmadiag.diagnose.confirm import Confirmed
from wmmadiag.diagnose.excerpts import excerpt, listed, place_of
from wmmadiag.diagnose.meeting import function_at, ordered_by, waiting
from wmmadiag.diagnose.names import ORDERS, REFUSED, UNKNOWN, Name, name_of, puts_in_order
from wmmadiag.diagnose.patch import unified
from wmmadiag.diagnose.proof import doubts, moves_what_is_put_in, other_end
from wmmadiag.diagnose.sidebyside import Difference, first_difference
from wmmadiag.diagnose.watched import blocks_of, both_texts
from wmmadiag.errors import WmmadiagError
from wmmadiag.place import Place, own_place
from wmmadiag.results.diagnosis import Cause, Fix, Verdict
from wmmadiag.subject.bench import CaseRun
from wmmadiag.subject.binding import bind

if TYPE_CHECKING:
    from wmmadiag.diagnose.examined import Examined

_SURE = 0.9
"""Likelihood of a change among all that may mend the kernel, from which on its place is no longer one of several."""
_READINGS = 4


def causes_of(found: Examined, first: CaseRun) -> Iterator[Cause]:
    right = [one for one in found.answers if one.right]
    if right:
        yield from _mended(found, first, right)
        return
    if first.verdict is None and first.result.problem is not None:
        yield by_itself(first)
    elif found.answers:
        yield _partly(found, first, found.answers[0])
    elif found.suspects and first.verdict is not None:
        yield _unmended(found, first)


def _mended(found: Examined, first: CaseRun, right: Sequence[Confirmed]) -> Iterator[Cause]:
    """One cause for each change that is made together; the last one's rivals are said beside it."""
    best = right[0]
    others = [one for one in right[1:] if one.line != best.line]
    rivals = [one for one in others if _level(one) == _level(best)]
    # What the runs prefer to another change is no less likely than that one.
    score = max(best.score, *(one.score for one in others if one not in rivals), -math.inf)
    share = 1.0 / (1.0 + sum(_times(one - score) for one in (*(one.score for one in rivals), found.ledger.left)))
    difference = _difference(found, first, best)
    cut = ended(first, difference)
    end = other_end(found, best, difference)
    alone = not found.steps and best.tried.ranked.change not in found.pairs
    against = list(doubts(found, first, best, difference)) if alone else []
    # What is right in every case may be what was meant, though it is wrong in sizes that no case asks for.
    besides = [one for one in others if one in rivals or (not one.weak and one.intrusive == best.intrusive)]
    settled = not against and end is None and not any(_as_simple(found, one, best) for one in besides)
    sure = share >= _SURE and not found.assumed and settled
    verdict: Verdict = "proven" if sure else "likely"
    pair = found.pairs.get(best.tried.ranked.change)
    own = (best.tried.ranked,) if pair is None else (pair.first, pair.second)
    ranks = [*(step.ranked for step in found.steps), *own]
    steps, lines = [one.change for one in ranks], [one.line for one in ranks]
    whole = first.wrong_count if first.verdict is not None else 0
    # Neither of two changes at once makes any element right alone.
    mended = [step.outcome.mended for step in found.steps] if pair is None else [0]
    rest = max(0, whole - sum(mended))
    for number, (change, line) in enumerate(zip(steps, lines, strict=True)):
        last = number == len(steps) - 1
        place = Place(line[0], line[1])
        shown = difference if len(steps) == 1 and not cut else None
        refused = first.result.problem if first.compilation is None else None
        name = REFUSED if refused is not None else name_of(change, shown.what if shown is not None else "")
        other = shown.place if shown is not None and shown.place.line != line[1] else end if last else None
        early = None
        if last and change.role in ORDERS:
            home = function_at(found.sources, line[0], change.edits[0].start)
            early = waiting(ordered_by(first, best.runs), line, home)
        if early is not None:
            other = early
        elif other is None and last and best.tried.also and change is best.tried.ranked.change:
            other = Place(*best.tried.also[0])  # or anywhere between
        elif other is None and last and puts_in_order(change):  # it may stand anywhere between two accesses
            other = next((Place(*one.ranked.line) for one in best.alike if one.ranked.line != line), None)
        elif other is None:
            other = _behind(found, change, line)
        if besides and last and verdict == "likely" and early is None:
            other = Place(*besides[0].line)  # where the runs first differ is among the evidence
        said = place_of(refused.place) if refused is not None else None
        if said is not None and (said.file, said.line) != line:
            other = said
        yield Cause(
            name=name.id,
            verdict=verdict if len(steps) == 1 else "likely",
            sentence=f"{refused.message}; right with {change.note}"
            if refused is not None
            else _sentence(name, change, shown, (cut or _departure(found, line)) if len(steps) == 1 else ""),
            place=str(place),
            other=str(other) if other is not None else "",
            excerpt=excerpt(place, other),
            explains=rest if last or pair is not None else mended[number],
            of=whole if rest or not last else 0,
            evidence=tuple(_evidence(found, first, best, besides, against, shown, last)),
            consequences=tuple(_gone(first, best)) if last else (),
            fix=_fix(found, first, best, change, alone=len(steps) == 1, last=last),
            readings=tuple(_readings(best)) if last and pair is None else (),
            share=round(share, 3),
        )


def _level(one: Confirmed) -> tuple[bool, int, bool, bool]:
    """What tells changes apart that mend every case, beside their likelihood."""
    return one.weak, one.further, one.intrusive, bool(one.waste)


def _as_simple(found: Examined, one: Confirmed, best: Confirmed) -> bool:
    """Whether another change mends as simply: to put a statement in is more than to alter one that stands there; to put
    in what the best one does and take it away elsewhere is more as well."""
    if moves_what_is_put_in(found.sources, one.tried.ranked.change, best.tried.ranked.change):
        return False
    return one.tried.ranked.change.kind != "insertion" or best.tried.ranked.change.kind == "insertion"


def _times(difference: float) -> float:
    """How many times likelier, of a difference of scores."""
    return math.exp(min(difference, 50.0))


def _behind(found: Examined, change: Change, line: tuple[str, int]) -> Place | None:
    """Where the statement begins before which something is put in, where that is another line than the change's."""
    if change.kind != "insertion":
        return None
    edit = change.edits[0]
    if edit.start != edit.end or edit.file not in found.sources:
        return None
    source = found.sources[edit.file]
    rest = source.code.code[edit.end :]
    at = edit.end + len(rest) - len(rest.lstrip())
    below = source.place_at(at).line if source.code.code[at : at + 1] not in (b"", b"}") else line[1]
    return Place(line[0], below) if below != line[1] else None


def _sentence(name: Name, change: Change, difference: Difference | None, departure: str) -> str:
    """What is wrong, in one sentence."""
    if difference is not None:
        return f"{name.title}: {difference.sentence()}"
    return f"{name.title}: {departure}; right with {change.note}" if departure else f"{name.title}: {change.note}"


def ended(first: CaseRun, difference: Difference | None) -> str:
    """What ended a run, where the first access that differs is one that it never came to; "" otherwise."""
    problem = first.result.problem
    if problem is None or first.compilation is None or difference is None or not difference.missed:
        return ""
    return problem.with_array(problem.message)


def _departure(found: Examined, line: tuple[str, int]) -> str:
    """The first product or value that is not the operation's, where one departs; "" where that is not followed."""
    seen = [one for one in found.traced.disagreements if one.because_of is None] if found.traced is not None else []
    nearest = sorted(seen, key=lambda one: abs(own_place(one.place).line - line[1]))
    return next((f"line {own_place(one.place).line} {one.message}" for one in nearest), "")


def _evidence(
    found: Examined,
    first: CaseRun,
    best: Confirmed,
    rivals: Sequence[Confirmed],
    against: Sequence[str],
    difference: Difference | None,
    last: bool,
) -> Iterator[str]:
    names = list(dict.fromkeys(run.result.case for run in best.runs))
    several = bool(found.steps) or best.tried.ranked.change in found.pairs
    alone = "these changes together" if several else "this change alone"
    yield f"with {alone} {len(names)} case{'s' * (len(names) != 1)} pass{'es' * (len(names) == 1)} ({', '.join(names)})"
    further = [run.result.distribution for run in best.runs if run.result.distribution != first.result.distribution]
    if further:
        yield f"it holds on inputs that are hard for the operation: {', '.join(dict.fromkeys(further))}"
    if not last:
        return
    if difference is not None:
        yield f"{difference.place}: the first access that differs between the kernel and the changed kernel"
    yield from against
    for one in rivals[:_READINGS]:
        yield f"a change at {Place(*one.line)} mends it as well: {one.tried.ranked.change.note}"
    for one in [one for one in found.answers if one.right and one.intrusive and not best.intrusive][:_READINGS]:
        share = f"{one.altered:.0%} of what the kernel reads and writes"
        yield f"a change at {Place(*one.line)} mends it as well, but alters {share}: {one.tried.ranked.change.note}"


def _readings(best: Confirmed) -> Iterator[str]:
    for one in best.alike[:_READINGS]:
        yield one.ranked.change.note
    if len(best.alike) > _READINGS:
        yield f"and {len(best.alike) - _READINGS} more"


def _gone(first: CaseRun, best: Confirmed) -> Iterator[str]:
    """Findings of the broken run that the mended one does not have."""
    kept = {(one.check, one.kind) for run in best.runs for one in run.findings}
    for one in first.findings:
        if one.level is Level.ERROR and (one.check, one.kind) not in kept:
            yield f"{one.place}: {one.message}"


def _fix(found: Examined, first: CaseRun, best: Confirmed, change: Change, *, alone: bool, last: bool) -> Fix:
    runs = [run for run in best.runs if run.result.distribution == first.result.distribution]
    ran = [run for run in runs if run.result.case in found.baseline]
    before = [found.baseline[run.result.case] for run in ran]
    return Fix(
        summary=change.note,
        diff=diff_of(found, change) if alone else _whole_diff(found, best) if last else "",
        status="verified",
        wrong_before=sum(_counted(run) for run in {id(run): run for run in before}.values()),
        wrong_after=sum(_counted(run) for run in runs),
        max_difference_before=max((run.max_difference for run in before), default=0.0),
        max_difference_after=max((run.max_difference for run in runs), default=0.0),
        tried=tuple(dict.fromkeys(run.result.case for run in best.runs)),
        note="" if alone else "together with the other changes; the last one's diff has them all",
    )


def _counted(run: CaseRun) -> int:
    """Wrong elements; every element where the kernel did not end."""
    if run.verdict is not None:
        return run.wrong_count
    return sum(seen.elements for seen in run.result.observations if seen.against == "reference")


def diff_of(found: Examined, change: Change) -> str:
    """A change as a unified diff against the user's source."""
    texts = {file: source.data for file, source in found.sources.items()}
    return unified(texts, applied(texts, [change]))


def _whole_diff(found: Examined, best: Confirmed) -> str:
    texts = {file: source.data for file, source in found.sources.items()}
    made = {file: best.texts.get(Path(file).resolve(), "").encode("utf-8", "surrogateescape") for file in texts}
    return unified(texts, {file: text or texts[file] for file, text in made.items()})


def _difference(found: Examined, first: CaseRun, best: Confirmed) -> Difference | None:
    """The first access that the mended kernel makes otherwise."""
    if best.shape is not None:
        return None
    mended = next((run for run in best.runs if run.result.case == first.result.case and run.kernel is not None), None)
    one, two = first.emulated, mended.emulated if mended is not None else None
    if one is None or two is None or mended is None or mended.bound is None:
        return None
    case = mended.bound
    try:
        return first_difference(
            lambda: bind(case.card, case.case, case.variant, seed=case.seed, inputs=case.distribution),
            one,
            two,
            both_texts(found.sources, best.texts),
            blocks_of(case.launch),
        )
    except WmmadiagError:
        return None


def _partly(found: Examined, first: CaseRun, best: Confirmed) -> Cause:
    """A change that mends the failing case, but not every case."""
    change = best.tried.ranked.change
    name, place = name_of(change), Place(*best.line)
    failing = next(run for run in best.runs if not run.passed)
    return Cause(
        name=name.id,
        verdict="undecided",
        sentence=f"{name.title}, perhaps: {change.note} mends {first.result.case}, and not {failing.result.case}",
        place=str(place),
        excerpt=excerpt(place, None),
        of=first.wrong_count if first.verdict is not None else 0,
        fix=Fix(change.note, diff_of(found, change), "improves", note=f"{failing.result.case} stays wrong"),
    )


def _unmended(found: Examined, first: CaseRun) -> Cause:
    """Where to look, where nothing that was tried mends it: what was seen speaks of these lines."""
    places = [Place(*line) for line in found.suspects]
    partly = [line for line in found.suspects if line in found.ledger.partly]
    told = f"what was seen speaks most of {listed(found.suspects)}"
    errors = [one for one in first.findings if one.level is Level.ERROR] if not first.wrong_count else []
    evidence = [f"{one.place}: {one.message}" for one in errors[:_READINGS]]
    evidence += [f"{Place(*line)}: changes of this line make a part of the wrong elements right" for line in partly]
    return Cause(
        name=UNKNOWN.id,
        verdict="undecided",
        sentence=f"{UNKNOWN.title}; {told}",
        place=str(places[0]),
        other=str(places[1]) if len(places) > 1 else "",
        excerpt=excerpt(places[0], places[1] if len(places) > 1 else None),
        evidence=tuple(evidence),
    )
