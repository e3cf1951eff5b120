"""Keys and values in another order, both alike: a sum does not care, so O must not change beyond rounding.

It needs no reference. A kernel whose answer changes treats keys differently by their place: a lost, doubled or stale
tile, a tail, a missing rescaling.
"""

from __future__ import annotations

import numpy as np

from wmmadiag.probes.subject.model import Conclusion, Subject, SubjectProbe


def run(subject: Subject) -> Conclusion | None:
    """Both permuted at random; not for a causal mask."""
    if subject.parameters["causal"]:
        return None
    order = np.random.default_rng(13).permutation(subject.inputs["k"].shape[-2])
    given = {role: np.ascontiguousarray(subject.inputs[role][..., order, :]) for role in "kv"}
    before, after = subject.base_judged, subject.judged(given)
    same = before.observed == after.observed
    with np.errstate(invalid="ignore"):
        # Each run may be off by its own bound; the right kernel's difference is within the sum of both.
        same |= np.abs(before.observed - after.observed) <= before.bound + after.bound
    same |= np.isnan(before.observed) & np.isnan(after.observed)
    if same.all():
        return Conclusion(
            "right", "keys and values permuted alike: O unchanged as it must be, so no key's place matters"
        )
    first = tuple(int(i) for i in np.argwhere(~same)[0])
    detail = (
        f"{int((~same).sum())} of {same.size} elements change, the first {before.role}[{','.join(map(str, first))}]: "
        f"{before.observed[first]:.4g}, then {after.observed[first]:.4g}",
    )
    return Conclusion(
        "wrong",
        "keys and values permuted alike: O changes, so the place of a key matters",
        ("loop-extent", "accumulation", "statement", "condition", "layout"),
        detail,
    )


PROBE = SubjectProbe("permuted-keys", "K and V permuted alike: is O unchanged?", ("attention",), run)
