"""What a reference is asked about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from wmmadiag.numerics.element_types import ElementType
from wmmadiag.subject.card import Card


@dataclass(frozen=True, slots=True)
class ReferenceCase:
    """A card's reference for one case: its arrays and sizes."""

    card: Card
    inputs: Mapping[str, NDArray[Any]]  # logical inputs by role
    symbols: Mapping[str, int | float]
    shapes: Mapping[str, tuple[int, ...]]  # logical shapes by role, of every output at least
    elements: Mapping[str, ElementType]  # element type of every role

    def plain(self) -> ReferenceCase:
        """The same with dicts of its own, which another process can be sent."""
        return ReferenceCase(self.card, dict(self.inputs), dict(self.symbols), dict(self.shapes), dict(self.elements))
