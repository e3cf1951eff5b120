"""What a kernel's own names and launches say against a card of it."""

from __future__ import annotations

from wmmadiag.ops import OPERATIONS
from wmmadiag.subject.card import Card
from wmmadiag.subject.drafts.guess import role_named, value_for
from wmmadiag.subject.drafts.handed_on import taken_otherwise
from wmmadiag.subject.drafts.recognise import contradicts


def contradicted(card: Card) -> bool:
    """Whether the kernel's own name, that of an array which holds several inputs, or the kernel that is launched behind
    it says something else."""
    entry = card.derived.kernel.entry if card.derived is not None else ""
    operation = card.computes.operation
    together = [(one.packed, role_named(one.name, operation)) for one in card.arguments if one.packed]
    order = any(said in OPERATIONS[operation].packed and said != packed for packed, said in together)
    if order or contradicts(entry, operation, card.computes.parameters) or taken_otherwise(card):
        return True
    return _passed_otherwise(card)


def _passed_otherwise(card: Card) -> bool:
    """Whether a parameter is another number than host code passes for it, to a kernel that does not look at that."""
    known, given = OPERATIONS[card.computes.operation].parameters, card.computes.parameters
    for one in card.derived.draft.arguments if card.derived is not None else ():
        told = value_for(one.parameter.name, card.computes.operation) if one.parameter.unread else None
        if told is None or told not in known or one.parameter.pointer:
            continue
        if _differ(one.value, str(given.get(told, known[told].default))):
            return True
    return False


def _differ(one: str, other: str) -> bool:
    """Whether two texts are numbers, and not the same."""
    try:
        return float(one) != float(other)
    except ValueError:
        return False
