"""Launches that checks watch, and launches in other orders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from wmmadiag.checks.finding import Finding
from wmmadiag.checks.placement import tried
from wmmadiag.checks.registry import Check, findings
from wmmadiag.checks.reversals import judged
from wmmadiag.checks.schedules import other_orders
from wmmadiag.emulator import EmulatedKernel
from wmmadiag.errors import WmmadiagError
from wmmadiag.launch import Launch, LoadedKernel, RunStats
from wmmadiag.place import Place, own_place
from wmmadiag.results.model import ReportedFinding, SuggestedLine


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
        before = {index: array.copy() for index, array in launch.writable().items()} if races else {}

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
    line = finding.suggested
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
        suggested=SuggestedLine(line.file, line.line, line.where, line.text) if line is not None else None,
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
