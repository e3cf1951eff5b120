"""Whether the shapes of a card's tensors fit each other."""

from __future__ import annotations

from collections.abc import Mapping

from wmmadiag.errors import ConfigurationError
from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.shapes import Shape, ShapeMismatch, extents_of
from wmmadiag.subject.card import Card
from wmmadiag.subject.symbols import GivenParameters


def check_shapes(card: Card, shapes: Mapping[str, Shape], parameters: GivenParameters) -> None:
    """Refuse shapes that the operation cannot combine.

    Args:
        shapes: logical shape by role.
        parameters: of the operation, evaluated.

    Raises:
        ConfigurationError: at the argument whose shape does not fit.
    """
    try:
        extents_of(OPERATIONS[card.computes.operation], shapes, parameters)
    except ShapeMismatch as error:
        places = (view.place for argument in card.arguments for view in argument.views if view.role == error.role)
        place = next(places, card.computes.place)
        raise ConfigurationError(str(error), place=place, hint="see `shape`, `layout` and symbols") from None
