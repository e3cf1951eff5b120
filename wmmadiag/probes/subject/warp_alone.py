"""Each warp alone, on the emulator. First each runs ahead of the others, as far as it gets before it must wait for
them: that is a legal schedule, so the output must not change by a bit. Where it does, that warp does not wait for what
others write, or they do not for what it reads.

Then the work of each warp is judged alone. Of every output element is recorded which warp stored it, in the order of
the warps and in the reverse order: elements that two warps store, elements that none stores, and, of each warp's own,
how many are wrong. Wrong elements of some warps alone speak for an index that is computed from the warp; of all alike,
for something that all of them do.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wmmadiag.emulator import EmulatedKernel
from wmmadiag.errors import WmmadiagError
from wmmadiag.probes.subject.model import EVERY, Conclusion, Subject, SubjectProbe, changed
from wmmadiag.probes.subject.rerun import run_of
from wmmadiag.probes.subject.warp_work import WarpWork, named, shared_tiles, warp_work

_MOST = 8
"""Warps that are sent ahead, evenly chosen where there are more."""


def run(subject: Subject) -> Conclusion | None:
    """Only on the emulator, and with several warps."""
    kernel = subject.emulated
    if kernel is None:
        return None
    judged = subject.base_judged
    work = warp_work(subject.bound, kernel, {judged.role: judged.wrong})
    if work is None or work.warps < 2:
        return None
    if work.contested and not judged.right:
        return _share(work)
    ahead = _ahead(subject, kernel, work.warps)
    if ahead:
        return Conclusion(
            "wrong",
            f"{named(sorted(ahead))} ahead of the others, each alone to the next barrier: the output changes, so "
            "something is not waited for",
            ("missing-order", "index"),
            tuple(f"warp {warp} ahead: {words}" for warp, words in sorted(ahead.items())),
        )
    if judged.right:
        return Conclusion(
            "right", f"each of {work.warps} warps alone ahead of the others: the same bits, all of them right"
        )
    return _share(work)


def _ahead(subject: Subject, kernel: EmulatedKernel, warps: int) -> dict[int, str]:
    """What changes when a warp runs ahead, in words, by warp."""
    found: dict[int, str] = {}
    for warp in sorted({int(one) for one in np.linspace(0, warps - 1, min(warps, _MOST))}):
        order = (warp, *(one for one in range(warps) if one != warp))
        options = replace(kernel.options, warp_order=order, checks=(), observer=None)
        try:
            seen = run_of(subject.bound, EmulatedKernel(kernel.kernel, options).launch)({})
        except WmmadiagError as error:
            found[warp] = error.message
            continue
        for role, first in subject.base.items():
            different = changed(first, seen[role])
            if different:
                found[warp] = f"{different} of {first.size} elements of {role} change"
    return found


def _share(work: WarpWork) -> Conclusion:
    """What the wrong elements of an output, the same in every order, have to do with the warps that store them."""
    detail = tuple(
        f"warp {warp} stores {count} elements, {work.wrong[warp]} of them wrong"
        for warp, count in enumerate(work.stored)
    )
    if work.contested:
        return Conclusion(
            "wrong",
            f"{shared_tiles(work)}: warps work on others' tiles",
            ("index",), detail,
        )  # fmt: skip
    if work.nobody:
        return Conclusion(
            "wrong",
            f"{work.nobody} wrong elements are stored by no warp",
            ("condition", "launch", "index", "loop-extent"), detail,
        )  # fmt: skip
    if work.innocent and work.guilty:
        return Conclusion(
            "wrong",
            f"elements that {named(work.guilty)} wrote are wrong, all that {named(work.innocent)} wrote are right",
            ("index", "launch", "condition"), detail,
        )  # fmt: skip
    if len(work.guilty) < 2:
        return Conclusion("undecided", f"{named(work.guilty)} alone stores the output", (), detail)
    return Conclusion(
        "right",
        f"what {named(work.guilty)} store is wrong alike, in any order: no fault of single warps",
        (),
        detail,
    )


PROBE = SubjectProbe(
    "warp-alone", "each warp alone: does any need another order, or store wrong?", EVERY, run, emulator=True
)
