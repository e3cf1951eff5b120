"""What `diagnose/` calls another reading of a kernel; readings are in `fitting` and `readings`."""

from __future__ import annotations

from wmmadiag.subject.card import Card
from wmmadiag.subject.fitting import Meant
from wmmadiag.subject.readings import card_read_as


def with_convention(card: Card, meant: Meant) -> Card:
    """The card of a kernel that means this."""
    return card_read_as(card, meant.reading)
