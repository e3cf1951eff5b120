"""Whether what was run depends on the numbers that were guessed: one that changes nothing was not tried at all.

A window wider than the sequence hides no key, a limit that nothing reaches limits nothing: the kernel is right then
whatever it does with them. Each guessed number is changed by one, either way; where no case ends otherwise, the run
says nothing of it. Extents need no such look: arrays and the expected result change with them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import product

import numpy as np

from wmmadiag.errors import KernelFault, WmmadiagError
from wmmadiag.hostcode.terms import Term, symbols, value
from wmmadiag.launch import Launch
from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.expressions import names_in
from wmmadiag.results.model import KernelReport, Problem
from wmmadiag.subject.binding import BoundCase, bind
from wmmadiag.subject.card import Card, Case, Expression
from wmmadiag.subject.card_session import CardSession
from wmmadiag.subject.check import run_case
from wmmadiag.subject.drafts.guess import distance_for
from wmmadiag.subject.drafts.model import CardDraft, DraftArgument
from wmmadiag.subject.drafts.numbers import PASSED
from wmmadiag.subject.drafts.sizes import RAGGED, UNUSUAL, unguarded_sizes

_WARP, _SEVERAL = 32, 128  # threads of a block
_PARTS, _UNEVEN, _BLOCKS = (2,), 3, (3, 4, 5)  # that are tried besides what was taken


def tried_at_all(card: Card, report: KernelReport, session: CardSession) -> KernelReport:
    """The report on a derived card that is right, undecided where a guessed number changes nothing of any case."""
    if card.derived is None or report.status != "passed":
        return report
    question = _of_ignored(card.derived.draft) or _of_counted(card, session) or _of_warps(card, session)
    question = question or _of_idle(card, session)
    if question is None:
        return _of_unguarded(card, report, session)
    cases = (replace(case, status="undecided", problem=question) for case in report.cases)
    return replace(report, cases=tuple(cases))


def _of_unguarded(card: Card, report: KernelReport, session: CardSession) -> KernelReport:
    """The report, with what was seen at sizes that the grid rounds up for and no line compares an index with."""
    draft, given = card.derivation.draft, card.derivation.options.symbols
    usual = [case for case in card.cases if case.name not in UNUSUAL]
    if not usual or not _is_launched(card):
        return report
    values = {name: f"{number:g}" for name, number in usual[-1].symbols.items() if isinstance(number, int | float)}
    sizes = unguarded_sizes(draft, values, given)
    numbers = {name: int(text) for name, text in sizes.items() if text.isdecimal()}
    if not numbers:
        return report
    case = replace(usual[-1], name=RAGGED, symbols={**usual[-1].symbols, **numbers})
    other = replace(card, cases=(case,))
    result, _, verdict = run_case(session.of(other), case, other.variants[0], None, "")
    if result.status == "passed" or (verdict is None and not result.overwritten and result.problem is None):
        return report
    names = sorted(name for name, number in numbers.items() if usual[-1].symbols.get(name) != number)
    ends = result.problem.message if result.problem is not None else "the numbers are wrong"
    said = " ".join(f"{name}={numbers[name]}" for name in names)
    told = f"the grid rounds up for {' and '.join(names)}, with which no line compares an index, as with others"
    return replace(report, assumed=(*report.assumed, f"not judged at {said}: {told}; {ends}"))


def _is_launched(card: Card) -> bool:
    """Whether host code makes the launch."""
    return card.derived is not None and card.derived.kernel.launch is not None and not card.derived.kernel.commented


def _of_ignored(draft: CardDraft) -> Problem | None:
    """What is asked where the kernel takes what its operation computes with, and nothing reads it."""
    one = next((each for each in draft.arguments if each.ignored), None)
    if one is None:
        return None
    name = one.parameter.name
    message = f"the kernel takes '{name}', by its name the {one.ignored}, and no line reads it"
    hint = "if it is meant to be ignored, `wmmadiag init` writes a card that says so; if not, that is the mistake"
    return Problem("undecided", message, hint=hint)


def _of_counted(card: Card, session: CardSession) -> Problem | None:
    """What is asked where the kernel is right with what was taken for something that host code counts, and not always.

    One part of a sum is the whole of it: two are tried, too. How many blocks go over all tiles must not matter at all.
    """
    kernel = card.derivation.kernel
    for name, case in product(kernel.counted, card.cases):
        if case.name in UNUSUAL or name in card.derivation.options.symbols:
            continue
        taken = kernel.usual.get(name)
        for count, other in _counted_otherwise(card, case, name):
            result, _, verdict = run_case(session.of(other), other.cases[0], other.variants[0], None, "")
            wrong = verdict is not None and verdict.status == "failed" and not result.overwritten
            if wrong or (name not in case.symbols and result.problem is not None):
                message = f"the kernel is right with {name} = {taken}, and wrong with {count}"
                hint = f"is {taken} what it is made for? If so, --symbol {name}={taken}; if not, it is wrong"
                return Problem("undecided", message, hint=hint)
    return None


def _of_warps(card: Card, session: CardSession) -> Problem | None:
    """What is asked where nobody said the block, one warp of it is right, and what warps do together was not tried."""
    kernel = card.derivation.kernel
    together = all(re.search(rf"\b{word}\b", kernel.code) for word in ("blockDim", "__syncthreads"))
    if kernel.launch is not None or card.derivation.options.block or not together:
        return None
    if [str(one) for one in card.launch.block] != [str(_WARP)]:
        return None
    several = replace(card, launch=replace(card.launch, block=(_SEVERAL,)))
    for case in card.cases:
        result, _, _ = run_case(session.of(several), case, several.variants[0], None, "")
        if result.status != "passed":
            message = f"the kernel is right with blocks of {_WARP} threads, and not with {_SEVERAL}"
            hint = f"is it made for one warp? If so, --block {_WARP}; if not, --block with what it is made for"
            return Problem("undecided", message, hint=hint)
    return None


def _counted_otherwise(card: Card, case: Case, name: str) -> Iterator[tuple[int, Card]]:
    """A case with other numbers for what host code counts."""
    if name in case.symbols:
        counts = _PARTS if case.symbols[name] == 1 else ()
        for count in (*counts, *([_UNEVEN] if _may_be_uneven(card, case, name) else [])):
            yield count, replace(card, cases=(replace(case, symbols={**case.symbols, name: count}),))
    elif list(map(str, card.launch.grid)) == [f"{card.derivation.kernel.usual.get(name)}"]:
        for count in _BLOCKS:
            yield count, replace(card, cases=(case,), launch=replace(card.launch, grid=(count,)))
    elif card.derivation.kernel.usual.get(name) == 1 and (several := _on_its_axis(card, name, _PARTS[0])):
        yield _PARTS[0], replace(card, cases=(case,), launch=replace(card.launch, grid=several))


def _on_its_axis(card: Card, name: str, count: int) -> tuple[Expression, ...]:
    """The grid with a number on the axis that is what host code counts; empty where none is just that."""
    launch = card.derivation.kernel.launch
    grid = [*card.launch.grid, 1, 1, 1][:3]
    for at, axis in enumerate("xyz" if launch is not None else ""):
        term = launch.grid.members[axis].value if launch is not None and axis in launch.grid.members else None
        if isinstance(term, Term) and term.op == "symbol" and term.args[0] == name:
            return (*grid[:at], count, *grid[at + 1 :])
    return ()


def _may_be_uneven(card: Card, case: Case, name: str) -> bool:
    """Whether what host code divides by a number need not come out even.

    It does not where host code rounds up; and a function that launches all of it says that it has to, if it does.
    """
    kernel, sizes = card.derivation.kernel, {**case.symbols, name: _UNEVEN}
    if kernel.together is not None:
        numbers = {symbol: size for symbol, size in sizes.items() if isinstance(size, int | float)}
        return all(value(one, numbers) in (None, int(holds)) for one, holds in card.derivation.draft.facts)
    launched = [one for one in kernel.passed if isinstance(one, Term)]
    if kernel.launch is not None:
        launched += [one.value for one in kernel.launch.grid.members.values() if isinstance(one.value, Term)]
    return any(_divides_up(one, name) for one in launched)


def _divides_up(term: Term, name: str) -> bool:
    if term.op == "ceil_div" and name in symbols(term.args[1]):
        return True
    return any(_divides_up(one, name) for one in term.args if isinstance(one, Term))


def _of_idle(card: Card, session: CardSession) -> Problem | None:
    """What is asked where a guessed number changes nothing."""
    one = next(_idle(card, session), None)
    if one is None:
        return None
    hint = f"say a value of which something does: {_said(card.derivation.draft, one)}"
    message = f"nothing that was run depends on the number '{one.parameter.name}', and nobody said what it is"
    return Problem("undecided", message, hint=hint)


def _said(draft: CardDraft, argument: DraftArgument) -> str:
    symbols = names_in(argument.value) & set(draft.unstated)
    return " ".join(f"--symbol {name}=…" for name in sorted(symbols)) or "`wmmadiag init` writes a card, which has it"


def _idle(card: Card, session: CardSession) -> Iterator[DraftArgument]:
    """The guessed numbers on which no case depends."""
    draft = card.derivation.draft
    said = set(card.derivation.options.symbols)
    guessed = {one.parameter.name: one for one in draft.arguments if _is_guessed(draft, one, said)}
    for number, argument in enumerate(card.arguments):
        if argument.name not in guessed or argument.value is None or argument.element.is_float:
            continue
        if not any(_matters(card, session, case, number) for case in range(len(card.cases))):
            yield guessed[argument.name]


def _is_guessed(draft: CardDraft, argument: DraftArgument, said: AbstractSet[str]) -> bool:
    """Whether nobody said a number, and it is no extent."""
    if argument.parameter.pointer or argument.parameter.unread or argument.parameter.value or not argument.value:
        return False
    names = names_in(argument.value)
    if names & said:
        return False
    if names & set(draft.unstated):
        return True
    extents = {name for table in OPERATIONS[draft.operation].cases for name in table}
    if argument.value in extents:
        return any(distance_for(argument.parameter.name, draft.operation, batches=one) for one in (False, True))
    return argument.reason != PASSED


def _matters(card: Card, session: CardSession, case: int, number: int) -> bool:
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


def _end(bound: BoundCase, session: CardSession, launch: Launch) -> tuple[object, ...]:
    """What a launch leaves: the bytes of all arrays, or how it died."""
    try:
        session.runs.launch(session.kernel(bound.case, bound.variant).kernel, launch)
    except KernelFault as fault:
        return (fault.kind, str(fault.place))
    except WmmadiagError as error:
        return (type(error).__name__,)
    return tuple(one.storage.tobytes() for one in bound.arguments if one.storage is not None)
