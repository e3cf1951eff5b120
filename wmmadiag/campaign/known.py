"""Failures of a campaign that a baseline accepts, and the baseline that accepts those of a campaign."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wmmadiag.place import Place

if TYPE_CHECKING:
    from wmmadiag.campaign.plan import Plan
    from wmmadiag.campaign.run import Campaign
    from wmmadiag.campaign.tally import IsKnown
    from wmmadiag.gate.known_failures import KnownFailures


def nothing_known(_: Any) -> bool:
    """What a baseline without entries accepts."""
    return False


def known_by(baseline: Path, plan: Plan) -> IsKnown:
    """Whether a baseline accepts a failure.

    Raises:
        ConfigurationError: it cannot be read.
    """
    from wmmadiag.gate.known_failures import read_baseline, relative_card

    today = datetime.date.today()
    entries = [one for one in read_baseline(baseline) if one.expires >= today]
    names: dict[str, str] = {}

    def known(result: Any) -> bool:
        point = result.point
        card = names.setdefault(point.subject, relative_card(plan.path.parent / point.subject, baseline))
        return bool(result.failures) and any(
            one.fits(card, point.arch, point.variant, point.base) and set(result.failures) <= set(one.failures)
            for one in entries
        )

    return known


def accepting(
    campaign: Campaign, old: Sequence[KnownFailures], baseline: Path, reason: str, expires: datetime.date
) -> list[KnownFailures]:
    """Entries for all that a campaign fails with, at whatever sizes: an old entry that says the same, else a new one.

    Old entries of kernels that the campaign did not try stay.
    """
    from wmmadiag.gate.known_failures import KnownFailures, relative_card

    today = datetime.date.today()
    folder = campaign.plan.path.parent
    cards = {subject: relative_card(folder / subject, baseline) for subject in campaign.tally.subjects}
    kept = [one for one in old if one.card not in cards.values()]
    for subject, _, failures in campaign.tally.groups:
        alike = (one for one in old if one.card == cards[subject] and set(failures) == set(one.failures))
        before = [one for one in alike if one.expires >= today]
        kept += before or [
            KnownFailures(cards[subject], "", "", (), failures, reason, expires, Place(str(baseline), 1))
        ]
    return sorted(dict.fromkeys(kept), key=lambda one: (one.card, one.failures, one.arch, one.variant, one.cases))
