"""Whether what was run depends on the numbers that were guessed: one that changes nothing was not tried at all.

A window wider than the sequence hides no key, a limit that nothing reaches limits nothing: the kernel is right then
whatever it does with them. Each guessed number is changed by one, either way; where no case ends otherwise, the run
says nothing of it. Extents need no such look: arrays and the expected result change with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np

from wmmadiag.errors import KernelFault, WmmadiagError
from wmmadiag.launch import Launch
from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.expressions import names_in
from wmmadiag.results.model import KernelReport, Problem
from wmmadiag.subject.alternatives import replace_card
from wmmadiag.subject.binding import BoundCase, bind
from wmmadiag.subject.card import Card
from wmmadiag.subject.check import Session, run_case
from wmmadiag.subject.drafts.guess import distance_for
from wmmadiag.subject.drafts.model import Draft, DraftArgument
from wmmadiag.subject.drafts.numbers import PASSED
from wmmadiag.subject.drafts.sizes import RAGGED


def tried_at_all(card: Card, report: KernelReport, session: Session) -> KernelReport:
    """The report on a derived card that is right, undecided where a guessed number changes nothing of any case."""
    if card.derived is None or report.status != "passed":
        return report
    question = _of_ignored(card.derived.draft) or _of_counted(card, session) or _of_idle(card, session)
    if question is None:
        return report
    cases = (replace(case, status="undecided", problem=question) for case in report.cases)
    return replace(report, cases=tuple(cases))


def _of_ignored(draft: Draft) -> Problem | None:
    """What is asked where the kernel takes what its operation computes with, and nothing reads it."""
    one = next((each for each in draft.arguments if each.ignored), None)
    if one is None:
        return None
    name = one.parameter.name
    message = f"the kernel takes '{name}', by its name the {one.ignored}, and no line reads it"
    hint = "if it is meant to be ignored, `wmmadiag init` writes a card that says so; if not, that is the mistake"
    return Problem("undecided", message, hint=hint)


def _of_counted(card: Card, session: Session) -> Problem | None:
    """What is asked where the kernel is right with one part of what host code counts, and wrong with two."""
    assert card.derived is not None
    for case in card.cases:
        alone = [name for name in card.derived.kernel.counted if case.symbols.get(name) == 1]
        if not alone or case.name == RAGGED:
            continue
        other = replace(case, symbols={**case.symbols, **dict.fromkeys(alone, 2)})
        own = replace_card(session, replace(card, cases=(other,)))
        result, _, verdict = run_case(own, other, card.variants[0], None, "")
        if verdict is not None and verdict.status == "failed" and not result.overwritten:
            names = " and ".join(f"{name} = 1" for name in alone)
            said = " ".join(f"--symbol {name}=1" for name in alone)
            message = f"the kernel is right with {names}, and wrong with 2"
            return Problem("undecided", message, hint=f"is 1 what it is made for? If so, {said}; if not, it is wrong")
    return None


def _of_idle(card: Card, session: Session) -> Problem | None:
    """What is asked where a guessed number changes nothing."""
    assert card.derived is not None
    one = next(_idle(card, session), None)
    if one is None:
        return None
    hint = f"say a value of which something does: {_said(card.derived.draft, one)}"
    message = f"nothing that was run depends on the number '{one.parameter.name}', and nobody said what it is"
    return Problem("undecided", message, hint=hint)


def _said(draft: Draft, argument: DraftArgument) -> str:
    symbols = names_in(argument.value) & set(draft.untold)
    return " ".join(f"--symbol {name}=…" for name in sorted(symbols)) or "`wmmadiag init` writes a card, which has it"


def _idle(card: Card, session: Session) -> Iterator[DraftArgument]:
    """The guessed numbers on which no case depends."""
    assert card.derived is not None
    draft = card.derived.draft
    said = set(card.derived.options.symbols)
    guessed = {one.parameter.name: one for one in draft.arguments if _is_guessed(draft, one, said)}
    for number, argument in enumerate(card.arguments):
        if argument.name not in guessed or argument.value is None or argument.element.is_float:
            continue
        if not any(_matters(card, session, case, number) for case in range(len(card.cases))):
            yield guessed[argument.name]


def _is_guessed(draft: Draft, argument: DraftArgument, said: AbstractSet[str]) -> bool:
    """Whether nobody said a number, and it is no extent."""
    if argument.parameter.pointer or argument.parameter.unread or argument.parameter.value or not argument.value:
        return False
    names = names_in(argument.value)
    if names & said:
        return False
    if names & set(draft.untold):
        return True
    extents = {name for table in OPERATIONS[draft.operation].cases for name in table}
    if argument.value in extents:
        return any(distance_for(argument.parameter.name, draft.operation, batches=one) for one in (False, True))
    return argument.reason != PASSED


def _matters(card: Card, session: Session, case: int, number: int) -> bool:
    bound = bind(card, card.cases[case], card.variants[0])
    value = bound.launch.arguments[number]
    kind = np.asarray(value).dtype
    ends = [_end(bound, session, bound.launch)]
    for other in (int(value) + 1, int(value) - 1):
        if not np.iinfo(kind).min <= other <= np.iinfo(kind).max:
            continue
        again = bind(card, card.cases[case], card.variants[0])
        arguments = [kind.type(other) if at == number else one for at, one in enumerate(again.launch.arguments)]
        ends.append(_end(again, session, replace(again.launch, arguments=arguments)))
    return any(one != ends[0] for one in ends)


def _end(bound: BoundCase, session: Session, launch: Launch) -> tuple[object, ...]:
    """What a launch leaves: the bytes of all arrays, or how it died."""
    try:
        session.runs.launch(session.kernel(bound.case, bound.variant).kernel, launch)
    except KernelFault as fault:
        return (fault.kind, str(fault.place))
    except WmmadiagError as error:
        return (type(error).__name__,)
    return tuple(one.storage.tobytes() for one in bound.arguments if one.storage is not None)
