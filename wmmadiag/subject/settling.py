"""What a check of a source alone says: a guess makes no verdict.

A card that was derived from a source rests on guesses. Where the kernel is right under them, it is right: inputs are
random, and nothing else comes out so by chance. Where it is wrong, the other readings are tried: how tensors are
stored, what else is computed, in which types, at which sizes. One that is right is the reading, and is named. If none
is, the kernel is wrong only if nothing of what the verdict rests on was guessed; else nobody can say, and the report
asks the one question whose answer decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from wmmadiag.errors import WmmadiagError
from wmmadiag.ops import Reading
from wmmadiag.report.model import CaseResult, KernelReport, Problem
from wmmadiag.subject.binding import BoundCase, elements_of
from wmmadiag.subject.card import Card, Case
from wmmadiag.subject.check import MOST_TRIED, Backend, Compiler, Session, run_case, session_for
from wmmadiag.subject.drafts.accumulators import computes_in
from wmmadiag.subject.drafts.sizes import RAGGED
from wmmadiag.subject.readings import other_readings
from wmmadiag.subject.rereading import nearness, reread, unwritten
from wmmadiag.subject.verdict import judge_case

_MOST_READINGS = 400  # of one run
_WORK = 1000.0
"""How much is tried of one kind of question, in units of about 10 ms of a processor: an answer must not depend on how
busy a machine is."""
_RUN, _INSTRUCTIONS, _DRAWN = 20.0, 200_000, 400_000  # units of a run; warp instructions and elements that are one more
_READING, _ELEMENTS = 0.5, 100_000  # of a reading besides its tensors; of their elements one unit has so many
_NEAR = 0.98  # of the elements: the rest may be rounding
_PART = 0.2  # of the elements: more than chance gives

Check = Callable[[Card], KernelReport]


@dataclass(slots=True)
class _Work:
    """What may still be tried.

    Attributes:
        left: units.
    """

    left: float = _WORK

    @property
    def over(self) -> bool:
        """Whether nothing is left."""
        return self.left <= 0

    def ran(self, instructions: int, elements: int) -> None:
        """A case with arrays of so many elements was run, compiled before where it was not."""
        self.left -= _RUN + instructions / _INSTRUCTIONS + elements / _DRAWN

    def read(self, bound: BoundCase) -> None:
        """A run was read in another way."""
        held = sum(one.storage.size for one in bound.arguments if one.storage is not None)
        self.left -= _READING + held / _ELEMENTS


@dataclass(slots=True)
class _Tried:
    """What was tried.

    Attributes:
        best: the reading under which most elements are near, in words; "" for the one that was assumed.
        part: which part of them.
        ran: whether the kernel came to its end at all.
        count: how many readings.
    """

    best: str = ""
    part: float = 0.0
    ran: bool = False
    count: int = 0
    died: list[str] = field(default_factory=list)


def settled(card: Card, report: KernelReport, session: Session, check: Check) -> KernelReport:
    """The report on a derived card, by the reading under which its kernel is right; else WRONG, or undecided.

    Args:
        report: on the card as it was derived.
        session: to run other readings in, without checks.
        check: the whole check of another card.
    """
    if card.derived is None or report.status == "passed" or _is_error(report):
        return report
    if _is_read_right(report):
        return _as_launched(card, _without_ragged(report))
    tried, work = _Tried(), _Work()
    for name, other in _alternatives(card, session, tried, work):
        found = check(other)
        if _is_read_right(found):
            return _as_launched(card, _named(_without_ragged(found), name))
        work.ran(sum(case.warp_instructions for case in found.cases), sum(map(_elements(other), other.cases)))
        if work.over:
            break
    return _unsettled(card, report, tried)


def right_one(candidates: Iterator[tuple[str, Card]]) -> tuple[str, Card] | None:
    """The first card under which its kernel is right in every usual case; None if there is none in time."""
    from wmmadiag.api import card_target

    work = _Work(2 * _WORK)
    session: Session | None = None
    for name, card in candidates:
        if work.over:
            return None
        target = card_target(card, None)
        first = session or session_for(card, target, None, None)
        session = session or first
        ran = _ran(replace_card(first, card), card, work)
        if ran is None:
            continue
        for reading, other in _readings(replace_card(first, card), ran, name, _Tried(), work):
            if _is_right_everywhere(replace_card(first, other), work):  # in squares one extent is as good as another
                return _joined(name, reading), other
    return None


def right_alternative(card: Card) -> tuple[str, Card] | None:
    """The reading and sizes by which a derived card's kernel is right in every usual case, in words and as a card.

    Words are empty where it is right as it was derived; None where it is right by none.
    """
    from wmmadiag.api import card_target

    session = session_for(card, card_target(card, None), None, None)
    work = _Work()
    if _is_right_everywhere(session, work):
        return "", card
    for name, other in _alternatives(card, session, _Tried(), work):
        if _is_right_everywhere(replace_card(session, other), work):
            return name, other
        if work.over:
            break
    return None


def _elements(card: Card) -> Callable[[Case], int]:
    """How many elements the arrays of a case have; 0 where it cannot be bound."""

    def count(case: Case) -> int:
        try:
            return elements_of(card, case, card.variants[0])
        except WmmadiagError:
            return 0

    return count


def _is_right_everywhere(session: Session, work: _Work) -> bool:
    card = session.card
    for case in card.cases:
        if case.name == RAGGED:
            continue
        result, _, _ = run_case(session, case, card.variants[0], None, "")
        work.ran(result.warp_instructions, _elements(card)(case))
        if result.status != "passed":
            return False
    return True


def _is_read_right(report: KernelReport) -> bool:
    """Whether all numbers are right, those at ragged sizes aside: what is wrong then is so under any reading."""
    usual = [case for case in report.cases if case.case != RAGGED]
    return bool(usual) and all(
        case.problem is None
        and not case.overwritten
        and case.observations
        and all(one.passed for one in case.observations)
        for case in usual
    )


def _as_launched(card: Card, report: KernelReport) -> KernelReport:
    """The report where the numbers are right: what checks find under a launch that nobody said is undecided."""
    derived = card.derived
    assert derived is not None
    if derived.kernel.launch is not None or (derived.options.grid and derived.options.block):
        return report
    grid, block = (",".join(map(str, one)) for one in (card.launch.grid, card.launch.block))
    message = "what was found holds if the kernel is launched so, and nobody said that it is"
    question = Problem("undecided", message, hint=f"is it? If so, --grid '{grid}' --block {block}")
    return replace(report, cases=tuple(_undecided(case, question) for case in report.cases))


def _without_ragged(report: KernelReport) -> KernelReport:
    """The report where the kernel's own guards admit sizes that nobody launches: a store outside an array is wrong.

    Wrong numbers are undecided, and what else ends a run there says nothing.
    """
    cases: list[CaseResult] = []
    assumed = list(report.assumed)
    for case in report.cases:
        if case.case != RAGGED or case.status == "passed" or _stores_outside(case):
            cases.append(case)
            continue
        sizes = " ".join(f"{name}={value:g}" for name, value in case.symbols.items())
        if case.problem is None:
            again = " ".join(f"--symbol {name}={value:g}" for name, value in case.symbols.items())
            question = Problem(
                "undecided",
                "the numbers are wrong at sizes that are no multiples of its tiles, with which it compares indices",
                hint=f"does it take them? If so, {again}",
            )
            cases.append(replace(case, status="undecided", problem=question))
        else:
            assumed.append(f"not judged at {sizes}, which its guards might admit: {case.problem.message}")
    return replace(report, cases=tuple(cases), assumed=tuple(assumed))


def _stores_outside(case: CaseResult) -> bool:
    if case.overwritten:
        return True
    told = case.problem
    return told is not None and told.kind == "out-of-bounds" and told.message.startswith("write")


def trying(card: Card, arch: str, backend: Backend | None, compiler: Compiler) -> Session:
    """A session in which other readings are tried, without checks."""
    return session_for(card, arch, backend, compiler)


def _is_error(report: KernelReport) -> bool:
    """Whether nothing ran for a reason that is no reading's: it does not compile, or is not supported."""
    kinds = {case.problem.kind for case in report.cases if case.problem is not None}
    return report.status == "error" or (report.status == "undecided" and kinds <= {"unsupported", "compile", "budget"})


def _named(report: KernelReport, name: str) -> KernelReport:
    return replace(report, assumed=(*report.assumed, f"{name}, which is what the result fits"))


def _alternatives(card: Card, session: Session, tried: _Tried, work: _Work) -> Iterator[tuple[str, Card]]:
    """Other cards under which some case of the kernel is right, each with what it reads otherwise, in words."""
    assert card.derived is not None
    for sizes, candidate in (("", card), *_resized(card)):
        own = replace_card(session, candidate)
        ran = _ran(own, candidate, work)
        if ran is None:
            continue
        tried.ran = True
        yield from ((_joined(sizes, name), other) for name, other in _readings(own, ran, sizes, tried, work))
    for operation, candidate in _other_operations(card):
        own = replace_card(session, candidate)
        if work.over:
            return
        ran = _ran(own, candidate, work)
        if ran is None:
            continue
        for name, other in _readings(own, ran, operation, tried, work):
            yield _joined(f"it computes {operation}", name), other


def _joined(first: str, second: str) -> str:
    return " and ".join(filter(None, [first, second]))


def replace_card(session: Session, card: Card) -> Session:
    """A session for another card of the same kernel; compiled kernels are shared."""
    other = Session(card, session.arch, session.backend, session.compiler, session.runs)
    other.loaded = session.loaded
    return other


def _ran(session: Session, card: Card, work: _Work) -> BoundCase | None:
    """The first case of a card that runs to its end, as the kernel left it."""
    for case in card.cases:
        result, bound, _ = run_case(session, case, card.variants[0], None, "")
        endless = result.problem is not None and result.problem.kind == "budget"
        work.ran(MOST_TRIED if endless else result.warp_instructions, _elements(card)(case))
        if bound is not None and case.name != RAGGED:
            return bound
    return None


def _readings(session: Session, bound: BoundCase, sizes: str, tried: _Tried, work: _Work) -> Iterator[tuple[str, Card]]:
    """The readings under which a run is right, without running it again where that can be."""
    card = session.card
    if unwritten(bound) > 1 - _NEAR:
        return  # whatever it means
    if sizes and _is_right(bound):
        yield "", card
    near: list[tuple[float, str, Card]] = []
    for number, (reading, other) in enumerate(_meanings(card)):
        if number > _MOST_READINGS or work.over:
            break
        tried.count += 1
        work.read(bound)
        read = reread(bound, other) if reading is not None else bound
        if read is None:
            continue
        part = nearness(read)
        name = reading.name if reading is not None else ""
        if part > tried.part:
            tried.part, tried.best = part, name
        if part >= _NEAR:
            near.append((part, name, other))
            if _is_right(read):
                yield name, other
                continue
            for finer, further in _arithmetic(other, session, bound):
                tried.count += 1
                work.read(bound)
                again = reread(bound, further)
                if again is not None and _is_right(again):
                    yield _joined(name, finer.name), further
                    break


def _meanings(card: Card) -> Iterator[tuple[Reading | None, Card]]:
    """The card, then every other reading of where elements lie and what is computed of them."""
    yield None, card
    for reading, other in other_readings(card, changes=3):
        if "arithmetic" not in reading.kinds and reading.deliberate:
            yield reading, other


def _arithmetic(card: Card, session: Session, bound: BoundCase) -> Iterator[tuple[Reading, Card]]:
    """Coarser arithmetic of which the compiled kernel has the instructions."""
    loaded = session.kernel(bound.case, bound.variant)
    for reading, other in other_readings(card, changes=2):
        if reading.kinds != {"arithmetic"}:
            continue
        if computes_in(loaded.compilation, loaded.compiled.entry, reading.parameters):
            yield reading, other


def _is_right(bound: BoundCase) -> bool:
    try:
        return judge_case(bound).status == "passed"
    except WmmadiagError:
        return False


def _resized(card: Card) -> Sequence[tuple[str, Card]]:
    """The card at other sizes: multiples of larger tiles, other heads."""
    from wmmadiag.subject.drafts.derive import resized_cards

    return tuple(resized_cards(card))


def _other_operations(card: Card) -> Iterator[tuple[str, Card]]:
    """Cards by other operations that the kernel's arrays fit, where nobody said which."""
    from wmmadiag.subject.drafts.derive import cards_of_other_operations

    return cards_of_other_operations(card)


def _unsettled(card: Card, report: KernelReport, tried: _Tried) -> KernelReport:
    """The report where no reading is right: WRONG where nothing was guessed that matters, else undecided."""
    derived = card.derived
    assert derived is not None
    launched = derived.kernel.launch is not None
    launched = launched or bool(derived.options.grid and derived.options.block)
    if "operation" in derived.told and launched and not derived.draft.untold and (tried.ran or _sizes_told(card)):
        return replace(report, assumed=(*report.assumed, f"{tried.count} other readings were tried, none is right"))
    question = _question(card, tried)
    if derived.doubt:
        report = replace(report, cases=tuple(map(_with_problem_noted, report.cases)))
    return replace(report, cases=tuple(_undecided(case, question) for case in report.cases))


def _with_problem_noted(case: CaseResult) -> CaseResult:
    """The case where it is no news what a kernel of another operation dies of."""
    told = case.problem
    if told is None:
        return case
    return replace(case, problem=None, notes=(*case.notes, " ".join(filter(None, [told.place, told.message]))))


def _sizes_told(card: Card) -> bool:
    """Whether the user said all sizes."""
    assert card.derived is not None
    told = {*card.derived.options.symbols, *card.derived.draft.fixed}
    return all(set(case.symbols) <= told for case in card.cases)


def _question(card: Card, tried: _Tried) -> Problem:
    """The one question whose answer decides."""
    derived = card.derived
    assert derived is not None
    operation = card.computes.operation
    sizes = sorted({name for case in card.cases for name in case.symbols} - {"causal", "alpha", "beta"})
    asked = " ".join(f"--symbol {name}=…" for name in (derived.draft.untold or sizes))
    if derived.doubt:
        ends = "the result fits it in no reading" if tried.ran else "it does not run to its end at the sizes tried"
        message = f"nobody said what the kernel computes: taken as {operation}, although {derived.doubt}; {ends}"
        hint = (
            "say it with --computes; `wmmadiag init --computes python` drafts a card for what is no built-in operation"
        )
        return Problem("undecided", message, hint=hint)
    if not tried.ran:
        message = "the kernel does not run to its end at the sizes that were tried, and nobody said which it takes"
        return Problem("undecided", message, hint=f"say sizes that it takes: {asked}")
    best = tried.best or "the reading that was assumed"
    seen = f"; {tried.part:.0%} of the elements are near with {best}" if tried.part >= _PART else ""
    message = f"the result fits none of {tried.count} readings of {operation}{seen}"
    if "operation" not in derived.told:
        hint = f"does it compute {operation}? If so, --computes {operation}; if not, --computes with what it does"
    elif derived.draft.untold:
        hint = f"say what it is made for: {asked}"
    else:
        hint = f"does it take the sizes that were tried? If so, give them: {asked}"
    return Problem("undecided", message, hint=f"{hint}; `wmmadiag init` writes a card for anything else")


def _undecided(case: CaseResult, question: Problem) -> CaseResult:
    if case.status == "passed":
        return case
    return replace(case, status="undecided", problem=question if case.problem is None else case.problem,
                   notes=(*case.notes, *([question.message] if case.problem is not None else [])))  # fmt: skip
