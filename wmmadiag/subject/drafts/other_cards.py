"""Cards of a kernel that was read from its source, by other meanings of its numbers and arrays."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from wmmadiag.errors import WmmadiagError
from wmmadiag.ops import OPERATIONS
from wmmadiag.subject.card import Card
from wmmadiag.subject.drafts.assignments import assigned, permutations_of_names, reassignments
from wmmadiag.subject.drafts.copies import is_copy
from wmmadiag.subject.drafts.draft import draft
from wmmadiag.subject.drafts.given_source import GivenSource
from wmmadiag.subject.drafts.recognise import against, by_code
from wmmadiag.subject.drafts.strangers import in_dialects, meant_strangers
from wmmadiag.subject.drafts.tried_meanings import adding, card_of


def reassigned_cards(card: Card) -> Iterator[tuple[str, Card]]:
    """Cards of the same kernel and operation by which numbers that host code passes are other extents, in words."""
    derived = card.derivation
    source = GivenSource(card.path, derived.options)
    several = (in_dialects, meant_strangers, reassignments, permutations_of_names)
    for meant in (one for each in several for one in each(derived.kernel, derived.draft)):
        for kernel in (derived.kernel, *adding(derived.kernel)):
            with contextlib.suppress(WmmadiagError):
                drafted = assigned(kernel, card.computes.operation, meant, source.wishes)
                yield meant.meaning(), card_of(source, kernel, drafted, card.assumed)


def added_cards(card: Card) -> Iterator[tuple[str, Card]]:
    """Cards of the same kernel and operation by which it adds to what its output holds, in words."""
    derived = card.derivation
    kernel, roles = derived.kernel, OPERATIONS[card.computes.operation].roles
    outputs = {one.parameter.name for one in derived.draft.arguments if one.role in roles and roles[one.role].updates}
    if not outputs:
        return
    parameters = tuple(replace(one, added=one.added or one.name in outputs) for one in kernel.parameters)
    own, source = replace(kernel, parameters=parameters), GivenSource(card.path, derived.options)
    with contextlib.suppress(WmmadiagError):
        drafted = draft(own, card.computes.operation, source.wishes)
        yield "what it held added to the result", card_of(source, own, drafted, card.assumed)


def cards_of_other_operations(card: Card) -> Iterator[tuple[str, Card, int]]:
    """Cards of the same kernel by other operations that its arrays fit, where nobody said which it computes.

    With how many traits of its code speak against each; those first against which the fewest do.
    """
    from wmmadiag.compile.kernel_code import multiplies

    derived = card.derivation
    if "operation" in derived.stated:
        return
    source, code, count = GivenSource(card.path, derived.options), derived.kernel.code, multiplies(derived.kernel.code)
    for operation in by_code(code, count):
        if operation == card.computes.operation:
            continue
        with contextlib.suppress(WmmadiagError):
            drafted = draft(derived.kernel, operation, source.wishes)
            other = card_of(source, derived.kernel, drafted, card.assumed)
            if not is_copy(other):
                yield operation, other, against(operation, code, count)
