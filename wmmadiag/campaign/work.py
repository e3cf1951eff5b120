"""Running cases of a campaign, in whichever process: one compiled kernel, a slice of its cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from wmmadiag.campaign.points import Point, key_of
from wmmadiag.errors import WmmadiagError

if TYPE_CHECKING:
    from wmmadiag.results.model import CaseResult
    from wmmadiag.subject.card_session import CardSession


KILLED, NOT_RUN = "error killed", "error not-run"
"""What a case fails with that ends each process which runs it, and one that no process could begin: an installation
without wmmadiag, for example. The latter is no verdict, and no journal keeps it."""


@dataclass(frozen=True, slots=True)
class WorkSetting:
    """How all cases of a campaign run."""

    folder: str  # of the plan, absolute; subjects are relative to it
    # checks, backend, instructions: as the plan has them
    checks: str = "default"
    backend: str = "emulator"
    instructions: int = 0


@dataclass(frozen=True, slots=True)
class WorkUnit:
    """One task: cases of one compiled kernel."""

    setting: WorkSetting
    points: tuple[Point, ...]
    digest: str  # of what their subject is made of

    def halves(self) -> tuple[WorkUnit, WorkUnit]:
        """Two tasks in place of one that ended its process."""
        middle = len(self.points) // 2
        return replace(self, points=self.points[:middle]), replace(self, points=self.points[middle:])


@dataclass(frozen=True, slots=True)
class PointResult:
    """What became of one case."""

    key: str  # of the case; see `key_of`
    point: Point
    status: str  # as a report's case has it
    failures: tuple[str, ...] = ()  # what it failed with, as a baseline names it (`wmmadiag.gate.known_failures`)
    message: str = ""  # the first thing to say of a failure, one line
    wrong: int = 0  # elements out of bounds; instructions: warp instructions; seconds: of the run
    instructions: int = 0
    seconds: float = 0.0

    def __reduce__(self) -> tuple[Any, ...]:
        return _result, (msgspec.msgpack.encode(self),)  # as a point's


def _result(packed: bytes) -> PointResult:
    return _RESULT.decode(packed)


_RESULT = msgspec.msgpack.Decoder(PointResult)


def run_unit(unit: WorkUnit) -> list[PointResult]:
    """Run a task's cases one after another."""
    return [run_point(unit.setting, unit.digest, point) for point in unit.points]


def run_point(setting: WorkSetting, digest: str, point: Point) -> PointResult:
    """Run one case of a subject that is made of what `digest` says; whatever goes wrong in it is its result."""
    key = key_of(point, digest)
    try:
        session = session_of(setting, digest, point)
        return summary(key, point, judged(session, point), guessed=bool(session.card.assumed))
    except WmmadiagError as error:
        status = {1: "failed", 3: "undecided"}.get(error.exit_code, "error")
        return PointResult(key, point, status, (f"{status} configuration",), _line(str(error)))
    except MemoryError:
        return PointResult(key, point, "undecided", ("undecided memory",), "out of memory")
    except Exception as error:  # a bug of ours is this case's alone, and not that of all which share its task
        said = f"internal error, a bug of wmmadiag: {type(error).__name__}: {error}"
        return PointResult(key, point, "error", ("error internal",), _line(said))


def judged(session: CardSession, point: Point) -> CaseResult:
    """The case as a check reports it."""
    from wmmadiag.subject.check import run_case

    card = session.card
    return run_case(session, point.case(card), card.variant(point.variant), point.seed or None, point.inputs)[0]


def session_of(setting: WorkSetting, digest: str, point: Point) -> CardSession:
    """What the cases of a subject share in this process: its card, and kernels that are compiled.

    Args:
        digest: of what the subject is made of: a worker may outlive a change of it.

    Raises:
        WmmadiagError: its card cannot be read.
    """
    return _session(setting, digest, point.subject, point.arch, point.schedules)


@lru_cache(maxsize=16)
def _session(setting: WorkSetting, digest: str, subject: str, arch: str, schedules: int) -> CardSession:  # noqa: ARG001
    from wmmadiag import backends
    from wmmadiag.api import open_card
    from wmmadiag.checks import native_names, select
    from wmmadiag.checks.run import CheckedRuns
    from wmmadiag.subject.card_session import CardSession, PlainRuns
    from wmmadiag.subject.compiling import SubjectCompiler

    chosen = select(setting.checks)
    limits = backends.RunLimits(threads=1, instructions=setting.instructions)
    loader = backends.backend(setting.backend, limits, native_names(chosen))
    runs = CheckedRuns(chosen, schedules) if chosen or schedules else PlainRuns()
    card = open_card(Path(setting.folder) / subject)
    return CardSession(card, arch, loader, SubjectCompiler(), runs, readings=False)


def summary(key: str, point: Point, case: CaseResult, *, guessed: bool = False) -> PointResult:
    """A case's result in short.

    Args:
        guessed: whether nobody said what the kernel computes: then numbers alone make no verdict.
    """
    from wmmadiag.gate.known_failures import failures_of

    failures = failures_of(case)
    status: str = case.status
    if guessed and failures and all(one.startswith(("wrong-output", "overwritten")) for one in failures):
        status = "undecided"
    return PointResult(
        key, point, status, failures, _message(case), sum(one.wrong for one in case.observations),
        case.warp_instructions, round(case.seconds, 6),
    )  # fmt: skip


def _message(case: CaseResult) -> str:
    if case.problem is not None:
        where = f"{case.problem.place}: " if case.problem.place else ""
        return _line(where + case.problem.message)
    for finding in case.findings:
        if finding.level == "error":
            return _line(f"{finding.place}: {finding.message}" if finding.place else finding.message)
    for one in case.observations:
        if one.wrong:
            return f"{one.output}: {one.wrong:,} of {one.elements:,} elements wrong"
    for damage in case.overwritten:
        return f"{damage.argument}: {damage.count:,} elements overwritten"
    return ""


def _line(text: str) -> str:
    from wmmadiag.results.text import one_line

    return one_line(text.splitlines()[0] if text else "")[:500]


def digest_of(setting: WorkSetting, subject: str, arch: str) -> str:
    """A hash of all that a subject's results depend on besides the point: card, source, headers, this package."""
    from wmmadiag.gate.result_cache import result_key, tool_fingerprint
    from wmmadiag.gate.task import Task

    path = Path(setting.folder) / subject
    words = [setting.checks, setting.backend, str(setting.instructions)]
    known = result_key(Task(path, arch))
    if known is None:  # what it includes is not known: its own bytes, then
        texts = (one.read_bytes().decode("utf-8", "surrogateescape") for one in _files(path))
        known = tool_fingerprint() + "".join(texts)
    return _hash([known, *words])


def _files(path: Path) -> Sequence[Path]:
    from wmmadiag.api import open_card

    card = open_card(path)
    return list(dict.fromkeys([path, card.source, *(one.source for one in card.variants if one.source is not None)]))


def _hash(parts: Sequence[str]) -> str:
    from wmmadiag.compile.cache import digest

    return digest(list(parts))
