"""Readings by which a kernel computes nothing."""

from __future__ import annotations

import contextlib

import numpy as np

from wmmadiag.errors import WmmadiagError
from wmmadiag.ops import OPERATIONS
from wmmadiag.subject.card import Card
from wmmadiag.subject.drafts.recognise import WITHIN_ANY
from wmmadiag.subject.symbols import evaluate_parameters, operation_scope


def is_copy(card: Card) -> bool:
    """Whether a card asks for no more than one array in another's place: what forgot all that it should compute is
    right by it."""
    known = OPERATIONS[card.computes.operation]
    inputs = {view.role for one in card.arguments for view in one.views if not known.roles[view.role].output}
    if card.computes.operation not in WITHIN_ANY or len(inputs) != 1 or known.oracle is None:
        return False
    sample = np.arange(1.0, 9.0).reshape(2, 4)
    with contextlib.suppress(WmmadiagError, ValueError):
        given = known.oracle(
            evaluate_parameters(card.computes, operation_scope(card.computes)), dict.fromkeys(inputs, sample)
        )
        return all(np.array_equal(one, sample) for one in given.values())
    return False
