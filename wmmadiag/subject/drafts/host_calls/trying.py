"""What trying a card by host functions gives: right, wrong beyond doubt, or neither."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from wmmadiag.subject.card import Card
from wmmadiag.subject.drafts.host_calls.candidates import Candidate
from wmmadiag.subject.drafts.kernel import SourceKernel
from wmmadiag.subject.host_functions.reference import ANY

if TYPE_CHECKING:
    from wmmadiag.subject.binding import BoundArgument, BoundCase
    from wmmadiag.subject.card_session import CardSession
    from wmmadiag.subject.verdict import Verdict

_ENOUGH, _ENOUGH_NAMED = 3, 2  # sets of sizes at which a kernel is wrong by a sure call, or by the user's
_TOLD = 0.1  # of the elements of an output: those that their bounds must tell from their neighbours
# Types that code rounds to on its way, the widest rounding first, and what names them there.
_NARROW = {"bf16": r"bf16|bfloat", "f16": r"half|\bf16", "tf32": r"tf32|mma"}


@dataclass(slots=True)
class Tries:
    """What has been run."""

    session: CardSession | None = None
    runs: int = 0
    instructions: int = 0  # warp instructions of these runs
    wrong: list[tuple[Candidate, Card]] = field(default_factory=list)  # that ran to their end
    untouched: set[str] | None = None  # arrays that these might write, and that none of them did
    # that did not come to their end, and what of
    died: list[tuple[Candidate, Card, str]] = field(default_factory=list)
    heavy: float = math.inf  # the product of the least sizes at which a run did not end
    asked: str = ""  # what has to be so for the kernel to be right, where nobody says it; "" for nothing
    ragged: str = ""  # sizes at which a kernel is wrong that is right at multiples of its tiles; "" for none

    def session_of(self, card: Card) -> CardSession:
        """A session for a card, with what was compiled for the others."""
        from wmmadiag.subject.card_session import tried_in

        self.session = tried_in(self.session, card)
        return self.session


def is_right(card: Card, candidate: Candidate, tries: Tries) -> bool:
    from wmmadiag.subject.check import run_case

    tries.runs += 1
    session = tries.session_of(card)
    result, bound, verdict = run_case(session, card.cases[0], card.variants[0], None, "")
    tries.instructions += result.warp_instructions
    if bound is not None and result.status == "failed" and verdict is not None and not verdict.damages:
        tries.wrong.append((candidate, card))
        left = {one.spec.name for one in bound.arguments if _is_untouched(one)}
        tries.untouched = left if tries.untouched is None else tries.untouched & left
    if verdict is None and result.problem is not None:
        tries.died.append((candidate, card, result.problem.message))
        if result.problem.kind == "budget":
            tries.heavy = min(tries.heavy, weight(card))
    return bound is not None and verdict is not None and result.status == "passed" and _tells(verdict, bound)


def weight(card: Card) -> float:
    """The product of a card's sizes: what a run of its kernel takes grows with it."""
    sizes = card.cases[0].symbols
    return math.prod(float(str(one)) for name, one in sizes.items() if not name.startswith("elements_of_"))


def _is_untouched(argument: BoundArgument) -> bool:
    """Whether an array that the kernel may write holds the bytes that it began with."""
    if argument.storage is None or argument.original is None or argument.spec.direction not in ("out", "inout"):
        return False
    return argument.storage.tobytes() == argument.original.tobytes()


def _tells(verdict: Verdict, case: BoundCase) -> bool:
    """Whether bounds are so narrow that an element is not taken for its neighbour: else any kernel would be right.

    One number that all elements of the inputs make has to be another if one of them were left out.
    """
    terms = max((one.size for one in case.inputs().values()), default=1)
    for role, expected in verdict.expected.items():
        bound = verdict.judgements[role].bound.reshape(-1)
        values = expected.reshape(-1)
        with np.errstate(invalid="ignore"):
            apart = np.abs(np.roll(values, 1) - values) > 2 * bound
        judged = bound < ANY
        if values.size == 1 and judged.all() and 2 * bound[0] * terms > abs(values[0]):
            return False
        if judged.any() and apart[judged].mean() < _TOLD and not (values[judged] == values[judged][0]).all():
            return False
    return True


def surely_wrong(kernel: SourceKernel, tries: Tries, named: str) -> Card | None:
    """The card by which the kernel is wrong, where it is so by every reading and at enough sizes; None if that is open.

    A workspace may have to begin with what nobody knows: of a kernel that has one only the user can say that it should
    fit a function.
    """
    pointers = {one.name for one in kernel.parameters if one.pointer and not one.value}
    if tries.died:
        return tries.died[0][1] if named and not tries.wrong else None
    wrong = []
    for one, card in tries.wrong:
        if named or (one.sure and pointers <= one.arrays.keys()):
            wrong.append(card)
    wrong = list({tuple(card.cases[0].symbols.items()): card for card in reversed(wrong)}.values())[::-1]
    if len(wrong) < (_ENOUGH_NAMED if named else _ENOUGH) or any(
        _may_be_rounding(kernel, card, tries) for card in wrong
    ):
        return None
    return wrong[0]


def _may_be_rounding(kernel: SourceKernel, card: Card, tries: Tries) -> bool:
    """Whether a kernel that names a narrow type would be right if it rounded all that it computes to that type.

    A bound so wide makes no kernel right; but what it explains is no proof that one is wrong.
    """
    narrow = next((name for name, pattern in _NARROW.items() if _names_type(kernel, name, pattern)), "")
    if not narrow:
        return False
    from wmmadiag.subject.check import run_case

    session = tries.session_of(replace(card, computes=replace(card.computes, rounding=narrow)))
    return run_case(session, card.cases[0], card.variants[0], None, "")[0].status != "failed"


def _names_type(kernel: SourceKernel, name: str, pattern: str) -> bool:
    held = any(one.pointer and one.dtype == name for one in kernel.parameters)
    return held or re.search(pattern, kernel.code) is not None
