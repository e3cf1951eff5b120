"""The same launch twice must give the same bits. On the emulator the second run finds other rubbish in shared memory
and registers, so that what nothing wrote shows; on a GPU a race may.
"""

from __future__ import annotations

from dataclasses import replace

from wmmadiag.emulator import EmulatedKernel
from wmmadiag.probes.subject.model import EVERY, Conclusion, Subject, SubjectProbe, changed
from wmmadiag.probes.subject.rerun import run_of

_OTHER = 0x3C003F80
"""Small numbers in every type, where the first run has NaNs."""


_TIMING: tuple[str, ...] = ("missing-order", "index", "statement")
_UNWRITTEN: tuple[str, ...] = ("statement", "loop-extent", "launch", "accumulation")


def run(subject: Subject) -> Conclusion:
    """The case's own inputs again."""
    kernel = subject.emulated
    if kernel is None:
        again = subject.outputs({})
        what, supports = "two runs", _TIMING
    else:
        options = replace(kernel.options, poison=_OTHER, register_poison=_OTHER, checks=(), observer=None)
        again = run_of(subject.bound, EmulatedKernel(kernel.kernel, options).launch)({})
        what, supports = "two runs with different rubbish in memory", _UNWRITTEN
    counts = {role: changed(first, again[role]) for role, first in subject.base.items()}
    if not any(counts.values()):
        return Conclusion("right", f"{what}: the same bits")
    role = max(counts, key=lambda name: counts[name])
    how = "something that nothing wrote reaches it" if kernel is not None else "it depends on timing"
    return Conclusion(
        "wrong", f"{what}: {counts[role]} of {subject.base[role].size} elements of {role} change: {how}", supports
    )


PROBE = SubjectProbe("two-runs", "two runs: are they the same bit for bit?", EVERY, run)
