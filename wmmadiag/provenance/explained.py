"""One output element of a card's case: its slice, and where it departs from what the card computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from wmmadiag import backends, emulator
from wmmadiag.errors import BudgetError, UnsupportedError
from wmmadiag.provenance.expected import has_products
from wmmadiag.provenance.explain import element_address, explain
from wmmadiag.provenance.model import Disagreement
from wmmadiag.provenance.origin import SliceStep, compact
from wmmadiag.provenance.trace import trace
from wmmadiag.subject.binding import BoundCase, bind
from wmmadiag.subject.card import Card
from wmmadiag.subject.card_session import CardSession, PlainRuns
from wmmadiag.subject.compiling import SubjectCompiler
from wmmadiag.subject.verdict import judge_case, wrong_masks

SECONDS = 30.0
"""What one run may take where nobody says: a case that can be followed element by element ends long before."""


@dataclass(frozen=True, slots=True)
class Explained:
    """An element's origin."""

    # case, variant: names
    case: str
    variant: str
    # role, index: of the element
    role: str
    index: tuple[int, ...]
    tree: SliceStep  # its slice, compact; steps on a line that departs say so in their note
    departures: tuple[Disagreement, ...]  # disagreements that reach this element
    undecided: str  # why nothing can be said about departures, or ""


def explained(
    card: Card,
    which: Callable[[BoundCase], tuple[str, Sequence[int]]],
    *,
    case: str = "",
    variant: str = "",
    arch: str | None = None,
    seed: int | None = None,
    inputs: str = "",
    use_cache: bool = True,
    most: int = 6000,
    seconds: float = SECONDS,
) -> Explained:
    """Compile and run a case on the emulator, once with tags and once with a watch on an element.

    Args:
        which: role and index of the element, for the bound case.
        case, variant: names; empty for the card's first.
        arch: target; None for the usual one.
        most: steps of the slice to follow.
        seconds: that each of the two runs may take.

    Raises:
        ConfigurationError: no such case, variant, output or element, or nothing stored it.
        CompileError, KernelFault, BudgetError, UnsupportedError: as for a check.
    """
    one = card.case(case) if case else card.cases[0]
    chosen = card.variant(variant) if variant else card.variants[0]
    first = bind(card, one, chosen, seed=seed, inputs=inputs)
    role, index = which(first)
    target = arch or backends.default_arch("emulator")
    session = CardSession(card, target, emulator.load, SubjectCompiler(use_cache=use_cache), PlainRuns())
    loaded = session.kernel(one, chosen).kernel
    assert isinstance(loaded, emulator.EmulatedKernel)
    loaded.options = replace(loaded.options, budget=replace(loaded.options.budget, seconds=seconds))
    element_address(first, loaded, role, index)
    departures: tuple[Disagreement, ...] = ()
    undecided = ""
    try:
        if not has_products(card.computes.operation):
            undecided = "the card's operation has no matrix product that tags could follow"
        else:
            run = trace(first, loaded)
            departures = tuple(d for d in run.disagreements if role in d.masks and d.masks[role][tuple(index)])
            if not departures and wrong_masks(first, judge_case(first, other_readings=False))[role][tuple(index)]:
                undecided = "the element is wrong, and no line is known to depart"
    except UnsupportedError as error:
        undecided = error.message
    except BudgetError as error:
        raise _unended(error) from error
    try:
        tree = explain(bind(card, one, chosen, seed=seed, inputs=inputs), loaded, role, index, most=most)
    except BudgetError as error:
        raise _unended(error) from error
    _mark(tree, departures)
    return Explained(one.name, chosen.name, role, tuple(index), compact(tree), departures, undecided)


def _unended(error: BudgetError) -> BudgetError:
    """The same, with what to do next where one element is asked for."""
    return BudgetError(
        error.message,
        place=error.place,
        detail=error.detail,
        hint="the element's value is not known before the run ends: look for an endless loop where the warps stand, "
        "take a smaller case, or give it longer with --budget-seconds",
    )


def _mark(tree: SliceStep, departures: Sequence[Disagreement]) -> None:
    places = {(d.place.file, d.place.line): d for d in departures}
    for _, step in tree.steps():
        found = None if step.place is None else places.get((step.place.file, step.place.line))
        if found is not None:
            step.note = f"{step.note}; departs here: {found.kind}".lstrip("; ")
