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
from wmmadiag.subject.binding import BoundCase, bind
from wmmadiag.subject.card import Card
from wmmadiag.subject.check import Session
from wmmadiag.subject.drafts.guess import distance_for
from wmmadiag.subject.drafts.model import Draft, DraftArgument
from wmmadiag.subject.drafts.numbers import PASSED


def tried_at_all(card: Card, report: KernelReport, session: Session) -> KernelReport:
    """The report on a derived card that is right, undecided where a guessed number changes nothing of any case."""
    if card.derived is None or report.status != "passed":
        return report
    idle = list(_idle(card, session))
    if not idle:
        return report
    one = idle[0]
    hint = f"say a value of which something does: {_said(card.derived.draft, one)}"
    message = f"nothing that was run depends on the number '{one.parameter.name}', and nobody said what it is"
    question = Problem("undecided", message, hint=hint)
    cases = (replace(case, status="undecided", problem=question) for case in report.cases)
    return replace(report, cases=tuple(cases))


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
