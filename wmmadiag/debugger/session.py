"""A debugging session: one launch that is stopped, looked into, and taken forwards and backwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from wmmadiag.debugger.against import OtherRun, RunDifference, to_difference
from wmmadiag.debugger.arrays import NamedArrays
from wmmadiag.debugger.conditions import Conditions
from wmmadiag.debugger.declared import SourceDeclarations
from wmmadiag.debugger.departure import EFFORT, CauseMoment, Departure, find_cause, find_departure, moment_of_finding
from wmmadiag.debugger.evidence import Evidence
from wmmadiag.debugger.lines import SourceLines
from wmmadiag.debugger.machine import MEMORY_LIMIT, StoppableLaunch
from wmmadiag.debugger.position import Moment
from wmmadiag.debugger.stepping import Stepping
from wmmadiag.debugger.target import Target
from wmmadiag.errors import ConfigurationError, KernelFault
from wmmadiag.place import Place
from wmmadiag.provenance.model import Stage
from wmmadiag.subject.binding import BoundCase

_DEEPEST = 50
_MOST_ARRAYS = 12


@dataclass(frozen=True, slots=True)
class DependedLine:
    """A line on which another depends: in `distance` steps through definitions, stores, loops, conditions and calls.

    `status`: of the operation's stages at the line ("fits", "departs"), "" where it has none.
    """

    line: int
    distance: int
    code: str
    status: str = ""


class Session(Stepping):
    """One target under the debugger; `wmmadiag.debug` makes one.

    Every moment is a number, `time`: the warp instructions executed before it. Blocks run in order, so choosing another
    block means going to a time at which it runs.
    """

    def __init__(self, target: Target, *, memory_limit: int = MEMORY_LIMIT) -> None:
        self.target = target
        self.case = target.bind()
        try:
            self.machine = StoppableLaunch(target.kernel, self.case.launch, memory_limit)
        except KernelFault as fault:
            raise _with_lines(fault, target, self.case) from None
        self.lines = _lines_of(target)
        self.arrays = NamedArrays(self.machine, self.case, lambda: self.declared_types)
        self.evidence = Evidence(target)
        self.warp = self.lane = 0
        self.other: OtherRun | None = None
        self._departure: Departure | None = None
        self.moment = self._at_next("start", "the launch begins")

    def run_to(
        self,
        *,
        line: int | str | None = None,
        function: str = "",
        tensor_op: int | None = None,
        watch: str = "",
        nan: bool = False,
        finding: str = "",
        departure: bool = False,
        end: bool = False,
        block: int | Sequence[int] | None = None,
        warp: int | None = None,
        reads: bool = False,
        count: int = 1,
    ) -> Moment:
        """Run on until one thing happens; without any, to the end of the launch or its death.

        Args:
            line: 86, or "kernel.cu:86": before it runs.
            function: before one begins, wherever it was inlined.
            tensor_op: before the n-th multiplication from now on (1: the next).
            watch: after a write to `sK[3][5]`, `O[0,1,17,3]` or a whole array; with `reads` also after a read.
            nan: after an instruction makes a NaN.
            finding: before the access of which a check ("races") complains; the first such one of the launch.
            departure: to where the kernel first departs from its oracle (see `find_departure`).
            end: to the end.
            block: only there: linear, or (x, y, z). warp: only there.
            count: how often it must happen.

        Raises:
            ConfigurationError: no such line, array, check, or nothing to depart from.
        """
        wanted = [line is not None, bool(function), tensor_op is not None, bool(watch), nan, bool(finding), departure]
        if sum(wanted) > 1:
            raise ConfigurationError("run_to goes to one thing at a time", hint="use several calls, or breakpoints")
        if finding:
            with self._kept():
                return self._to_finding(finding)
        if departure:
            return self.to_departure().moment
        if end or not any(wanted):
            return self._run(Conditions())
        if tensor_op is not None and tensor_op < 1:
            raise ConfigurationError(f"tensor_op={tensor_op}", hint="they are counted from 1")
        conditions = self.conditions(
            line=line, function=function, tensor=tensor_op is not None, watch=watch, nan=nan, block=block, warp=warp,
            reads=reads,
        )  # fmt: skip
        return self._run(replace(conditions, skip=(tensor_op or count) - 1))

    def to_departure(self) -> Departure:
        """Go to the first place where the kernel departs from its oracle.

        Raises:
            ConfigurationError: it does not.
        """
        with self._kept():
            self._departure = found = find_departure(self)
        return found

    def to_cause(self, effort: str = EFFORT) -> CauseMoment:
        """Diagnose this case, and go to where the root cause first runs.

        Args:
            effort: how many changes of the source are tried.

        Raises:
            ConfigurationError: the case is right, or no cause could be shown.
        """
        with self._kept():
            return find_cause(self, effort)

    @property
    def known_stages(self) -> tuple[Stage, ...]:
        """The operation's stages, once `to_departure` has followed them."""
        return () if self._departure is None else self._departure.stages

    def behind(self, depth: int = 2) -> tuple[DependedLine, ...]:
        """The source lines that the current one depends on, nearest first: where an index or a bound was computed.

        Right after `to_departure`, also those behind the other lines that belong to it.
        """
        others = self._departure.others if self._departure is not None and self._departure.moment is self.moment else ()
        here = () if self.moment.place is None else (self.moment.place,)
        places = [place for place in (*here, *others) if place.line]
        if not places:
            raise ConfigurationError("there is no source line here", hint="go to one first")
        return depended_lines(self, places, depth)

    def to_difference(self) -> RunDifference:
        """Go to the first tile or stored value in which this run differs from its other one (`debug(…, against=…)`).

        Raises:
            ConfigurationError: there is no other run, or they do not differ.
        """
        with self._kept():
            return to_difference(self)

    # Inside

    def _to_finding(self, check: str) -> Moment:
        found = self.evidence.of_check(check)
        if not found:
            raise ConfigurationError(
                f"the check '{check}' finds nothing in this case",
                hint="`wmmadiag check` says which checks find something",
            )
        moments = [(moment_of_finding(self, one), one) for one in found]
        known = ((t, one) for t, one in moments if t is not None)
        time, first = min(known, key=lambda pair: pair[0], default=(None, found[0]))
        if time is None:
            raise ConfigurationError(
                f"this finding has no moment: {first.finding.message}", hint=f"it is about {first.finding.place}"
            )
        return self.arrive(time, "finding", f"{check}: {first.finding.message}")


def _lines_of(target: Target) -> SourceLines:
    return SourceLines(target.kernel.kernel, target.source, {target.compilation.source: target.compilation.text})


def _with_lines(fault: KernelFault, target: Target, case: BoundCase) -> KernelFault:
    """The fault with the declarations of the shared arrays that do not fit, the largest first; others as they are."""
    if fault.kind != "launch-limits" or "shared memory" not in fault.message or fault.detail:
        return fault
    lines = _lines_of(target)
    locals_ = SourceDeclarations(lines).locals
    declared = {one.variable.name: Place(one.file.name, one.file.line(one.variable)) for one in reversed(locals_)}
    arrays = [one for one in target.kernel.named_memory(case.launch) if one.space == "shared" and one.size]
    rows = []
    for array in sorted(arrays, key=lambda one: -one.size)[:_MOST_ARRAYS]:
        place = declared.get(array.label)
        where = f"{Path(place.file).name}:{place.line}: {lines.source_line(place).strip()}" if place else ""
        rows.append(f"  {array.size:>9,} bytes  {where or array.label}")
    return KernelFault(fault.message, kind=fault.kind, place=fault.place, detail="\n".join(rows), hint=fault.hint)


def depended_lines(session: Session, places: Sequence[Place], depth: int = 2) -> tuple[DependedLine, ...]:
    """The lines that a line depends on, the nearest first: the first of the places; the others count as one step away.

    Through definitions, stores, loops, conditions, calls and callers, and through conditions under which a thread left
    the function before.

    Raises:
        ConfigurationError: the places have no source that can be read.
    """
    file = places[0].file if places else ""
    if file not in session.declared.sources:
        raise ConfigurationError("there is no source line here", hint="go to one first")
    start, others = (file, places[0].line), [(place.file, place.line) for place in places[1:]]
    stages = [stage for stage in session.known_stages if stage.place.file == file]
    right = {(file, stage.place.line) for stage in stages if exonerates(stage)} - {start, *others}
    depth = min(depth, _DEEPEST)
    found = session.declared.dependences.distances([start], depth, right)
    for line, distance in session.declared.dependences.distances(others, depth - 1, right).items():
        found[line] = min(found.get(line, depth + 1), distance + 1)
    text = session.lines.text(file)
    status = {stage.place.line: stage.status for stage in stages if stage.status != "unknown"}
    status |= {stage.place.line: "departs" for stage in stages if stage.status == "departs"}
    # Of lines that are equally far, those that are known to be right come last.
    rows = sorted((distance, status.get(line) == "fits", line) for (at, line), distance in found.items() if at == file)
    return tuple(
        DependedLine(line, distance, text[line - 1].strip(), status.get(line, ""))
        for distance, _, line in rows
        if line != start[1] and line <= len(text)
    )


def exonerates(stage: Stage) -> bool:
    """Whether all values of a line are right beyond doubt, and with them all that they were made of.

    Of scores that a multiplication left, where they are the product times 1, the scale or log2(e). Any other factor,
    and a factor per row of weights and sums, is a reading that a later line may contradict; what is stored may have
    been selected, and which elements are masked is no matter of their values.
    """
    known = stage.status == "fits" and not stage.partial and stage.departing == 0
    return known and stage.what == "result of scores" and not stage.reading[:1].isdigit()
