"""Warps in other legal orders, and asynchronous copies that land early or late: the output must not change by a bit."""

from __future__ import annotations

from dataclasses import replace

from wmmadiag.checks.schedules import orders
from wmmadiag.emulator import EmulatedKernel
from wmmadiag.errors import WmmadiagError
from wmmadiag.probes.subject.model import EVERY, Conclusion, Subject, SubjectProbe, changed
from wmmadiag.probes.subject.rerun import run_of

_ORDERS = 3


def run(subject: Subject) -> Conclusion | None:
    """Three other orders; only on the emulator, and with several warps or asynchronous copies."""
    kernel = subject.emulated
    if kernel is None:
        return None
    x, y, z = subject.bound.launch.block
    most, detail = 0, []
    for order, eager in orders(-(-x * y * z // 32), _ORDERS):
        words = (
            f"warps {', '.join(map(str, order[:8]))}{', …' * (len(order) > 8)}, copies {'early' if eager else 'late'}"
        )
        options = replace(kernel.options, warp_order=order, eager_copies=eager, checks=(), observer=None)
        try:
            seen = run_of(subject.bound, EmulatedKernel(kernel.kernel, options).launch)({})
        except WmmadiagError as error:
            most = max(most, 1)
            detail.append(f"{words}: {error.message}")
            continue
        for role, first in subject.base.items():
            different = changed(first, seen[role])
            if different:
                most = max(most, different)
                detail.append(f"{words}: {different} of {first.size} elements of {role}")
    if not most:
        return Conclusion(
            "right", f"{_ORDERS} other orders of warps and copies: the same bits, so nothing depends on timing here"
        )
    return Conclusion(
        "wrong",
        "the output depends on the order of warps or asynchronous copies: something is not waited for",
        ("missing-order", "index"),
        tuple(detail),
    )


PROBE = SubjectProbe("warp-order", "other orders of warps and copies: the same bits?", EVERY, run, emulator=True)
