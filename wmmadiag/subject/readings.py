"""From a card to the reading that it assumes, and from another reading to a card that says so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from wmmadiag.ops import OPERATIONS, Assumed, Reading, readings
from wmmadiag.ops.expressions import names_in
from wmmadiag.subject.card import Argument, Card, View
from wmmadiag.subject.drafts.guess import distance_for
from wmmadiag.subject.drafts.numbers import BY_NAME
from wmmadiag.subject.packed import packed_views


def assumed_reading(card: Card) -> Assumed:
    """How a card reads its kernel. What it says of layouts, strides, padding and shapes is no assumption."""
    views = [(argument, view) for argument in card.arguments for view in argument.views]
    numbers = [str(argument.value) for argument in card.arguments if argument.value is not None]
    return Assumed(
        {view.role: argument.element.name for argument, view in views},
        dict(card.computes.parameters),
        {view.role: view.layout for _, view in views if view.layout},
        frozenset().union(*(names_in(text) for text in numbers)),
        frozenset(view.role for argument, view in views if _is_placed(argument, view)),
        {
            argument.packed: OPERATIONS[card.computes.operation].packed[argument.packed].layout
            for argument in card.arguments
            if argument.packed and not argument.packing
        },
        frozenset(card.answered),
    )


def _is_placed(argument: Argument, view: View) -> bool:
    return bool(len(argument.views) > 1 or view.layout or view.strides or view.pad or view.shape)


def other_readings(card: Card, changes: int = 3) -> Iterator[tuple[Reading, Card]]:
    """Every other reading of a card's kernel, with a card that reads it so; see `wmmadiag.ops.readings`.

    Whether a reading is right is to be judged by a run of that card: inputs lie elsewhere in memory then.
    """
    for reading in readings(OPERATIONS[card.computes.operation], assumed_reading(card), changes=changes):
        yield reading, card_read_as(card, reading)


def card_read_as(card: Card, reading: Reading) -> Card:
    """The card of a kernel that is meant so; what the reading answers is not asked again."""

    packed = OPERATIONS[card.computes.operation].packed

    def meant(argument: Argument) -> Argument:
        own = {*packed[argument.packed].parts} if argument.packed and not argument.packing else set[str]()
        if reading.packed is not None and own == {*packed[reading.packed[0]].parts}:
            together = packed_views(OPERATIONS[card.computes.operation], *reading.packed, argument.place)
            return replace(argument, views=together, packed=reading.packed[0], packing=reading.packed[1])
        read = [
            (reading.roles.get(view.role, view.role), reading.layouts.get(view.role, view.layout))
            for view in argument.views
        ]
        if read == [(view.role, view.layout) for view in argument.views]:
            return argument
        views = tuple(
            replace(view, role=role, layout=layout) for view, (role, layout) in zip(argument.views, read, strict=True)
        )
        known = OPERATIONS[card.computes.operation].roles
        changed = [new.role for old, new in zip(argument.views, views, strict=True) if old.role != new.role]
        direction = argument.direction
        if changed:
            direction = "out" if known[changed[0]].output else "inout"
        return replace(argument, views=views, direction=direction)

    distances = _distances(card, reading)
    parameters = {**card.computes.parameters, **reading.parameters}
    return replace(
        card,
        computes=replace(card.computes, parameters=parameters),
        arguments=tuple(
            replace(one, value=distances[one.name]) if one.name in distances else one
            for one in map(meant, card.arguments)
        ),
        answered=(*card.answered, *reading.questions),
    )


def card_computing(card: Card, reading: Reading, because: str) -> Card:
    """The card of a kernel that computes in other types than was assumed, which is named; `because`: a clause."""
    meant = card_read_as(card, reading)
    return replace(meant, assumed=(*meant.assumed, f"{reading.name}, {because}"))


def _distances(card: Card, reading: Reading) -> dict[str, str]:
    """The leading dimensions, by their arguments' names, of what lies otherwise by a reading: of columns, their length.

    Those of which nobody but their name says what they are.
    """
    if card.derived is None or not reading.layouts:
        return {}
    operation = card.computes.operation
    found = {}
    for one in card.derived.draft.arguments:
        known = distance_for(one.parameter.name, operation, batches=False)
        if known is None or one.reason != BY_NAME or one.value != known.value:
            continue
        role = OPERATIONS[operation].roles[known.role]
        layout = reading.layouts.get(known.role) or reading.layouts.get(role.updates)
        if layout:
            found[one.parameter.name] = role.shape[role.axes.index(layout[-1])]
    return found
