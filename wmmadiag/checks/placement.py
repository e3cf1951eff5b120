"""What a declared alignment that is too small does: the first block again, its arrays where the declaration allows.

A shared array may lie at any address that its declaration permits. A finding that says so is worth its words only if
such a place makes the kernel die; code that aligns its pointers itself is right wherever its arrays lie.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from wmmadiag.checks.finding import Finding
from wmmadiag.emulator import EmulatedKernel
from wmmadiag.emulator.kernel import Budget
from wmmadiag.emulator.lower import lower
from wmmadiag.errors import KernelFault, WmmadiagError
from wmmadiag.launch import Launch
from wmmadiag.place import own_place

KIND = "declared-alignment"
_BUDGET = Budget(instructions=4_000_000, seconds=2.0)


def tried(found: Iterable[Finding], kernel: EmulatedKernel, launch: Launch) -> tuple[Finding, ...]:
    """Findings of kind "declared-alignment" with what such a placement does; none of those that it does not hurt.

    The launch's arrays stay as they are.
    """
    findings = tuple(found)
    if not any(one.kind == KIND for one in findings):
        return findings
    shown = _words(kernel, launch)
    if shown is None:
        return tuple(one for one in findings if one.kind != KIND)
    return tuple(replace(one, detail=(*one.detail, shown)) if one.kind == KIND and shown else one for one in findings)


def _words(kernel: EmulatedKernel, launch: Launch) -> str | None:
    """What the first block does with its arrays at the least aligned addresses; "": not known; None: it ends."""
    lowered = kernel.kernel
    try:
        placed = lower(lowered.layout.module, lowered.entry.name, lowered.arch, least_aligned=True)
        options = replace(kernel.options, checks=(), observer=None, budget=_BUDGET, check_table=())
        EmulatedKernel(placed, options).launch(replace(launch.copied(), grid=(1, 1, 1)))
    except KernelFault as fault:
        if fault.kind != "misaligned" or fault.place is None:
            return ""
        return (
            f"shown by a run with every array at the least aligned address that its declaration allows: "
            f"line {own_place(fault.place).line} dies there of a misaligned {'write' if fault.write else 'read'}"
        )
    except WmmadiagError:
        return ""
    return None
