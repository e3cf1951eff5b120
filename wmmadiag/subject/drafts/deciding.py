"""Of what is open about a kernel, the one thing whose answer decides: the rest is then derived, or tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import get_args

from wmmadiag.subject.drafts.assignments import assigned, assignments
from wmmadiag.subject.drafts.kernel import SourceKernel
from wmmadiag.subject.drafts.model import About, CardDraft, Open, Wishes

_ORDER: tuple[About, ...] = get_args(About)
_MOST = 24


def deciding(kernel: SourceKernel, drafted: CardDraft, wishes: Wishes) -> Sequence[Open]:
    """What is to be asked first, one thing: several entries where it takes several options to say.

    Args:
        kernel: of which it is the draft. wishes: what the user said.
    """
    if _is_launch_enough(kernel, drafted, wishes):
        return [one for one in drafted.open if one.about == "launch"]
    first = min(drafted.open, key=lambda one: _ORDER.index(one.about))
    return [one for one in drafted.open if one.about == "launch"] if first.about == "launch" else [first]


def _is_launch_enough(kernel: SourceKernel, drafted: CardDraft, wishes: Wishes) -> bool:
    """Whether some meaning of the arguments leaves nothing open once the launch is said: all of them are tried."""
    if all(one.about != "launch" for one in drafted.open):
        return False
    launched = replace(wishes, grid=wishes.grid or ("1",), block=wishes.block or ("32",), shared=wishes.shared or "0")
    meanings = islice(assignments(kernel, drafted.operation, always=True), _MOST)
    return any(not assigned(kernel, drafted.operation, one, launched).open for one in meanings)
