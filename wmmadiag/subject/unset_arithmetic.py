"""What is asked where all that is wrong with a kernel may be arithmetic of which its card says nothing.

A card that leaves the types of sums and of intermediate values open is no word that they are not half: a kernel that
sums in halves on purpose is right. Where every difference is within the bound of a coarser arithmetic, the compiled
code has its instructions, and the card sets none of its parameters, nobody can say which of the two is meant.
"""

from __future__ import annotations

from wmmadiag.ops import OPERATIONS, Reading
from wmmadiag.results.model import Problem
from wmmadiag.subject.binding import BoundCase
from wmmadiag.subject.card_session import Loaded
from wmmadiag.subject.drafts.accumulators import computes_in
from wmmadiag.subject.verdict import Verdict, coarser_readings


def asked_arithmetic(bound: BoundCase, verdict: Verdict, loaded: Loaded) -> Problem | None:
    """The question whose answer decides a wrong result; None where there is none.

    Args:
        bound: the case that ran, of a card that somebody wrote: a derived one has its readings tried.
        verdict: of that run.
        loaded: the kernel.
    """
    coarser, computes = verdict.coarser, bound.card.computes
    if bound.card.derived is not None or coarser is None or verdict.damages:
        return None
    entries = loaded.entries or (loaded.compiled.entry,)

    def is_open(reading: Reading) -> bool:
        shown = any(computes_in(loaded.compilation, one, reading.parameters) for one in entries)
        return shown and not reading.parameters.keys() & computes.parameters.keys()

    if not is_open(coarser):
        return None
    known = OPERATIONS[computes.operation].parameters
    meant = ", ".join(f'{name} = "{value}"' for name, value in coarser.parameters.items())
    # All at once: whoever does not mean the one is not asked for the next.
    names = dict.fromkeys(
        name for one in (coarser, *coarser_readings(bound)) if is_open(one) for name in one.parameters
    )
    if_not = ", ".join(f'{name} = "{known[name].default}"' for name in names)
    return Problem(
        "undecided",
        f"every difference is within the bound of {meant}, which the compiled code has and the card says nothing of",
        hint=f"does the kernel mean that? If so, let the card's [computes] say {meant}; if not, {if_not}",
    )
