"""What a run proves by itself: the compiler's word, ptxas', the launch's, and a trap that the compiler put in."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.compile.model import CompileNote
from wmmadiag.csource.nodes import descendants
from wmmadiag.csource.tree import parse
from wmmadiag.csource.variables import declared
from wmmadiag.diagnose.excerpts import excerpt, place_of
from wmmadiag.diagnose.names import FAULT, REFUSED
from wmmadiag.place import Place, own_place
from wmmadiag.results.diagnosis import Cause, Fix, Verdict

if TYPE_CHECKING:
    from wmmadiag.subject.bench import CaseRun

_TRAPS = frozenset({"deleted-wmma-store", "deleted-wmma-load"})
_OPEN = frozenset({"unsupported", "budget", "undecided"})
"""What is not emulated, or ran out of its budget, is no word of anyone about the kernel."""


def is_certain(run: CaseRun) -> bool:
    """Whether no change of the source could tell more of what ended a run than the run itself does."""
    problem = run.result.problem
    if problem is None or run.verdict is not None or run.compilation is None:
        return False
    return problem.kind == "launch-limits" or (problem.kind == "trap" and _trap(run) is not None)


def by_itself(run: CaseRun) -> Cause:
    """The cause as what ended a run tells it; proven where that is no question."""
    problem = run.result.problem
    assert problem is not None
    refused = problem.kind not in _OPEN and (run.compilation is None or problem.kind in ("compile", "launch-limits"))
    trap = _trap(run) if problem.kind == "trap" else None
    place = trap.place if trap is not None else place_of(problem.place)
    evidence = _words((problem.detail or "").splitlines())[:6]
    arrays: list[tuple[int, str, Place]] = []
    if refused and problem.kind == "launch-limits":
        arrays = sorted(_static_arrays(run), key=operator.itemgetter(0), reverse=True)
        evidence += [f"{where}: {name} has {size:,} bytes" for size, name, where in arrays]
    if trap is not None:
        evidence.insert(0, f"{problem.place}: {problem.message}")
    verdict: Verdict = "proven" if refused or trap is not None else "undecided"
    caller = _caller(run) if trap is None else None
    other = arrays[1][2] if len(arrays) > 1 else caller
    return Cause(
        name=REFUSED.id if refused else FAULT.id,
        verdict=verdict,
        sentence=trap.message if trap is not None else problem.message,
        place=str(arrays[0][2]) if arrays else str(place) if trap is not None else problem.place,
        other=str(other) if other is not None else "",
        excerpt=excerpt(arrays[0][2] if arrays else place, other),
        evidence=tuple(evidence),
        fix=Fix(problem.hint) if problem.hint else None,
    )


def _caller(run: CaseRun) -> Place | None:
    """Where the kernel calls the helper that a run died in."""
    if run.error is None or run.error.place is None:
        return None
    _, *callers = own_place(run.error.place).frames()
    return Place(callers[-1].file, callers[-1].line) if callers and callers[-1].line else None


def _words(lines: Sequence[str]) -> list[str]:
    """Lines that say something: neither carets nor the line of the source above them, which the excerpt shows."""
    marks = [bool(line.strip()) and not set(line.strip()) - set("^~|") for line in lines]
    code = [*marks, False][1:]
    return [line for line, mark, shown in zip(lines, marks, code, strict=True) if line.strip() and not mark | shown]


def _trap(run: CaseRun) -> CompileNote | None:
    """What the compiler put a trap in place of."""
    notes = run.compilation.notes if run.compilation is not None else ()
    return next((note for note in notes if note.kind in _TRAPS and note.place is not None), None)


def _static_arrays(run: CaseRun) -> Iterator[tuple[int, str, Place]]:
    """(bytes, name, where it is declared) of the static shared arrays of a kernel."""
    kernel = run.emulated
    if kernel is None or run.compilation is None:
        return
    sizes = kernel.static_arrays()
    try:
        source = parse(Path(run.compilation.source).read_bytes(), run.compilation.source)
    except (OSError, ValueError):
        return
    for node in descendants(source.root, "declaration"):
        for one in declared(source, node):
            if one.shared and one.name in sizes:
                at = source.place_at(one.declarator.start_byte)
                yield sizes.pop(one.name), one.name, Place(at.file, at.line, at.column)
