"""A report as text for a terminal of 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import astuple, replace
from itertools import pairwise

from wmmadiag.compare.observation import Axis, ElementDifference, Observation
from wmmadiag.report.terminal_diagnosis import diagnosis_lines
from wmmadiag.report.tile_map import LEGEND, tile_map_lines
from wmmadiag.results.brief import brief, margin, share, times, wrong_outputs
from wmmadiag.results.finding_lines import finding_lines
from wmmadiag.results.model import (
    CaseResult,
    CompiledVariant,
    KernelReport,
    Problem,
    ReportedFinding,
    ResourceUse,
    Status,
)
from wmmadiag.results.run import Run
from wmmadiag.results.text import WIDTH, visible, visible_in_colour, wrapped

FULL = 3
"""Cases per variant and status that are told in full; the others get a line each."""

_WORDS: dict[Status, str] = {"passed": "ok", "failed": "WRONG", "undecided": "UNDECIDED", "error": "ERROR"}
# Select Graphic Rendition codes, ECMA-48 section 8.3.117.
_COLOURS: dict[Status, str] = {"passed": "32", "failed": "31;1", "undecided": "33;1", "error": "35;1"}


_BACKENDS = {"emulator": "the emulator", "gpu": "the GPU", "both": "the emulator and the GPU"}


def render(report: KernelReport, *, colour: bool = False, verbose: bool = False) -> str:
    """The report as text, ending with a newline.

    Args:
        colour: with terminal colour codes.
        verbose: more about right cases too.
    """
    backend = _BACKENDS.get(report.backend, report.backend)
    lines = [
        *_first(report, colour),
        f"{report.name}: {report.operation}, {report.source}",
        f"{report.arch} on {backend}",
    ]
    for variant in dict.fromkeys(compiled.variant for compiled in report.compiled):
        lines += _compiled_lines([c for c in report.compiled if c.variant == variant], verbose)
    for assumed in report.assumed:
        lines += wrapped(f"assumed: {assumed}", "", "    ")
    lines.append("")
    width = max((len(case.title) for case in report.cases), default=0)
    alike: dict[tuple[str, Status], int] = {}
    problems: list[Problem | None] = []
    shown: frozenset[ReportedFinding] = frozenset()
    for case in report.cases:
        key = (case.variant, case.status)
        alike[key] = alike.get(key, 0) + 1
        repeated = case.problem is not None and case.problem in problems
        brief = not verbose and (case.status == "passed" or bool(case.accepted) or alike[key] > FULL or repeated)
        problems.append(case.problem)
        lines += _brief_lines(case, min(width, 36), colour) if brief else _case_lines(case, min(width, 36), colour)
        found, shown = ([], shown) if case.accepted and not verbose else _finding_lines(case, shown, verbose)
        gap = lines[-1:] if found and not lines[-1] else []
        lines = [*lines[: len(lines) - len(gap)], *found, *gap]
    if lines[-1]:
        lines.append("")
    lines.append(_painted(_verdict(report), report.status, colour))
    if report.assumed and report.status == "failed":
        lines += wrapped("which holds only if what was assumed above does: nobody said so")
    if report.status == "passed" and not report.card.endswith(".toml"):
        lines += wrapped(
            "only these sizes, derived from the source, were tried: --symbol NAME=VALUE tries others,"
            " `wmmadiag init` writes a card"
        )
    text = "\n".join(lines) + "\n"
    return visible_in_colour(text) if colour else visible(text)


def _first(report: KernelReport, colour: bool) -> list[str]:
    """The one line that matters of a kernel that is not right: what, where, in which case; and the question, if any."""
    case = next((one for one in report.cases if one.status == report.status and not one.accepted), None)
    if case is None or report.status == "passed":
        return []
    errors = [one for one in case.findings if one.level == "error"]
    wrong = any(one.wrong for one in case.judged)
    found = errors[0].place if errors and not wrong else ""
    place = found if case.problem is None else case.problem.place
    what = brief(case).split("\n")[0]
    what = case.problem.with_array(what) if case.problem is not None else what
    said = f"{_WORDS[report.status]}: {f'{place}: ' if place else ''}{what} ({case.title})"
    lines = [_painted(line, report.status, colour) for line in wrapped(said, "", "    ")]
    if report.status == "undecided" and case.problem is not None and case.problem.hint:
        lines += wrapped(f"next: {case.problem.hint}", "", "    ")
    return lines


def case_text(report: KernelReport, case: CaseResult) -> str:
    """One case in full, as `render` tells a wrong one, ending with a newline."""
    found, _ = _finding_lines(case, frozenset(), False)
    lines = [*_case_lines(case, 0, False), *found]
    backend = _BACKENDS.get(report.backend, report.backend)
    title = f"{report.name}: {report.operation}, {report.source}, {report.arch} on {backend}"
    return visible("\n".join([title, *(line for line in lines if line)]) + "\n")


def render_run(run: Run, *, colour: bool = False, verbose: bool = False) -> str:
    """A whole run as text: each kernel, its diagnoses, what could not be checked, and the count."""
    parts = []
    for kernel in run.kernels:
        text = render(kernel.report, colour=colour, verbose=verbose)
        sections = [diagnosis_lines(one, colour=colour, verbose=verbose) for one in kernel.diagnoses]
        parts.append(text + "".join("\n" + "\n".join(lines) + "\n" for lines in sections))
    parts += [visible(f"ERROR: {one.path}\n{textwrap.indent(one.message, '    ')}\n") for one in run.unchecked]
    if len(parts) != 1:
        statuses = [one.report.status for one in run.kernels] + [one.status for one in run.unchecked]
        words: dict[Status, str] = {"passed": "ok", "failed": "wrong", "undecided": "undecided", "error": "in error"}
        counts = [f"{statuses.count(status)} {word}" for status, word in words.items() if status in statuses]
        parts.append(f"{len(statuses)} checks: {', '.join(counts) or 'nothing was checked'}\n")
    return "\n".join(parts)


def _finding_lines(
    case: CaseResult, shown: frozenset[ReportedFinding], verbose: bool
) -> tuple[list[str], frozenset[ReportedFinding]]:
    """A case's findings, those of an earlier case only counted; and all that has been shown by now."""
    alike = {one: replace(one, count=0, detail=()) for one in case.findings}
    fresh = [one for one in case.findings if verbose or alike[one] not in shown]
    lines = finding_lines(fresh, verbose=verbose)
    known = len(case.findings) - len(fresh)
    if known:
        lines.append(f"    ({known} finding{'s' * (known > 1)} as in a case above)")
    return lines, shown | frozenset(alike.values())


def _painted(text: str, status: Status, colour: bool) -> str:
    return f"\x1b[{_COLOURS[status]}m{text}\x1b[0m" if colour else text


def _verdict(report: KernelReport) -> str:
    total = len(report.cases)
    if not total:
        return "ERROR: no case ran"
    if report.status == "passed":
        return f"ok: all {total} case{'s' * (total > 1)} within the bound, {report.seconds:.2f} s"
    known = sum(bool(case.accepted) for case in report.cases)
    if known and not report.exit_code:
        return f"ok: {known} of {total} cases fail as the baseline knows, the others are right, {report.seconds:.2f} s"
    words: dict[Status, str] = {"failed": "wrong", "error": "in error", "undecided": "undecided", "passed": "right"}
    parts = [f"{report.count(status)} {word}" for status, word in words.items() if report.count(status)]
    parts += [f"{known} of them known"] * bool(known)
    return f"{_WORDS[report.status]}: {', '.join(parts)} of {total} cases, {report.seconds:.2f} s"


def _compiled_lines(kernels: Sequence[CompiledVariant], verbose: bool) -> list[str]:
    """One variant's compiled kernels: one line for all, with what they share, unless they are to be told apart."""
    first = kernels[0]
    if len(kernels) > 1 and not verbose:
        shared = {k: v for k, v in first.macros.items() if all(other.macros.get(k) == v for other in kernels)}
        entries = dict.fromkeys(kernel.entry for kernel in kernels)
        notes = tuple(dict.fromkeys(note for kernel in kernels for note in kernel.notes))
        title = f"{next(iter(entries))} and others" if len(entries) > 1 else first.entry
        together = replace(first, entry=f"{title}, compiled {len(kernels)} ways", macros=shared, notes=notes)
        return _kernel_lines(replace(together, resources=_most([kernel.resources for kernel in kernels])))
    return [line for kernel in kernels for line in _kernel_lines(kernel)]


def _most(uses: Sequence[ResourceUse | None]) -> ResourceUse | None:
    """The largest of each figure."""
    known = [astuple(use) for use in uses if use is not None]
    return ResourceUse(*map(max, zip(*known, strict=True))) if known else None


def _kernel_lines(compiled: CompiledVariant) -> list[str]:
    macros = " ".join(f"{name}={value}" if value else name for name, value in compiled.macros.items())
    lines = wrapped(f"{compiled.variant}: {compiled.entry}" + (f"  [{macros}]" if macros else ""), "", "    ")
    use = compiled.resources
    if use is not None:
        spilled = use.spill_stores + use.spill_loads
        spills = f"{spilled} bytes spilled" if spilled else "no spills"
        lines.append(f"    {use.registers} registers, {spills}, {use.static_shared} bytes static shared memory")
    for note in compiled.notes:
        lines += wrapped(f"note: {note}", "    ", "      ")
    return lines


def _head(case: CaseResult, width: int, colour: bool) -> tuple[list[str], int]:
    """Status, name and symbols: one line, or two where they do not fit; and the length of the last."""
    word = _painted(f"{'known' if case.accepted else _WORDS[case.status]:<9}", case.status, colour)
    symbols = " ".join(f"{name}={value:g}" for name, value in case.symbols.items())
    length = 10 + max(width, len(case.title)) + 2 + len(symbols)
    if length <= WIDTH:
        return [f"{word} {case.title:<{width}}  {symbols}".rstrip()], length
    return [f"{word} {case.title}", *wrapped(symbols, " " * 10)], WIDTH


def _brief_lines(case: CaseResult, width: int, colour: bool) -> list[str]:
    """A case in one or two lines."""
    lines, length = _head(case, width, colour)
    wrong = wrong_outputs(case)
    if case.problem is not None:
        wrong = [f"{case.problem.place}: " * bool(case.problem.place) + case.problem.message]
    text = "; ".join(wrong) or ("memory overwritten" if case.overwritten else margin(case))
    notes = [line for note in case.notes if case.status == "passed" for line in wrapped(note, " " * 10)]
    if case.accepted:
        notes += wrapped(f"accepted: {case.accepted}", " " * 10)
    if length + 2 + len(text) <= WIDTH and text:
        return [*lines[:-1], f"{lines[-1]}  {text}", *notes]
    return [*lines, *wrapped(text, " " * 10), *notes]


def _case_lines(case: CaseResult, width: int, colour: bool) -> list[str]:
    lines, _ = _head(case, width, colour)
    if any(case.block):
        shared = f", {case.shared_bytes} bytes dynamic shared" if case.shared_bytes else ""
        lines.append(f"    grid {_dim3(case.grid)}, block {_dim3(case.block)}{shared}")
        run = f"    inputs {case.distribution}, seed {case.seed}"
        if case.warp_instructions:
            run += f"; {case.warp_instructions:,} warp instructions in {case.seconds:.3f} s"
        lines.append(run)
    if case.problem is not None:
        lines += problem_lines(case.problem)
    for observation in case.observations:
        lines += observation_lines(observation)
    for item in case.overwritten:
        what = "guard element" if item.kind == "guard" else "element of an input"
        plural = "s" if item.count > 1 and item.kind == "guard" else ""
        lines.append(f"    {item.argument}: {item.count} {what}{plural} overwritten, first at offset {item.first}")
    for note in case.notes:
        lines += wrapped(f"note: {note}", "    ", "      ")
    if case.output:
        printed = case.output.rstrip("\n").split("\n")
        lines += ["    the kernel printed:", *(f"      {line}" for line in printed[:20])]
        if len(printed) > 20:
            lines.append(f"      ({len(printed) - 20} more lines)")
    if case.repeat and case.status != "passed":
        lines.append(f"    repeat: {case.repeat}")
    return [*lines, ""]


def _dim3(value: tuple[int, int, int]) -> str:
    dims = list(value)
    while len(dims) > 1 and dims[-1] == 1:
        dims.pop()
    return "x".join(map(str, dims))


def problem_lines(problem: Problem) -> list[str]:
    """A fault, a compile error or a refusal."""
    where = f"{problem.place}: " if problem.place else ""
    lines = wrapped(f"{where}{problem.message}", "    ", "      ")
    lines += [f"      {line.strip()}" for line in problem.chain.splitlines()]
    spot = []
    if problem.block is not None:
        spot.append("block ({}, {}, {})".format(*problem.block))
    if problem.warp is not None:
        spot.append(f"warp {problem.warp}")
    if problem.lane is not None:
        spot.append(f"lane {problem.lane}")
    if spot and "warp" not in problem.detail:  # some faults' details say it already
        lines.append("      in " + ", ".join(spot))
    lines += [f"      {line}" for line in problem.detail.splitlines()]
    if problem.hint:
        lines += wrapped(f"next: {problem.hint}", "      ", "        ")
    return lines


def observation_lines(seen: Observation) -> list[str]:
    """What a comparison saw: how much, how far, first and worst, which indices, which tiles."""
    title = f"{seen.output} {seen.dtype} {_index(seen.shape)}"
    against = "" if seen.against == "reference" else f" against {seen.against}"
    if not seen.wrong:
        used = "" if seen.max_in_bounds is None else f", at most {seen.max_in_bounds:.2g} of it"
        text = f"{title}{against}: all {seen.elements} elements within the {seen.criterion}{used}"
        return wrapped(text, "    ", "      ")
    lines = wrapped(f"{title}{against}: {share(seen)}, by the {seen.criterion}", "    ", "      ")
    kinds = [
        f"{count} {what}"
        for count, what in (
            (seen.unwritten, "never written"),
            (seen.nan, "NaN where a number is expected, or the reverse"),
            (seen.inf, "infinite where they should not be, or the reverse"),
        )
        if count
    ]
    if kinds:
        lines += wrapped("of these " + ", ".join(kinds), "      ", "        ")
    if seen.wrong > seen.unwritten + seen.nan + seen.inf:
        difference = f"      difference: max {seen.max_difference:.3g}, mean {seen.mean_difference:.3g}"
        if seen.max_in_bounds is not None:
            median = times(seen.typical_in_bounds or 0.0)
            difference += f"; max {times(seen.max_in_bounds)}x the bound, median {median}x"
        lines.append(difference)
    elif seen.max_in_bounds is not None:
        lines.append(f"      all other elements are within it, at most {times(seen.max_in_bounds)}x the bound")
    if seen.against != "reference":
        return lines  # the comparison with the reference says where
    if seen.first is not None:
        lines.append("      first: " + _element(seen.first))
    if seen.worst is not None:
        lines.append("      worst: " + _element(seen.worst))
    for axis in seen.axes:
        lines += wrapped(_axis(axis), "      ", "        ")
    leading = "".join(axis.name for axis in seen.axes)[:-2]
    letters = leading if leading.isalpha() else ""
    lines.append(f"      {LEGEND}")
    lines += [f"      {line}" for line in tile_map_lines(seen.tiles, seen.matrices, letters)]
    return lines


def _index(index: Iterable[int]) -> str:
    return "[" + ",".join(map(str, index)) + "]"


def _element(element: ElementDifference) -> str:
    observed = "never written" if element.unwritten else f"{element.observed:.6g}"
    slack = f" +- {element.bound:.2g}" if element.bound else ""
    return f"{_index(element.index)}  {observed} instead of {element.expected:.6g}{slack}"


def _axis(axis: Axis) -> str:
    name = f"axis {axis.name}"
    if axis.wrong == axis.extent:
        return f"{name}: all {axis.extent}"
    parts = [str(a) if b == a + 1 else f"{a}-{b - 1}" for a, b in axis.ranges]
    period = _period(axis.ranges)
    if period and len(parts) > 3:
        return f"{name}: {axis.wrong} of {axis.extent}: {parts[0]}, {parts[1]} and so on, every {period}"
    hidden = axis.wrong - sum(b - a for a, b in axis.ranges)
    text = f"{name}: {axis.wrong} of {axis.extent}: " + ", ".join(parts)
    return text + (f" and {hidden} more" if hidden else "")


def _period(ranges: Sequence[tuple[int, int]]) -> int:
    """The distance between ranges that repeat regularly (the last may be cut), or 0."""
    if len(ranges) < 3:
        return 0
    steps = {b[0] - a[0] for a, b in pairwise(ranges)}
    lengths = {b - a for a, b in ranges[:-1]}
    return steps.pop() if len(steps) == 1 and len(lengths) == 1 else 0
