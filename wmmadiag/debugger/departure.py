"""The first place where a kernel departs from its oracle, as a moment of its run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from wmmadiag.debugger.conditions import ANY, Conditions, Watchpoint
from wmmadiag.debugger.evidence import SeenFinding
from wmmadiag.debugger.first_store import element_name, first_store, nearest_store
from wmmadiag.debugger.lines import MULTIPLICATIONS
from wmmadiag.errors import BudgetError, ConfigurationError, KernelFault, WmmadiagError
from wmmadiag.place import Place, own_place
from wmmadiag.provenance import Disagreement
from wmmadiag.provenance.model import Stage
from wmmadiag.ptx.meaning import Dataflow, meaning

if TYPE_CHECKING:
    from wmmadiag.debugger.position import Moment
    from wmmadiag.debugger.session import Session
    from wmmadiag.results.diagnosis import Cause

_TRIES = 4096


@dataclass(frozen=True)
class Departure:
    """Where a kernel first goes another way than its oracle."""

    # "provenance" (what is multiplied or stored is not what it must be), "finding" (an error of a check), "fault",
    # "stuck" (a block gets nowhere), "value" (the first store of a wrong output element), "unwritten" (no store of it
    # ever comes)
    kind: str
    words: str  # one sentence
    hint: str  # the next step, or ""
    others: tuple[Place, ...]  # further lines that belong to it
    moment: Moment  # where the session stands: before the instruction
    # the intermediate values of the operation, line by line in the order of execution; empty where values were not
    # followed
    stages: tuple[Stage, ...] = ()

    @property
    def line(self) -> int | None:
        """The line at which it happens."""
        return self.moment.line

    def __str__(self) -> str:
        from wmmadiag.debugger.text import moment_text, stages_text

        more = [f"  next: {self.hint}"] if self.hint else []
        more += [f"  see also {place}" for place in self.others]
        more += [f"  {line}" for line in stages_text(self.stages)]
        return "\n".join([self.words, *more, moment_text(self.moment, why=False)])


def find_departure(session: Session) -> Departure:
    """Go to the first moment at which the kernel departs from its oracle.

    In this order: what provenance says is multiplied or stored that must not be; errors of checks; what the launch dies
    of; the first store of a wrong output element.

    Raises:
        ConfigurationError: it does not depart.
    """
    found = _departure(session)
    traced = None if session.evidence.run.error is not None else session.evidence.provenance
    return found if traced is None else replace(found, stages=traced.stages)


def _departure(session: Session) -> Departure:
    run = session.evidence.run
    errors = session.evidence.errors()
    if isinstance(run.error, BudgetError):
        return _stuck(session, run.error)
    if run.error is not None and not isinstance(run.error, KernelFault):
        raise run.error  # it holds what is not emulated: there is no moment of that
    if run.error is not None:
        return _by_finding(session, errors) or _fault(session, run.error)
    wrong = any(mask.any() for mask in run.wrong.values())
    traced = session.evidence.provenance
    disagreements = traced.disagreements if traced is not None else ()
    if wrong and disagreements:
        found = _by_disagreement(session, disagreements)
        if found is not None:
            return found
    by_finding = _by_finding(session, errors)
    if by_finding is not None:
        return by_finding
    if not wrong:
        others = [one.name for one in session.target.card.cases if one.name != session.target.case.name]
        raise ConfigurationError(
            f"it does not depart: every output of case {session.target.case.name} is right",
            hint=f"take another case: `case NAME`, or --case, with {', '.join(others)}"
            if others
            else "take other inputs: --seed, --inputs",
        )
    return _first_wrong_store(session)


def _by_disagreement(session: Session, disagreements: tuple[Disagreement, ...]) -> Departure | None:
    for one in disagreements:
        table = session.lines.at_line(one.place.line, one.place.file)
        only = Conditions(
            before=table, block=ANY if one.block is None else one.block, warp=ANY if one.warp is None else one.warp
        )
        time = _when_it_departs(session, one)
        time = first_time(session, only) if time is None else time
        if time is not None:
            found = [one.other] if one.other is not None else []
            found += _wrong_store(session)
            moment = session.arrive(time, "departure", one.message)
            here = moment.line
            others = tuple(place for place in dict.fromkeys(found) if place.line != here)
            return Departure("provenance", one.message, one.hint, others, moment)
    return None


def _when_it_departs(session: Session, one: Disagreement) -> int | None:
    """The time before the multiplication that first has a wrong value, of a line that departs in its values."""
    traced = session.evidence.provenance
    for stage in traced.stages if traced is not None else ():
        multiplied = not stage.what.startswith("store")
        if stage.place == one.place and stage.status == "departs" and stage.first is not None and multiplied:
            table = session.lines.where(lambda node: node.op in MULTIPLICATIONS)
            line = session.lines.at_line(one.place.line, one.place.file)
            both = bytes(map(min, table, line))
            return first_time(session, Conditions(before=both, block=stage.first.block, skip=stage.first.earlier))
    return None


def _wrong_store(session: Session) -> list[Place]:
    """The line that first stores an element that ends up wrong."""
    found = first_store(session.machine, session.case, session.evidence.run.wrong)
    if found is None:
        return []
    session.machine.seek(found[0])
    standing = session.machine.next
    return [] if standing is None else [session.lines.places[standing.pc]]


def _by_finding(session: Session, errors: tuple[SeenFinding, ...]) -> Departure | None:
    times = [(moment_of_finding(session, one), one) for one in errors]
    known = [(time, one) for time, one in times if time is not None]
    if not known:
        return None
    time, first = min(known, key=lambda pair: pair[0])
    found = first.finding
    moment = session.arrive(time, "departure", f"{found.check}: {found.message}")
    others = () if found.other is None else (own_place(found.other),)
    return Departure("finding", f"{found.check}: {found.message}", found.hint, others, moment)


def _fault(session: Session, error: WmmadiagError) -> Departure:
    session.machine.seek(0)
    stop = session.machine.run(Conditions())
    if stop.reason != "fault":
        raise error
    moment = session.arrive(stop.time, "fault", error.message)
    # A trap that the compiler put in place of undefined behaviour has no line; its notes may have one.
    noted = [note.place for note in session.target.compilation.notes if note.place is not None]
    others = tuple(place for place in noted if moment.place is None or place.line != moment.line)
    return Departure("fault", error.message, error.hint, others, moment)


def _stuck(session: Session, error: BudgetError) -> Departure:
    """Go to where a block gets nowhere."""
    session.machine.seek(0)
    moment = session.run_to(end=True)
    if moment.reason != "stuck":
        raise error
    hint = "`info warps` says where the warps stand, `why` what the loop waits for"
    return Departure("stuck", moment.words, hint, (), moment)


def first_time(session: Session, conditions: Conditions) -> int | None:
    """The first time in the whole run at which a condition is met; the session's machine moves."""
    machine = session.machine
    machine.seek(0)
    standing = machine.next
    first = standing is not None and conditions.before and conditions.before[standing.pc]
    if first and standing is not None and conditions.block in (ANY, 0) and conditions.warp in (ANY, standing.warp):
        if conditions.skip == 0:
            return 0
        conditions = replace(conditions, skip=conditions.skip - 1)
    stop = machine.run(conditions)
    return stop.time if stop.reason in ("instruction", "watch", "nan") else None


def moment_of_finding(session: Session, seen: SeenFinding) -> int | None:
    """The time before the access or instruction that a finding is about, as first seen; None for one without."""
    raw = seen.raw
    nodes = session.target.kernel.kernel.nodes
    if raw is None or not 0 <= int(raw["pc"]) < len(nodes):
        return _at_place(session, seen.finding.place)
    pc, block, warp = int(raw["pc"]), int(raw["block"]), int(raw["warp"])
    at = Conditions(before=session.lines.table([pc]), block=block, warp=warp)
    space, address = str(raw["space"]), int(raw["address"])
    if space in ("shared", "global") and raw["bytes"]:
        watch = Watchpoint(space, address, address + int(raw["bytes"]), block, reads=True)
        machine = session.machine
        machine.seek(0)
        for _ in range(_TRIES):
            stop = machine.run(Conditions(watches=(watch,)))
            if stop.reason != "watch":
                break
            if stop.pc == pc and stop.warp == warp:
                return stop.time - 1
    return first_time(session, at)


def _at_place(session: Session, place: Place) -> int | None:
    own = own_place(place)
    pcs = [pc for pc, p in enumerate(session.lines.places) if (p.file, p.line) == (own.file, own.line)]
    return first_time(session, Conditions(before=session.lines.table(pcs))) if pcs else None


def _first_wrong_store(session: Session) -> Departure:
    """When an element that ends up wrong is written for the first time."""
    run = session.evidence.run
    found = first_store(session.machine, session.case, run.wrong)
    if found is None:
        return _unwritten(session)
    time, role, index = found
    name = element_name(session.case, role, index)
    stored, wanted = session.case.outputs()[role][index], run.expected[role][index]
    words = f"{name} becomes {float(stored):.6g}; the oracle says {float(wanted):.6g}"
    return Departure("value", words, f"explain {name}", (), session.arrive(time, "departure", words))


def _unwritten(session: Session) -> Departure:
    """Go to the store nearest to an element that nothing stores; to the end where nothing of its tensor is stored."""
    run = session.evidence.run
    role, mask = next((role, mask) for role, mask in run.wrong.items() if mask.any())
    index = tuple(map(int, np.argwhere(mask)[0]))
    name = element_name(session.case, role, index)
    stores = _stores(session)
    near = nearest_store(session.machine, session.case, role, index)
    if near is None:
        words, time = f"nothing ever writes {name}, nor any other element of {role}", session.time
    else:
        words = f"nothing ever writes {name}; the store nearest to it is of {element_name(session.case, role, near[1])}"
        time = near[0]
    moment = session.arrive(time, "departure", words)
    others = tuple(place for place in stores if place.line != moment.line)
    hint = "see what keeps threads from these stores: why" if stores else "the kernel has no store to global memory"
    return Departure("unwritten", words, hint, others, moment)


def _stores(session: Session) -> list[Place]:
    """The places of instructions that write global memory, each line once."""
    found: dict[tuple[str, int], Place] = {}
    for node, place in zip(session.target.kernel.kernel.nodes, session.lines.places, strict=True):
        does = meaning(node.text)
        inside = does.attributes.get("space") in ("shared", "local", "param")
        if does.flow in (Dataflow.STORE, Dataflow.UPDATE) and place.line and not inside:
            found.setdefault((place.file, place.line), place)
    return list(found.values())


# From a diagnosis to a moment.


EFFORT = "quick"
"""How much a debugger's user waits for; see `diagnose.effort`."""


@dataclass(frozen=True)
class CauseMoment:
    """What is broken, and where that runs first."""

    cause: Cause  # of the diagnosis; its `fix` is the change that mends it, if one was found
    line: int | None  # of the cause, None where no line can be named
    # where the session stands: before the line first runs; or, for a line without instructions, before the nearest one
    # that depends on it
    moment: Moment

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line is not None else ""
        lines = [f"{where}{self.cause.sentence} ({self.cause.verdict}: {self.cause.name})"]
        lines += [f"  {one}" for one in self.cause.evidence[:2]]
        if self.cause.fix is not None:
            lines.append(f"  fix ({self.cause.fix.status}): {self.cause.fix.summary}")
        return "\n".join([*lines, str(self.moment)])


def find_cause(session: Session, effort: str = EFFORT) -> CauseMoment:
    """Diagnose the session's case and go to where the root cause first runs.

    Raises:
        ConfigurationError: the case is right, or no cause could be shown.
    """
    from wmmadiag.diagnose.engine import diagnose_card

    target = session.target
    found = diagnose_card(
        target.card, arch=target.arch, backend="emulator", variant=target.variant.name, cases=[target.case.name],
        seed=target.seed, inputs=target.inputs, effort=effort,
    )  # fmt: skip
    if found.outcome == "right":
        raise ConfigurationError(f"case {target.case.name} is right", hint="take another with --case")
    if not found.causes:
        raise ConfigurationError(f"no cause could be shown: {found.headline}", hint="go to the `departure`")
    cause = found.causes[0]
    file, line = _place(cause.place)
    time = _first_run(session, file, line) if line is not None else None
    if time is None:
        return CauseMoment(cause, line, session.moment)
    return CauseMoment(cause, line, session.arrive(time, "cause", ""))


def _place(text: str) -> tuple[str, int | None]:
    """File and line of "file:line:column"."""
    parts = text.rsplit(":", 2)
    numbers = [part for part in parts[1:] if part.isdigit()]
    return (parts[0] if len(numbers) == 2 else text.rpartition(":")[0], int(numbers[0])) if numbers else ("", None)


def _first_run(session: Session, file: str, line: int) -> int | None:
    """When a line first runs, or else the nearest later line of its function."""
    known = [place for place in session.lines.places if place.file == file]
    path = file if known else session.lines.main
    lines = [one for one in session.lines.code_lines.get(path, ()) if one >= line]
    for chosen in lines:
        time = first_time(session, Conditions(before=session.lines.at_line(chosen, path)))
        if time is not None:
            return time
    return None
