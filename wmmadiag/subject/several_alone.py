"""Of several kernels that are wrong together: which of them are wrong by themselves, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from wmmadiag.errors import WmmadiagError
from wmmadiag.subject.card import Card

ReadRight = Callable[[Card], Card]
"""A derived card by the reading under which its kernel is right, as `wmmadiag.subject.settling.read_right` takes it."""


def told_apart(card: Card, read: ReadRight, is_right: Callable[[Card], bool]) -> Card:
    """The card of several kernels as it is read; where they are wrong together, with what each of them is alone.

    What they compute together judges them: sizes and shapes of one alone are guessed from less.

    Args:
        card: derived from a host function that launches several kernels.
        is_right: runs a card's cases.
    """
    whole = read(card)
    if is_right(whole):
        return whole
    found: dict[bool, list[str]] = {False: [], True: []}
    for entry, own in _alone(card):
        found[is_right(read(own))].append(entry)
    told = [f"{words} alone: {', '.join(found[right])}" for right, words in ((False, "wrong"), (True, "right"))
            if found[right]]  # fmt: skip
    if not told:
        return whole
    said = f"of the kernels that '{card.entry}' launches, which are wrong together, {' and '.join(told)}"
    return replace(whole, assumed=(*whole.assumed, said))


def _alone(card: Card) -> Iterator[tuple[str, Card]]:
    """Each kernel with its own card, where it tells for sure what the kernel computes alone."""
    from wmmadiag.subject.open_subject import derived

    whole = card.derivation
    assert whole.kernel.together is not None
    for entry in dict.fromkeys(one.entry for one in whole.kernel.together.stages):
        try:
            own = derived(card.path, replace(whole.options, entry=entry, computes=""))
        except WmmadiagError:
            continue
        if own.derived is not None and not own.derived.doubt and not own.derived.near:
            yield entry, own
