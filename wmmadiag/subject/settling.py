"""What a check of a source alone says: a guess makes no verdict.

A card that was derived from a source rests on guesses. Where the kernel is right under them, it is right: inputs are
random, and nothing else comes out so by chance. Where it is wrong, the other readings are tried: how tensors are
stored, what else is computed, in which types, at which sizes. One that is right is the reading, and is named. If none
is, the kernel is wrong only if nothing of what the verdict rests on was guessed; else nobody can say, and the report
asks the one question whose answer decides.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from types import MappingProxyType

from wmmadiag.compile.languages import is_ptx
from wmmadiag.results.model import CaseResult, KernelReport, Problem
from wmmadiag.subject.alternatives import TriedReading, alternatives, elements, nearest_of_all
from wmmadiag.subject.card import Card, Derived
from wmmadiag.subject.card_session import CardSession, most_tried, session_for, usual_backend
from wmmadiag.subject.drafts.device_variables import set_by_the_host
from wmmadiag.subject.drafts.other_sizes import resized_cards
from wmmadiag.subject.drafts.sizes import RAGGED, UNUSUAL
from wmmadiag.subject.unsaid import unsaid_meanings

_OTHER_SIZES = 2
_SETS = "no card can set it: `wmmadiag run {}`, if its main does; or make it a parameter of the kernel"
_PART = 0.5  # of the elements: a mask alone makes a third of them alike

CheckCard = Callable[[Card], KernelReport]


def settled(card: Card, report: KernelReport, session: CardSession, check: CheckCard) -> KernelReport:
    """The report on a derived card, by the reading under which its kernel is right; else WRONG, or undecided.

    Args:
        report: on the card as it was derived.
        session: to run other readings in, without checks.
        check: the whole check of another card.
    """
    if card.derived is None or _is_error(report):
        return report
    if report.status == "passed":
        judged = {case.case for case in report.cases}
        return _named(report, " and ".join(unsaid_meanings(card, [case for case in card.cases if case.name in judged])))
    if _is_read_right(report):
        found = _as_sized(card, _as_launched(card, _without_ragged(report)), check)
        return found if found.status != "undecided" else _right_by_comment(card, check) or found
    tried = TriedReading()
    asking: KernelReport | None = None
    ran = 0
    for name, other in alternatives(card, session, tried):
        # One whose kernel ignores what it takes is asked about whatever it means: a second one decides no more.
        if asking is None or not _ignores(other):
            found = check(other)
            if _is_read_right(found):
                return _as_launched(card, _named(_without_ragged(found), name))
            asking = asking or (_named(found, name) if _asks_of_right(found) else None)
            ran = sum(case.warp_instructions for case in found.cases)
        tried.work.ran(ran, sum(map(elements(other), other.cases)))
    if (by_comment := _by_comment(card)) is not None:
        found = check(by_comment)
        if _is_read_right(found):
            return found
    return asking or _unsettled(card, report, tried)


def _right_by_comment(card: Card, check: CheckCard) -> KernelReport | None:
    """The report by what comments say, where the kernel is right by that in all cases; else None."""
    said = _by_comment(card)
    found = check(said) if said is not None else None
    return found if found is not None and found.status == "passed" else None


def _by_comment(card: Card) -> Card | None:
    """The card by what comments of the source say, where the kernel computes that."""
    from wmmadiag.subject.drafts.given_source import GivenSource
    from wmmadiag.subject.drafts.stated.derived import stated_card

    derived = card.derivation
    if derived.options.computes or card.computes.formula or is_ptx(card.path):
        return None
    return stated_card(GivenSource(card.path, derived.options), derived.kernel, derived.kernel.remarks)[0]


def read_right(card: Card, arch: str, check: CheckCard) -> Card:
    """A derived card, or the one of another reading: under which its kernel is right, as `settled` takes it, or under
    which most elements are near, which is assumed then.

    Args:
        check: runs a card's cases.
    """
    if card.derived is None:
        return card
    report = check(card)
    if _is_error(report) or _is_read_right(report):
        return card
    limit = most_tried(report, None)
    session, tried = session_for(card, arch, usual_backend(limit), None), TriedReading()
    for _, other in alternatives(card, session, tried):
        found = check(other)
        if _is_read_right(found):
            return other
        tried.work.ran(sum(case.warp_instructions for case in found.cases), sum(map(elements(other), other.cases)))
    nearest = nearest_of_all(tried, session) if tried.part >= _PART else None
    if nearest is None or not nearest[0]:
        unset = _unset(set_by_the_host(card.derived.kernel))
        return replace(card, assumed=(*card.assumed, unset)) if unset else card
    name, read = nearest
    return replace(read, assumed=(*read.assumed, f"{name}, with which {tried.part:.0%} of the elements are near"))


def _ignores(card: Card) -> bool:
    return card.derived is not None and any(one.ignored for one in card.derived.draft.arguments)


def _asks_of_right(report: KernelReport) -> bool:
    """Whether nothing but a question is left of a reading under which all numbers are right."""
    return report.status == "undecided" and all(
        case.problem is not None
        and case.problem.kind == "undecided"
        and case.observations
        and all(one.passed for one in case.observations)
        for case in report.cases
    )


def _is_read_right(report: KernelReport) -> bool:
    """Whether all numbers are right, those at ragged sizes aside: what is wrong then is so under any reading."""
    usual = [case for case in report.cases if case.case not in UNUSUAL]
    return bool(usual) and all(map(_numbers_right, usual))


def _numbers_right(case: CaseResult) -> bool:
    return (
        case.problem is None
        and not case.overwritten
        and bool(case.observations)
        and all(one.passed for one in case.observations)
    )


def _numbers_wrong(case: CaseResult) -> bool:
    ended = case.problem is None or case.problem.kind == "undecided"
    return ended and not all(one.passed for one in case.observations)


def fits_in_part(report: KernelReport) -> bool:
    """Whether all numbers are right at some sizes, and wrong at others: no other reading comes out right by chance."""
    usual = [case for case in report.cases if case.case not in UNUSUAL]
    return any(map(_numbers_right, usual)) and any(map(_numbers_wrong, usual))


def fits_nowhere(report: KernelReport) -> bool:
    """Whether numbers are right in no case, and that leads to a question."""
    asked = any(case.problem is not None and case.problem.kind == "undecided" for case in report.cases)
    return asked and not any(map(_numbers_right, report.cases))


def _as_launched(card: Card, report: KernelReport) -> KernelReport:
    """The report where the numbers are right: what checks find under a launch that nobody said is undecided."""
    derived = card.derivation
    if _is_launch_known(derived):
        return report
    grid, block = (",".join(map(str, one)) for one in (card.launch.grid, card.launch.block))
    message = "what was found holds if the kernel is launched so, and nobody said that it is"
    question = Problem("undecided", message, hint=f"is it? If so, --grid '{grid}' --block {block}")
    cases = (case if case.status == "undecided" else _undecided(case, question) for case in report.cases)
    return replace(report, cases=tuple(cases))


def _is_launch_known(derived: Derived) -> bool:
    """Whether host code makes the launch, or the user said it."""
    made = derived.kernel.launch is not None and not derived.kernel.commented
    return made or bool(derived.options.grid and derived.options.block)


def _as_sized(card: Card, report: KernelReport, check: CheckCard) -> KernelReport:
    """The report where the numbers are right: what checks find at sizes that nobody said, and at no others, is open."""
    if report.status != "failed" or _sizes_known(card):
        return report
    for said, other in islice(resized_cards(card), _OTHER_SIZES):
        found = check(other)
        if found.status == "passed":
            message = f"the numbers are right; what was found at these sizes is not there at {said}"
            asked = [_sizes_asked(case, message, found.cases[0].symbols) for case in report.cases]
            return replace(report, cases=tuple(map(_undecided, report.cases, asked)))
    return report


def _sizes_asked(case: CaseResult, message: str, others: Mapping[str, float] = MappingProxyType({})) -> Problem:
    yes, no = (" ".join(f"--symbol {name}={value:g}" for name, value in one.items()) for one in (case.symbols, others))
    return Problem("undecided", message, hint=f"does it take them? If so, {yes}" + (f"; if not, {no}" if no else ""))


def _without_ragged(report: KernelReport) -> KernelReport:
    """The report where the kernel's own guards admit sizes that nobody launches: a store outside an array is wrong.

    Wrong numbers, and a read outside, are undecided, and what else ends a run there says nothing.
    """
    cases: list[CaseResult] = []
    assumed = list(report.assumed)
    for case in report.cases:
        if case.case != RAGGED or case.status == "passed" or _stores_outside(case):
            cases.append(case)
            continue
        sizes = " ".join(f"{name}={value:g}" for name, value in case.symbols.items())
        read = case.problem is not None and case.problem.kind == "out-of-bounds"
        if case.problem is None or read:
            what = "it reads outside of an array" if read else "the numbers are wrong"
            message = f"{what} at sizes that are no multiples of its tiles, with which it compares indices"
            notes = (*case.notes, f"{case.problem.place} {case.problem.message}") if case.problem is not None else ()
            question = _sizes_asked(case, message)
            cases.append(replace(case, status="undecided", problem=question, notes=notes or case.notes))
        else:
            assumed.append(f"not judged at {sizes}, which its guards might admit: {case.problem.message}")
    return replace(report, cases=tuple(cases), assumed=tuple(assumed))


def _stores_outside(case: CaseResult) -> bool:
    if case.overwritten:
        return True
    problem = case.problem
    return problem is not None and problem.kind == "out-of-bounds" and problem.message.startswith("write")


def _is_error(report: KernelReport) -> bool:
    """Whether nothing ran for a reason that is no reading's: it does not compile, or is not supported."""
    kinds = {case.problem.kind for case in report.cases if case.problem is not None}
    return report.status == "error" or (report.status == "undecided" and kinds <= {"unsupported", "compile", "budget"})


def _named(report: KernelReport, name: str) -> KernelReport:
    return replace(report, assumed=(*report.assumed, f"{name}, which is what the result fits")) if name else report


def _unsettled(card: Card, report: KernelReport, tried: TriedReading) -> KernelReport:
    """The report where no reading is right: WRONG where nothing was guessed that matters, else undecided."""
    derived = card.derivation
    if (
        "operation" in derived.stated
        and not derived.near
        and _is_launch_known(derived)
        and not derived.draft.unstated
        and not derived.draft.switched
        and not tried.cut
        and (tried.ran or _sizes_known(card))
    ):
        if names := set_by_the_host(derived.kernel):
            question = Problem("undecided", _unset(names), hint=_SETS.format(card.path))
            return replace(report, cases=tuple(_undecided(case, question) for case in report.cases))
        return replace(
            report, assumed=(*report.assumed, f"the reading that its names tell: none of {tried.count} others is right")
        )
    if fits_in_part(report):
        asked = _asked_of_part(card, report)
        cases = (case if _numbers_right(case) else _undecided(case, asked) for case in report.cases)
        return _as_launched(card, replace(report, cases=tuple(cases)))
    question = _question(card, tried)
    if derived.doubt:
        report = replace(report, cases=tuple(map(_with_problem_noted, report.cases)))
    return replace(report, cases=tuple(_undecided(case, question) for case in report.cases))


def _unset(names: Sequence[str]) -> str:
    """What is assumed of variables that the host sets, a clause; "" for none."""
    hold = "holds" if len(names) == 1 else "hold"
    return f"{' and '.join(names)} {hold} what the source gives at first, and the host sets it" if names else ""


def _with_problem_noted(case: CaseResult) -> CaseResult:
    """The case where it is no news what a kernel of another operation dies of, or which of its elements differ."""
    kept = tuple(one for one in case.findings if one.check != "coverage")
    case = replace(case, observations=(), overwritten=(), findings=kept)
    problem = case.problem
    if problem is None:
        return case
    return replace(case, problem=None, notes=(*case.notes, " ".join(filter(None, [problem.place, problem.message]))))


def _sizes_known(card: Card) -> bool:
    """Whether the user said all sizes."""
    draft = card.derivation.draft
    given = {*card.derivation.options.symbols, *draft.fixed, *draft.varied}
    return all(set(case.symbols) <= given for case in card.cases)


def _asked_of_part(card: Card, report: KernelReport) -> Problem:
    """The question where the kernel is right at some sizes, as nothing else is, and wrong at others."""
    usual = [case for case in report.cases if case.case not in UNUSUAL]
    right, wrong = (next(filter(one, usual)).symbols for one in (_numbers_right, _numbers_wrong))
    operation = card.computes.operation
    at, not_at = (" ".join(f"{name}={value:g}" for name, value in one.items()) for one in (right, wrong))
    sizes = " ".join(f"--symbol {name}={value:g}" for name, value in wrong.items())
    message = f"right as {operation} at {at}, wrong at {not_at}"
    return Problem("undecided", message, hint=f"does it take these sizes? If so, --computes {operation} {sizes}")


def _question(card: Card, tried: TriedReading) -> Problem:
    """The one question whose answer decides."""
    derived = card.derivation
    operation = card.computes.operation
    if derived.near:
        hint = f"is it so? `wmmadiag init {card.path} --computes {operation}` writes a card of it, whose check decides"
        return Problem("undecided", f"nobody said what the arguments mean: {derived.near}", hint=hint)
    if derived.draft.switched and tried.ran:
        message = f"nobody said that {' and '.join(derived.draft.switched)}, and the result fits no reading with it"
        return Problem("undecided", message, hint=f"a card says it: `wmmadiag init {card.path}`, then its `value`")
    sizes = sorted({name for case in card.cases for name in case.symbols} - {"causal", "alpha", "beta"})
    asked = " ".join(f"--symbol {name}=…" for name in (derived.draft.unstated or sizes))
    best = tried.best or "the reading that was assumed"
    seen = f"; {tried.part:.0%} of the elements are near with {best}" if tried.part >= _PART else ""
    traced = ""
    if seen and derived.kernel.together is None:  # a diagnosis is of one kernel
        own = ["--entry", derived.options.entry] * bool(derived.options.entry)
        traced = f"`{shlex.join(['wmmadiag', 'diagnose', str(card.path), *own])}` tells what is wrong if so; "
    if derived.doubt:
        ends = "the result fits it in no reading" if tried.ran else "it does not run to its end at the sizes tried"
        message = f"nobody said what the kernel computes: taken as {operation}, although {derived.doubt}; {ends}"
        drafts = "`wmmadiag init --computes python` drafts a card for what is no built-in operation"
        return Problem("undecided", f"{message}{seen}", hint=f"say it with --computes; {traced}{drafts}")
    if not tried.ran:
        message = "the kernel does not run to its end at the sizes that were tried, and nobody said which it takes"
        return Problem("undecided", message, hint=f"say sizes that it takes: {asked}")
    message = f"the result fits none of {tried.count} readings of {operation}{seen}"
    if not tried.count:  # much of the output was never written, so none was worth a try
        message = f"the kernel leaves much of what {operation} would have it write as it was"
    if "operation" not in derived.stated:
        hint = f"does it compute {operation}? If so, --computes {operation}; if not, --computes with what it does"
    elif derived.draft.unstated:
        hint = f"say what it is made for: {asked}"
    else:
        hint = f"does it take the sizes that were tried? If so, give them: {asked}"
    return Problem("undecided", message, hint=f"{hint}; {traced}`wmmadiag init` writes a card for anything else")


def _undecided(case: CaseResult, question: Problem) -> CaseResult:
    """The case as one that a question decides: its next step, whatever ended the run."""
    if case.status == "passed":
        return case
    if case.problem is None:
        return replace(case, status="undecided", problem=question)
    asked = replace(case.problem, hint=question.hint)
    return replace(case, status="undecided", problem=asked, notes=(*case.notes, question.message))
