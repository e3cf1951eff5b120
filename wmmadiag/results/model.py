"""The report as data: what every format is a pure function of. Needs no NumPy.

`FORMAT_VERSION` history: 1: first. 2: `CaseResult.findings`. 3: `wmmadiag.results.run.Run` around several kernels.
4: causes have names, readings and the work that they took; "reproduced" and hypotheses are gone. 5: kernels `beside`.
6: `instantiations` beside the one of the report. 7: causes have no `instead`, which was always empty.
8: findings have no `suggested` line, which no report showed: a diagnosis tries where a statement must stand.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from wmmadiag.compare.observation import Observation

FORMAT_VERSION = 8

Status: TypeAlias = Literal["passed", "failed", "undecided", "error"]

_NEAR = re.compile(r"\d+ bytes (?:past the end|before the start) of [^\s(]+")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+$")


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a case did not end with numbers, from the exception that says so.

    Attributes:
        kind: a fault's kind ("out-of-bounds", …), "compile", "configuration", "unsupported", "budget" or "undecided".
        message: one sentence.
        place: "file:line:column" in the user's source, or "".
        chain: lines "inlined at …", or "".
        block, warp, lane: where the fault happened, if known.
        detail: further lines, formatted.
        hint: the next step.
    """

    kind: str
    message: str
    place: str = ""
    chain: str = ""
    block: tuple[int, int, int] | None = None
    warp: int | None = None
    lane: int | None = None
    detail: str = ""
    hint: str = ""

    def with_array(self, text: str) -> str:
        """A text that ends with an address, with the array near it in its place: that says more."""
        near = _NEAR.search(self.detail)
        return f"{_ADDRESS.sub('', text)}, {near[0]}" if near else text


@dataclass(frozen=True, slots=True)
class Overwritten:
    """Memory that the kernel changed and must not.

    Attributes:
        argument: its name.
        kind: "guard" (storage around or between the rows of a tensor) or "input".
        count: elements.
        first: position of the first, in elements from the start of the argument's storage.
    """

    argument: str
    kind: str
    count: int
    first: int


@dataclass(frozen=True, slots=True)
class ReportedFinding:
    """What a check found: one cause at one place, however often it happened.

    Attributes:
        check, kind: which check, and a stable id within it.
        level: "error" (results are wrong, or can be), "warning" (harmless in this run) or "advice" (slow).
        message: one sentence.
        place, other: "file:line:column" in the user's source, or "".
        count: how often it happened.
        detail: further lines.
        hint: the next step.
    """

    check: str
    kind: str
    level: Literal["error", "warning", "advice"]
    message: str
    place: str = ""
    other: str = ""
    count: int = 1
    detail: tuple[str, ...] = ()
    hint: str = ""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One case of one variant.

    Attributes:
        symbols: the case's, with derived ones that it gives itself only.
        grid, block: (x, y, z); shared_bytes: dynamic.
        distribution, seed: of the inputs.
        observations: one per output against the reference, then those against another variant.
        overwritten: guards and inputs changed.
        problem: why it failed or could not be decided without (or besides) numbers.
        notes: further remarks, each one sentence.
        warp_instructions, seconds: of the run.
        output: what the kernel printed.
        repeat: command that runs this case alone.
        findings: what checks found, errors first. An error makes the case fail.
        accepted: why a failure is accepted for now, and until when, as a baseline says; "" for all others.
    """

    variant: str
    case: str
    status: Status
    symbols: Mapping[str, int | float]
    grid: tuple[int, int, int] = (0, 0, 0)
    block: tuple[int, int, int] = (0, 0, 0)
    shared_bytes: int = 0
    distribution: str = ""
    seed: int = 0
    observations: tuple[Observation, ...] = ()
    overwritten: tuple[Overwritten, ...] = ()
    problem: Problem | None = None
    notes: tuple[str, ...] = ()
    warp_instructions: int = 0
    seconds: float = 0.0
    output: str = ""
    repeat: str = ""
    findings: tuple[ReportedFinding, ...] = ()
    accepted: str = ""

    @property
    def title(self) -> str:
        """Its variant and its name."""
        return f"{self.variant} / {self.case}"

    @property
    def judged(self) -> tuple[Observation, ...]:
        """The observations against the reference."""
        return tuple(one for one in self.observations if one.against == "reference")

    @property
    def largest_error(self) -> float | None:
        """The largest error of all that was judged, in units of the bound; None where none has such a number."""
        return max((one.max_in_bounds for one in self.judged if one.max_in_bounds is not None), default=None)


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """What a kernel needs on the chip: registers and spilled bytes per thread, shared memory per block."""

    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    static_shared: int


@dataclass(frozen=True, slots=True)
class CompiledVariant:
    """One compiled kernel: a variant, or a variant's instantiation for some cases.

    Attributes:
        macros: as the compiler got them.
        notes: what the compiler did that the user should know, each with its place.
        resources: None where nobody asked.
    """

    variant: str
    entry: str
    macros: Mapping[str, str]
    compiler: str = ""
    notes: tuple[str, ...] = ()
    resources: ResourceUse | None = None


@dataclass(frozen=True, slots=True)
class KernelReport:
    """All that a check found out about one card.

    Attributes:
        name: of the card.
        card, source: paths as the user gave them.
        operation: what the kernel should compute.
        arch, backend: what it ran as.
        compiled: the compiled kernels.
        cases: in the order they ran.
        seconds: wall time of the whole check.
        assumed: what nobody said and the verdict rests on, one clause each.
        beside: other kernels that the source launches; nobody said which one is meant, and this is of one.
        instantiations: other ones of the kernel that the source launches, or asks for, and nobody chose among.
    """

    name: str
    card: str
    source: str
    operation: str
    arch: str
    backend: str
    compiled: tuple[CompiledVariant, ...]
    cases: tuple[CaseResult, ...]
    seconds: float = 0.0
    tool_version: str = ""
    assumed: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    instantiations: tuple[str, ...] = ()

    def count(self, status: Status) -> int:
        """Cases with a status."""
        return sum(case.status == status for case in self.cases)

    @property
    def status(self) -> Status:
        """The gravest status: failed, then error, then undecided, then passed. No case at all is an error."""
        order: tuple[Status, ...] = ("failed", "error", "undecided")
        found = [status for status in order if self.count(status)]
        return found[0] if found else "passed" if self.cases else "error"

    @property
    def exit_code(self) -> int:
        """1 a kernel is wrong; 2 configuration or compilation; 3 undecided; 0 all passed, or accepted as they are."""
        codes = {"failed": 1, "error": 2, "undecided": 3, "passed": 0}
        found = {codes[case.status] for case in self.cases if not case.accepted}
        return next((code for code in (1, 2, 3) if code in found), 0 if self.cases else 2)

    def _repr_html_(self) -> str:
        from wmmadiag.report.notebook import report_html

        return report_html(self)


DERIVED = ("status", "exit_code")
"""Properties that JSON holds, too, for whoever reads it without these classes."""


def to_builtins(report: Any) -> dict[str, Any]:
    """A dataclass of the report as dicts, lists, strings and numbers; NaN and infinities as "nan", "inf", "-inf"."""
    plain = _plain(report)
    assert isinstance(plain, dict)
    return plain


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        found = {one.name: _plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
        return found | {name: _plain(getattr(value, name)) for name in DERIVED if hasattr(value, name)}
    if isinstance(value, Mapping):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, str) and not value.isascii():  # a lone surrogate, from an undecodable file name, is no UTF-8
        return value.encode("utf-8", "backslashreplace").decode()
    return value
