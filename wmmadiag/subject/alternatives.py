"""Other readings, sizes and operations under which a kernel may be right: what a run of it shows of them.

A run is read in many ways without being repeated (`wmmadiag.subject.rereading`). All that is tried is bounded in work,
by counts and not by clocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain

from wmmadiag.errors import BudgetError, WmmadiagError
from wmmadiag.ops import OPERATIONS, Reading
from wmmadiag.ops.shapes import floating_operations
from wmmadiag.subject.binding import BoundCase, bind, elements_of
from wmmadiag.subject.card import Card, Case
from wmmadiag.subject.card_session import MOST_TRIED, CardSession, tried_in
from wmmadiag.subject.check import run_case
from wmmadiag.subject.contradictions import contradicted
from wmmadiag.subject.drafts.accumulators import computes_in
from wmmadiag.subject.drafts.sizes import UNUSUAL
from wmmadiag.subject.readings import other_readings
from wmmadiag.subject.rereading import nearness, reread, unwritten
from wmmadiag.subject.verdict import judge_case

_MOST_READINGS = 400  # of one run
_ALIKE = 8  # readings that are told apart in another case
_AGAIN = 24  # of them, at other sizes: those that came nearest
_WORK, _OTHERS, _UNLIKE = 500.0, 250.0, 80.0
"""How much is tried of the operation that is likeliest, of each other one, and of one that code speaks against, in
units of about 10 ms of a processor: an answer must not depend on how busy a machine is. Each has its own, so that
one operation more takes nothing from the others."""
_TURN, _FIRST = 30.0, 4.0  # units of an operation before the next one's turn; how many times that the likeliest has
_RUN, _INSTRUCTIONS, _DRAWN = 4.0, 200_000, 400_000  # units of a run; warp instructions and elements that are one more
_READING, _ELEMENTS, _FLOATING = 0.2, 100_000, 50e6  # of a reading besides its tensors; what makes one unit more
_DRAFT, _PROBE = 0.6, 1.0  # units of a card that is drafted, and of a run that only looks where a kernel writes
_NEAR = 0.98  # of the elements: the rest may be rounding
_NO_CHANCE = 0.5  # a part that values of the same size about zero do not have by chance
_TELLING, _TIMES = 0.25, 2.0  # a part that is no chance, and how far behind all else must be


@dataclass(slots=True)
class ReadingWork:
    """What may still be tried."""

    left: float = _WORK  # units

    @property
    def over(self) -> bool:
        """Whether nothing is left."""
        return self.left <= 0

    def covers(self, elements: int) -> bool:
        """Whether a case with arrays of so many elements is within what is left."""
        return _RUN + elements / _DRAWN <= self.left

    def ran(self, instructions: int, elements: int) -> None:
        """A case with arrays of so many elements was run, compiled before where it was not."""
        self.left -= _RUN + instructions / _INSTRUCTIONS + elements / _DRAWN

    def probed(self) -> None:
        """A launch was run in search of one that covers the output."""
        self.left -= _PROBE

    def read(self, bound: BoundCase) -> None:
        """A run was read in another way: its reference was computed."""
        held = sum(one.storage.size for one in bound.arguments if one.storage is not None)
        shapes = {role: one.shape for role, one in {**bound.inputs(), **bound.outputs()}.items()}
        floating = floating_operations(OPERATIONS[bound.card.computes.operation], shapes, bound.parameters)
        self.left -= _READING + held / _ELEMENTS + floating / _FLOATING


@dataclass(slots=True)
class TriedReading:
    """What was tried."""

    best: str = ""  # the reading under which most elements are near, in words; "" for the one that was assumed
    part: float = 0.0  # which part of them
    card: Card | None = None  # with that reading
    cards: list[tuple[float, str, Card]] = field(default_factory=list)  # of all readings: the part, in words, the card
    ran: bool = False  # whether the kernel came to its end at all
    count: int = 0  # how many readings
    cut: bool = False  # whether others were left untried
    # operation → reading → the largest part of the elements that were near with it
    near: dict[str, dict[str, float]] = field(default_factory=dict)
    work: ReadingWork = field(default_factory=ReadingWork)  # that is left to the operation being tried

    def likely(self, operation: str) -> frozenset[str] | None:
        """The readings that came nearest at other sizes; None where none came near, which tells nothing."""
        parts = self.near.get(operation)
        if not parts or max(parts.values()) < _NO_CHANCE:
            return None
        return frozenset(sorted(parts, key=lambda name: -parts[name])[:_AGAIN])


@dataclass(slots=True)
class Nearest:
    """Of cards under which a kernel runs and is wrong, the one that it is written for, if its run shows which."""

    seen: list[tuple[str, Card]] = field(default_factory=list)  # what is assumed, in words; the card
    part: float = 0.0  # of the elements, that is near with one of them, beyond chance

    @property
    def telling(self) -> bool:
        """Whether so much is near with one of them that the kernel is likely meant for its operation."""
        return self.part >= _TELLING

    def best(self) -> Card | None:
        """The only one under which the kernel runs to its end and writes its whole output, or most of it is near.

        Cards are told apart in their last usual case: in a square one extent is as good as another. The card asks
        whether it is meant.
        """
        session: CardSession | None = None
        found: list[tuple[float, str, Card]] = []
        for name, card in self.seen[:_AGAIN]:
            session = tried_in(session, card)
            ran = ran_last(session, card, ReadingWork())
            if ran is not None and unwritten(ran) <= 1 - _NEAR:
                found.append((nearness(ran).beyond_chance, name, card))
        found.sort(key=lambda one: -one[0])
        if len(found) > 1 and found[0][0] < max(_TELLING, _TIMES * found[1][0]):
            return None
        for part, name, card in found[:1]:
            by_part = f"{part:.0%} of the elements are near with it, and with nothing else half as many"
            why = by_part if len(found) > 1 else "with nothing else it runs to its end and writes its whole output"
            said = f"{name}: {why}"
            return replace(card, assumed=(*card.assumed, said), derived=replace(card.derivation, near=said))
        return None


def right_one(
    tries: Sequence[tuple[Iterator[tuple[str, Card | None]], ReadingWork]], nearest: Nearest | None = None
) -> tuple[str, Card] | None:
    """The first card under which its kernel is right in every usual case; None if there is none in time.

    Args:
        tries: of each operation, the likeliest first: cards with what they assume, in words, None for what made no
            card, which costs work, too; and what may be tried of it. They take turns.
        nearest: is told of the others.
    """
    session: CardSession | None = None
    waiting = list(tries)
    while waiting:
        for one in list(waiting):
            candidates, work = one
            until = work.left - _TURN * (_FIRST if one is tries[0] else 1.0)
            for name, card in candidates:
                work.left -= _DRAFT
                if card is not None and not work.over:
                    session = tried_in(session, card)
                    tried = TriedReading()
                    found = _right_reading(name, session, work, tried)
                    if found is not None:
                        return found
                    if nearest is not None:
                        nearest.seen.append((name, card))
                        nearest.part = max(nearest.part, tried.part if one is tries[0] else 0.0)
                if work.left <= max(until, 0.0):
                    break
            else:
                waiting.remove(one)
                continue
            if work.over:
                waiting.remove(one)
    return None


def _right_reading(name: str, session: CardSession, work: ReadingWork, tried: TriedReading) -> tuple[str, Card] | None:
    """The reading under which a card's kernel is right in every usual case, in words and as a card."""
    ran = _ran(session, session.card, work)
    if ran is None:
        return None
    for reading, other in _readings(session, ran, name, tried, work):
        if _is_right_everywhere(session.of(other), work):  # in squares one extent is as good as another
            return _joined(name, reading), other
    return None


def right_alternative(card: Card) -> tuple[str, Card] | None:
    """The reading and sizes by which a derived card's kernel is right in every usual case, in words and as a card.

    Words are empty where it is right as it was derived; None where it is right by none.
    """
    session = tried_in(None, card)
    tried = TriedReading()
    if _is_right_everywhere(session, tried.work):
        return "", card
    for name, other in alternatives(card, session, tried):
        if _is_right_everywhere(session.of(other), tried.work):
            return name, other
    return None


def _is_right_everywhere(session: CardSession, work: ReadingWork) -> bool:
    card = session.card
    for case in card.cases:
        if case.name in UNUSUAL:
            continue
        result, _, _ = run_case(session, case, card.variants[0], None, "")
        work.ran(result.warp_instructions, elements(card)(case))
        if result.status != "passed":
            return False
    return True


def elements(card: Card) -> Callable[[Case], int]:
    """How many elements the arrays of a case have; 0 where it cannot be bound."""

    def count(case: Case) -> int:
        try:
            return elements_of(card, case, card.variants[0])
        except WmmadiagError:
            return 0

    return count


def alternatives(card: Card, session: CardSession, tried: TriedReading) -> Iterator[tuple[str, Card]]:
    """Other cards under which some case of the kernel is right, each with what it reads otherwise, in words.

    What is done with one of them is to be charged to `tried.work`, which ends them.
    """
    from wmmadiag.subject.drafts.other_cards import added_cards, cards_of_other_operations, reassigned_cards
    from wmmadiag.subject.drafts.other_sizes import resized_cards

    for sizes, candidate in chain((("", card),), added_cards(card), reassigned_cards(card), resized_cards(card)):
        if tried.work.over:
            tried.cut = True
            break
        yield from _of_card(sizes, candidate, session, tried)
    for operation, candidate, speaking in cards_of_other_operations(card):
        tried.work = other_work(speaking)
        for name, other in _of_card(operation, candidate, session, tried):
            yield f"it computes {name}", other


def other_work(speaking: int) -> ReadingWork:
    """What may be tried of an operation that is not the likeliest, with so many traits of code against it."""
    return ReadingWork(_UNLIKE if speaking else _OTHERS)


def _of_card(name: str, card: Card, session: CardSession, tried: TriedReading) -> Iterator[tuple[str, Card]]:
    own = session.of(card)
    ran = _ran(own, card, tried.work)
    if ran is None:
        return
    tried.ran = tried.ran or card.computes.operation == session.card.computes.operation
    for reading, other in _readings(own, ran, name, tried, tried.work):
        yield _joined(name, reading), other
        if tried.work.over:
            return


def nearest_of_all(tried: TriedReading, session: CardSession) -> tuple[str, Card] | None:
    """The reading under which most elements are near, in words and as a card; None if no reading has any.

    Of those that are as near in the case that was read, the one that is so in the last usual case, in which most
    extents differ: a mask has one corner in a square.
    """
    if tried.card is None:
        return None
    alike = [(name, card) for part, name, card in tried.cards if part >= tried.part - (1 - _NEAR)][:_ALIKE]
    best = tried.best, tried.card
    if len(alike) < 2:
        return best
    reached = -1.0
    for name, card in alike:
        ran = ran_last(session.of(card), card, ReadingWork())
        with suppress(WmmadiagError):
            part = nearness(ran).beyond_chance if ran is not None else -1.0
            if part > reached:
                reached, best = part, (name, card)
    return best


def ran_last(session: CardSession, card: Card, work: ReadingWork) -> BoundCase | None:
    """The last usual case of a card, the one in which most extents differ, as the kernel left it; None if it dies."""
    last = tuple([case for case in card.cases if case.name not in UNUSUAL][-1:])
    return _ran(session, replace(card, cases=last), work)


def _ran(session: CardSession, card: Card, work: ReadingWork) -> BoundCase | None:
    """The first case of a card that runs to its end, as the kernel left it."""
    variant = card.variants[0]
    for case in card.cases:
        if case.name in UNUSUAL:
            continue
        if work.over:
            return None
        count = elements(card)(case)
        if not work.covers(
            count
        ):  # what an extent in another's place makes of arrays may be thousands of times as much
            work.left -= _DRAFT
            continue
        instructions = 0
        try:
            bound = bind(card, case, variant)
            instructions = session.runs.launch(session.kernel(case, variant).kernel, bound.launch).warp_instructions
        except BudgetError:
            instructions = MOST_TRIED
        except WmmadiagError:
            pass
        else:
            return bound
        finally:
            work.ran(instructions, count)
    return None


def _readings(
    session: CardSession, bound: BoundCase, sizes: str, tried: TriedReading, work: ReadingWork
) -> Iterator[tuple[str, Card]]:
    """The readings under which a run is right, without running it again where that can be."""
    card = session.card
    if unwritten(bound) > 1 - _NEAR:
        return  # whatever it means
    if sizes and _is_right(bound):
        yield "", card
    operation = card.computes.operation
    rounded: list[tuple[str, Card]] = []  # near enough that coarser arithmetic may be the rest
    likely, parts = tried.likely(operation), tried.near.setdefault(operation, {})
    for number, (reading, other) in enumerate(_meanings(card)):
        if number > _MOST_READINGS or work.over:
            tried.cut = True
            break
        name = reading.name if reading is not None else ""
        if likely is not None and name not in likely and name in parts:
            continue
        tried.count += name not in parts
        read = reread(bound, other) if reading is not None else bound
        if read is None:
            work.left -= _READING
            continue
        work.read(read)
        try:
            found = nearness(read)
        except WmmadiagError:  # values so, with what else it reads, are none
            continue
        parts[name] = max(found.beyond_chance, parts.get(name, 0.0))
        tried.cards.append((found.beyond_chance, name, other))
        if found.beyond_chance > tried.part:
            tried.part, tried.best, tried.card = found.beyond_chance, name, other
        if found.part >= _NEAR:
            if _is_right(read):
                yield name, other
            else:
                rounded.append((name, other))
    for name, other in rounded:  # where nothing is right as exactly as the operation has it
        for finer, further in _arithmetic(other, session, bound):
            if work.over:
                tried.cut = True
                return
            tried.count += 1
            work.read(bound)
            again = reread(bound, further)
            if again is not None and _is_right(again):
                yield _joined(name, finer.name), further  # and others: a small case may not tell them apart


def _meanings(card: Card) -> Iterator[tuple[Reading | None, Card]]:
    """The card, then every other reading of where elements lie and what is computed of them."""
    if not contradicted(card):
        yield None, card
    for reading, other in other_readings(card, changes=3):
        if "arithmetic" not in reading.kinds and reading.deliberate and not contradicted(other):
            yield reading, other


def _arithmetic(card: Card, session: CardSession, bound: BoundCase) -> Iterator[tuple[Reading, Card]]:
    """Coarser arithmetic of which the compiled kernel has the instructions."""
    loaded = session.kernel(bound.case, bound.variant)
    for reading, other in other_readings(card, changes=2):
        if reading.kinds != {"arithmetic"}:
            continue
        entries = loaded.entries or (loaded.compiled.entry,)
        if any(computes_in(loaded.compilation, one, reading.parameters) for one in entries):
            yield reading, other


def _is_right(bound: BoundCase) -> bool:
    try:
        return judge_case(bound, other_readings=False).status == "passed"
    except WmmadiagError:
        return False


def _joined(first: str, second: str) -> str:
    return " and ".join(filter(None, [first, second]))
