"""From a diagnosis to a moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wmmadiag.debugger.conditions import Conditions
from wmmadiag.debugger.departure import first_time
from wmmadiag.errors import ConfigurationError

if TYPE_CHECKING:
    from wmmadiag.debugger.position import Moment
    from wmmadiag.debugger.session import Session
    from wmmadiag.results.diagnosis import Cause

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
