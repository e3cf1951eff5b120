"""Of several kernels that are wrong together the one to look at, where one is wrong by itself; else all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from wmmadiag.errors import WmmadiagError
from wmmadiag.subject.card import Card

ReadRight = Callable[[Card], Card]
"""A derived card by the reading under which its kernel is right, as `wmmadiag.subject.settling.read_right` takes it."""


def one_of_several(card: Card, read: ReadRight, is_right: Callable[[Card], bool]) -> Card:
    """The card of the kernel that a diagnosis of several is about: the only one that is wrong by itself, too. The card
    of all of them where they are right together, or where no one kernel tells.

    Args:
        card: derived from a host function that launches several kernels.
        is_right: runs a card's cases.
    """
    whole = read(card)
    if is_right(whole):
        return whole
    right: list[tuple[str, Card]] = []
    wrong: list[tuple[str, Card]] = []
    unknown: list[str] = []
    for entry, own in _alone(card):
        if own is None:
            unknown.append(entry)
            continue
        taken = read(own)
        (right if is_right(taken) else wrong).append((entry, taken))
    names = [entry for entry, _ in right]
    if len(wrong) == 1:
        _, found = wrong[0]
        told = [f"{', '.join(names)}: right alone"] * bool(right)
        told += [f"{', '.join(unknown)}: not looked at, since nothing tells what it computes alone"] * bool(unknown)
        said = f"of the kernels that '{card.entry}' launches, which are wrong together, {found.entry} is wrong alone"
        return replace(found, assumed=(*found.assumed, "; ".join([said, *told])))
    told = [f"{one} is wrong alone, too" for one, _ in wrong] + [f"{one} is right alone" for one in names]
    if not told:
        return whole
    said = f"of the kernels that '{card.entry}' launches, which are wrong together, {' and '.join(told)}"
    return replace(whole, assumed=(*whole.assumed, said))


def _alone(card: Card) -> Iterator[tuple[str, Card | None]]:
    """Each kernel with its own card; None where nothing tells for sure what it computes alone."""
    from wmmadiag.subject.open_subject import derived

    whole = card.derivation
    assert whole.kernel.together is not None
    for entry in dict.fromkeys(one.entry for one in whole.kernel.together.stages):
        try:
            own = derived(card.path, replace(whole.options, entry=entry, computes=""))
        except WmmadiagError:
            yield entry, None
            continue
        yield entry, None if own.derived is None or own.derived.doubt or own.derived.near else own
