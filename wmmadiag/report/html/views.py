"""What the page's template shows, made of a run: plain values, nothing escaped yet."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from wmmadiag.compare.observation import TILE, Observation
from wmmadiag.report.map_svg import error_picture
from wmmadiag.report.terminal_diagnosis import fix_effect, how_sure, number, work_line
from wmmadiag.results.brief import brief, times
from wmmadiag.results.diagnosis import Cause, Diagnosis, Fix
from wmmadiag.results.maps import ALLOWED, AT_BOUND, SPECIAL, STEPS_PER_OCTAVE, ErrorMap, FragmentCell, HeldFragment
from wmmadiag.results.model import CaseResult, ReportedFinding, Status
from wmmadiag.results.run import KernelRun, Run
from wmmadiag.results.text import dedented, diff_lines, split_place, visible

MAP_ROOM = 4_000_000
"""Characters of a page that maps may take."""
SOURCE_ROOM = 400_000
"""Characters of a page that listings of sources may take."""
_STILL = 480
"""Pixels of a picture of a map, as far as that makes whole ones of its elements."""

WORDS: Mapping[Status, str] = {"passed": "right", "failed": "wrong", "undecided": "undecided", "error": "error"}
MARKS: Mapping[Status, str] = {"passed": "✓", "failed": "✗", "undecided": "?", "error": "!"}
_BANKS = "banks"


def views(run: Run) -> dict[str, Any]:
    """Variables of the template."""
    room = {"maps": MAP_ROOM, "sources": SOURCE_ROOM}
    maps: list[dict[str, Any]] = []
    kernels = [_kernel(kernel, f"k{number}", maps, room) for number, kernel in enumerate(run.kernels)]
    cases = [case for kernel in run.kernels for case in kernel.report.cases]
    counts = [
        (status, sum(case.status == status for case in cases)) for status in ("failed", "error", "undecided", "passed")
    ]
    return {
        "run": run,
        "words": WORDS,
        "marks": MARKS,
        "title": _title(run),
        "counts": [(status, count) for status, count in counts if count],
        "cases": len(cases),
        "kernels": kernels,
        "maps": _json(
            {
                "tile": TILE,
                "at_bound": AT_BOUND,
                "steps": STEPS_PER_OCTAVE,
                "special": dict(SPECIAL),
                "allowed": ALLOWED,
                "maps": maps,
            }
        ),
    }


def _title(run: Run) -> str:
    names = list(dict.fromkeys(kernel.report.name for kernel in run.kernels))
    return names[0] if len(names) == 1 else f"{len(names)} kernels"


class RawMarkup(str):
    """Text of this package that needs no escaping."""

    __slots__ = ()

    def __html__(self) -> str:
        return str(self)


def _json(value: Any) -> RawMarkup:
    """JSON that cannot end the script element it stands in, nor start anything there."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return RawMarkup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _kernel(kernel: KernelRun, slug: str, maps: list[dict[str, Any]], room: dict[str, int]) -> dict[str, Any]:
    report = kernel.report
    marked = _marked_lines(kernel)
    cases = [_case(kernel, case, f"{slug}c{at}", maps, room) for at, case in enumerate(report.cases)]
    listings = []
    if report.status != "passed":
        for source in kernel.sources:
            if source.text and len(source.text) <= room["sources"] and not source.path.endswith(".toml"):
                room["sources"] -= len(source.text)
                lines = [
                    {"number": at, "text": text, "marks": marked.get((source.path, at), ())}
                    for at, text in enumerate(source.text.split("\n"), 1)
                ]
                listings.append({"path": source.path, "lines": lines})
    return {
        "slug": slug,
        "run": kernel,
        "report": report,
        "cases": cases,
        "diagnoses": [_diagnosis(one) for one in kernel.diagnoses],
        "findings": list(_findings(report.cases)),
        "banks": list(_banks(report.cases)),
        "banks_ran": any(one.check == _BANKS for case in report.cases for one in case.findings),
        "fragments": [_fragment(one) for one in kernel.fragments],
        "listings": listings,
        "compiled": [
            {"one": one, "macros": " ".join(f"{key}={value}" if value else key for key, value in one.macros.items())}
            for one in report.compiled
        ],
    }


def _marked_lines(kernel: KernelRun) -> dict[tuple[str, int], tuple[str, ...]]:
    """Lines of sources that a cause, a finding or a fault names, with what they say."""
    said: list[tuple[str, str]] = []
    for diagnosis in kernel.diagnoses:
        said += [(cause.place, cause.sentence) for cause in diagnosis.causes]
    for case in kernel.report.cases:
        said += [(one.place, f"{one.level} [{one.check}]: {one.message}") for one in case.findings]
        if case.problem is not None:
            said.append((case.problem.place, case.problem.message))
    found: dict[tuple[str, int], tuple[str, ...]] = {}
    for place, text in dict.fromkeys(said):
        taken = split_place(place)
        key = (taken.file, taken.line)
        found[key] = (*found.get(key, ()), text)
    return found


def _case(
    kernel: KernelRun, case: CaseResult, slug: str, maps: list[dict[str, Any]], room: dict[str, int]
) -> dict[str, Any]:
    mine = [one for one in kernel.maps if (one.variant, one.case) == (case.variant, case.case)]
    shown = []
    for one in mine:
        made = _map(one, room)
        if made is not None:
            shown.append({"number": len(maps), "about": made, "still": _still(one, room)})
            maps.append(made)
    return {
        "slug": slug,
        "case": case,
        "brief": brief(case),
        "symbols": " ".join(f"{name}={value:g}" for name, value in case.symbols.items()),
        "wrong": sum(one.wrong for one in case.judged),
        "elements": sum(one.elements for one in case.judged),
        "ratio": _largest(case),
        "observations": [_observation(one) for one in case.observations],
        "maps": shown,
        "launch": _launch(case),
    }


def _largest(case: CaseResult) -> str:
    """The largest error in units of the bound, and what has no such number."""
    kinds = {
        "NaN": sum(one.nan for one in case.judged),
        "∞": sum(one.inf for one in case.judged),
        "unwritten": sum(one.unwritten for one in case.judged),
    }
    words = [name for name, count in kinds.items() if count]
    largest = case.largest_error
    if largest is not None and (largest > 1 or not words):
        words.insert(0, _times(largest))
    return ", ".join(words)


def _launch(case: CaseResult) -> str:
    if not any(case.block):
        return ""
    shared = f", {case.shared_bytes:,} bytes of dynamic shared memory" if case.shared_bytes else ""
    grid, block = ("×".join(map(str, value)) for value in (case.grid, case.block))
    return f"grid {grid}, block {block}{shared}"


def _times(ratio: float) -> str:
    return times(ratio) if math.isfinite(ratio) else "∞"


def _observation(seen: Observation) -> dict[str, Any]:
    kinds = [(seen.unwritten, "never written"), (seen.nan, "NaN"), (seen.inf, "infinite")]
    return {
        "seen": seen,
        "shape": "×".join(map(str, seen.shape)),
        "kinds": ", ".join(f"{count:,} {what}" for count, what in kinds if count),
        "max_ratio": "" if seen.max_in_bounds is None else _times(seen.max_in_bounds),
        "elements": [
            {
                "name": name,
                "index": ", ".join(map(str, one.index)),
                "expected": number(one.expected),
                "observed": "never written" if one.unwritten else number(one.observed),
                "bound": f"{one.bound:.2g}",
            }
            for name, one in (("first wrong", seen.first), ("worst", seen.worst))
            if one is not None
        ],
        "axes": [
            {
                "name": axis.name,
                "wrong": axis.wrong,
                "extent": axis.extent,
                "ranges": ", ".join(str(a) if b == a + 1 else f"{a}–{b - 1}" for a, b in axis.ranges[:6])
                + (", …" if len(axis.ranges) > 6 else ""),
            }
            for axis in seen.axes
        ],
        "tiles": [
            {
                "index": _index(one.index, "".join(axis.name for axis in seen.axes)),
                "rows": list(enumerate(one.counts)),
                "columns": range(len(one.counts[0]) if one.counts else 0),
            }
            for one in seen.tiles[:8]
            if len(one.counts) * len(one.counts[0]) <= 256
        ],
    }


def _index(index: Sequence[int], letters: str) -> str:
    named = letters[: len(index)].lower() if letters.isalpha() else ""
    return " ".join(f"{named[at] if at < len(named) else ''}{value}" for at, value in enumerate(index))


def _map(one: ErrorMap, room: dict[str, int]) -> dict[str, Any] | None:
    """A map as the page's script gets it, as much of it as there is room for."""
    planes = []
    for plane in one.planes:
        size = len(plane.error)
        if size > room["maps"]:
            continue
        values = len(plane.observed) + len(plane.expected)
        kept = size + values <= room["maps"]
        room["maps"] -= size + values * kept
        planes.append(
            {
                "index": list(plane.index),
                "name": _index(plane.index, one.axes),
                "wrong": plane.wrong,
                "error": plane.error,
                "observed": plane.observed if kept else "",
                "expected": plane.expected if kept else "",
            }
        )
    if not planes:
        return None
    owners = {
        " ".join(map(str, plane.index)): [
            [None if tile is None else [list(tile.block), list(tile.warps), tile.blocks, tile.elements] for tile in row]
            for row in plane.tiles
        ]
        for plane in one.owners
        if any(plane.index == kept.index for kept in one.planes)
    }
    return {
        "variant": visible(one.variant),
        "case": visible(one.case),
        "output": visible(one.output),
        "axes": one.axes,
        "rows": one.rows,
        "columns": one.columns,
        "numbers": one.numbers,
        "scale": one.scale,
        "planes": planes,
        "owners": owners,
        "left_out": one.left_out + len(one.planes) - len(planes),
    }


def _still(one: ErrorMap, room: dict[str, int]) -> dict[str, Any] | None:
    """The picture that stands for a map until a script draws it: its matrix with the most wrong elements."""
    plane = max(one.planes, key=lambda plane: plane.wrong)
    picture = error_picture(plane, one.rows, one.columns)
    if not picture or len(picture) > room["maps"]:
        return None
    room["maps"] -= len(picture)
    scale = max(1, min(_STILL // one.columns, _STILL // one.rows, 12))
    return {
        "picture": picture,
        "name": _index(plane.index, one.axes),
        "wrong": plane.wrong,
        "width": one.columns * scale,
        "height": one.rows * scale,
    }


def _findings(cases: Sequence[CaseResult]) -> Iterator[dict[str, Any]]:
    """Each finding once, gravest first, with the cases that show it; those of banks have their own table."""
    groups: dict[tuple[str, ...], tuple[ReportedFinding, list[str]]] = {}
    for case in cases:
        for one in case.findings:
            if one.check != _BANKS:
                key = (one.level, one.check, one.kind, one.place, one.other, one.message)
                groups.setdefault(key, (one, []))[1].append(case.title)
    order = {"error": 0, "warning": 1, "advice": 2}
    for finding, where in sorted(groups.values(), key=lambda one: order[one[0].level]):
        yield {"finding": finding, "cases": where}


def _banks(cases: Sequence[CaseResult]) -> Iterator[dict[str, Any]]:
    """Bank conflicts and uncoalesced accesses by line, of the first case that has them."""
    for case in cases:
        found = [one for one in case.findings if one.check == _BANKS]
        if found:
            top = max(one.count for one in found)
            for one in sorted(found, key=lambda each: -each.count):
                yield {"finding": one, "share": one.count, "top": top, "case": case.title}
            return


def _diagnosis(diagnosis: Diagnosis) -> dict[str, Any]:
    order = ("proven", "likely", "undecided", "refuted")
    tested = sorted(diagnosis.tested, key=lambda one: order.index(one.verdict))
    return {
        "one": diagnosis,
        "work": work_line(diagnosis),
        "causes": [_cause(cause) for cause in diagnosis.causes],
        "tested": [{"one": one} for one in tested],
    }


def _cause(cause: Cause) -> dict[str, Any]:
    excerpt = cause.excerpt
    lines = [] if excerpt is None else list(enumerate(dedented(excerpt.lines), excerpt.first))
    return {
        "one": cause,
        "sure": how_sure(cause),
        "lines": [
            {"number": at, "text": text, "marked": excerpt is not None and at in excerpt.marked} for at, text in lines
        ],
        "fix": None if cause.fix is None else _fix(cause.fix),
    }


def _fix(fix: Fix) -> dict[str, Any]:
    words = {
        "verified": "Fix, tried: it is right",
        "improves": "Helps, but is not enough",
        "suggestion": "Suggested fix",
    }
    diff = diff_lines(fix.diff)
    code = iter(dedented([line.text for line in diff if line.kind not in ("file", "hunk")]))
    shown = [line if line.kind in ("file", "hunk") else replace(line, text=next(code)) for line in diff]
    return {"one": fix, "title": words[fix.status], "effect": fix_effect(fix), "diff": shown}


def _fragment(one: HeldFragment) -> dict[str, Any]:
    cells: dict[tuple[int, int], list[FragmentCell]] = {}
    for cell in one.cells:
        cells.setdefault((cell.row, cell.column), []).append(cell)
    wrong = sorted((c for c in one.cells if c.held != c.wanted), key=lambda c: (c.row, c.column, c.lane, c.slot))
    grid = []
    for row in range(one.rows):
        line = []
        for column in range(one.columns):
            found = cells.get((row, column), [])
            bad = any(cell.held != cell.wanted for cell in found)
            text = "; ".join(
                f"lane {c.lane} x[{c.slot}]: held {c.held or '?'}, should hold {c.wanted or '?'}" for c in found
            )
            line.append({"lanes": "/".join(str(cell.lane) for cell in found[:2]), "wrong": bad, "text": text})
        grid.append({"row": row, "cells": line})
    return {
        "one": one,
        "grid": grid,
        "columns": range(one.columns),
        "wrong": wrong[:64],
        "more": max(0, len(wrong) - 64),
        "count": len(wrong),
        "all": len(one.cells),
    }
