"""Launches that checks watch, and launches in other orders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from wmmadiag.checks.finding import Finding
from wmmadiag.checks.registry import Check, findings
from wmmadiag.checks.reversals import judged
from wmmadiag.checks.schedules import other_orders
from wmmadiag.emulator import EmulatedKernel
from wmmadiag.emulator.kernel import Budget
from wmmadiag.emulator.lower import lower
from wmmadiag.errors import KernelFault, WmmadiagError
from wmmadiag.launch import Launch, LoadedKernel, RunStats
from wmmadiag.place import Place, own_place
from wmmadiag.results.model import ReportedFinding

# What a declared alignment that is too small does: the first block again, its arrays where the declaration allows.
#
# A shared array may lie at any address that its declaration permits. A finding that says so is worth its words only if
# such a place makes the kernel die; code that aligns its pointers itself is right wherever its arrays lie.


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


@dataclass(slots=True)
class CheckedRuns:
    """Launches kernels and keeps what the checks found in the last launch.

    The kernels must have been loaded with `native_names(checks)` in their options.
    """

    checks: Sequence[Check] = ()  # which to ask
    schedules: int = 0  # other orders of warps and copies to try; see `wmmadiag.checks.schedules`
    found: tuple[Finding, ...] = field(default=(), init=False)  # of the last launch, also when it died

    def launch(self, kernel: LoadedKernel, launch: Launch) -> RunStats:
        """Run to completion, as `LoadedKernel.launch`; the arrays hold the first run's results."""
        self.found = ()
        emulated = emulator_of(kernel)
        if emulated is None:
            return kernel.launch(launch)
        orders = other_orders(emulated, launch, self.schedules)
        races = not {"races", "barriers"}.isdisjoint(emulated.options.checks)
        before = launch.contents() if races else {}

        def seen(instructions: int | None) -> tuple[Finding, ...]:
            found = tried(findings(emulated, launch, self.checks), emulated, launch)
            return judged(found, emulated, launch, before, instructions) if races else found

        try:
            stats = kernel.launch(launch)
        except WmmadiagError:
            self.found = seen(None)
            raise
        self.found = (*seen(stats.warp_instructions), *orders.compared())
        return stats

    def reported(self) -> tuple[ReportedFinding, ...]:
        """`found` as a report holds it."""
        return tuple(map(reported, self.found))


def emulator_of(kernel: LoadedKernel) -> EmulatedKernel | None:
    """The emulated kernel behind a loaded one, or None when it runs on a GPU alone."""
    behind = getattr(kernel, "emulated", kernel)
    return behind if isinstance(behind, EmulatedKernel) else None


def reported(finding: Finding) -> ReportedFinding:
    """A finding as plain data, at the user's own lines."""
    return ReportedFinding(
        check=finding.check,
        kind=finding.kind,
        level=finding.level.value,
        message=finding.message,
        place=_shown(finding.place),
        other=_shown(finding.other) if finding.other is not None else "",
        count=finding.count,
        detail=(*finding.detail, *_callers(finding.place), *_callers(finding.other)),
        hint=finding.hint,
    )


def _callers(place: Place | None) -> tuple[str, ...]:
    """Where the shown line was inlined, when that is elsewhere."""
    if place is None or not place.file:
        return ()
    shown = own_place(place)
    *_, outermost = place.frames()
    return (f"line {shown.line} is called from {outermost}",) if outermost != shown else ()


def _shown(place: Place) -> str:
    return str(own_place(place)) if place.file else ""
