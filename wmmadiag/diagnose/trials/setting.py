"""What a bench of trials is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wmmadiag.emulator.trials import ENDLESS
from wmmadiag.subject.card import Card, Case, Variant


@dataclass(frozen=True, slots=True)
class Setting:
    """One case of one variant of a kernel."""

    card: Card
    variant: Variant
    case: Case
    arch: str = "sm_90"
    texts: Mapping[str, bytes] = field(default_factory=dict)  # of some files, by path, in place of what the disk has
    # seed, inputs: of the case's inputs, in place of the card's
    seed: int | None = None
    inputs: str = ""
    budget: int = ENDLESS  # warp instructions of a launch where the kernel itself does not end
