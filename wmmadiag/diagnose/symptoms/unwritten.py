"""Reads of memory that nothing wrote, with the pattern of what was written: who left the hole."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.checks.naming import array_name, extent_at, user_line
from wmmadiag.checks.registry import Context
from wmmadiag.checks.uninitialised import array_at, decode, describe
from wmmadiag.diagnose.answers import of_finding
from wmmadiag.diagnose.claim import Claim
from wmmadiag.diagnose.edits.barriers import varies
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.symptoms.rounds import SamePlace, stored_to_one_place
from wmmadiag.emulator.extents import Part
from wmmadiag.place import Place
from wmmadiag.subject.check import own_place

_ROUNDING = 0.05
"""How far from a whole number a ratio may be that the padding behind the last row falsifies."""
_NARROWEST, _TILE = 8, 16
"""Columns of the narrowest tile of a multiplication, and of the usual one."""
_STAGED, _MOST_STAGES = 2, 4
"""Stages are whole matrices, so that an array of them has more than these dimensions; and nobody has more stages."""


@dataclass(frozen=True, slots=True)
class UnwrittenRead:
    """A read of something that nothing had written, whose value matters.

    Attributes:
        finding: the check's own words.
        place, arrival: the user's lines that read it, and where it came to matter.
        space: "shared", "local", "global", or "register".
        array: its name.
        written, missing: how much of the array was written by then, and how much not: "512 of 2,304 elements".
        writers: lines that had written the rest.
        by: what they wrote with: "fragments", "threads", both as "mixed", or "nothing".
        prefix: whether the hole is one stretch at the array's end.
        stage: where all of the outermost slice that is read is unwritten, and another of up to four is not: its number;
            else -1.
        pitch: where the holes are the padding of rows, how many elements rows are apart; or 0.
        times: how many times what is written the array is, where its end is the hole and that is a whole number; or 0.
        at_most: how many wrong elements all such reads together can be behind, where that is not all; or None.
    """

    finding: Finding
    place: Place
    arrival: Place
    space: str
    array: str
    written: str
    missing: str
    writers: tuple[Place, ...]
    by: Literal["fragments", "threads", "mixed", "nothing"]
    prefix: bool
    pitch: int
    stage: int = -1
    times: int = 0
    at_most: int | None = None


def of_hole(hypothesis: str, read: UnwrittenRead, rank: float, *, sentence: str, also: Sequence[str]) -> Claim:
    """A claim at the line that wrote the rest of an array, with the line that reads the hole as its second."""
    claim = of_finding(hypothesis, read.finding, rank, sentence=sentence, also=also, exact=False)
    if read.at_most is not None:  # something else spoils the others, and may well make these reads
        claim = replace(claim, at_most=read.at_most)
    if read.times:
        claim = replace(claim, values={"times": read.times})
    if not read.writers:
        return claim
    lines = tuple(place.line for place in read.writers if place.file == read.writers[0].file)
    return replace(claim, place=read.writers[0], other=read.place, edit_lines=lines)


def overwritten_by(evidence: Evidence, read: UnwrittenRead) -> SamePlace | None:
    """The store that should have filled a hole, and goes to the same place in every round of its loop; or None.

    What is read in each round may be stored anew in each round: the read stands behind the loop.
    """
    if read.space != "shared" or read.by not in ("fragments", "mixed") or read.pitch:
        return None
    for writer in read.writers:
        model = evidence.source_model(writer.file) if writer.file in evidence.files else None
        for same in stored_to_one_place(model) if model is not None else ():
            lines = range(same.call.line, model.line_of(same.call.end) + 1) if model is not None else ()
            behind = all(frame.line > same.end for frame in read.place.frames() if frame.file == writer.file)
            if writer.line in lines and behind:
                return same
    return None


def unfilled_stage(evidence: Evidence, read: UnwrittenRead) -> bool:
    """Whether a hole is one whole stage of several, that threads fill in turns, and every thread reads that stage.

    Parts that belong to one warp each look the same in memory: their number depends on the thread.
    """
    if read.stage < 0 or read.by != "threads":
        return False
    model = evidence.source_model(read.place.file) if read.place.file in evidence.files else None
    if model is None:
        return False
    name = read.array.split(".")[-1]
    lines = {one.line for one in read.place.frames() if one.file == read.place.file}  # a helper reads what it is given
    at = [s for s in model.subscripts if s.name == name and s.line in lines and len(s.indices) > 1]
    return bool(at) and not any(varies(model, one.indices[0]) for one in at)


def filled_at_another_time(evidence: Evidence, read: UnwrittenRead) -> bool:
    """Whether a line that fills the array also writes, unordered with this read, the very bytes that it reads.

    Then nothing was left out of the fill: the read comes too early, or looks into the part for another round.
    """
    lines = {own_place(place) for place in read.writers}
    races = evidence.errors("races", "read-write") if read.space == "shared" else ()
    return any(
        own_place(one.place) == own_place(read.place) and one.other is not None and own_place(one.other) in lines
        for one in races
    )


def other_blocks(evidence: Evidence, read: UnwrittenRead) -> tuple[Finding, ...]:
    """What shows that other blocks write, in the same launch, the global memory that a line reads too early."""
    if read.space != "global":
        return ()
    races = evidence.errors("races", "blocks-read-write")
    return tuple(one for one in races if own_place(one.place) == own_place(read.place))


def unwritten_reads(evidence: Evidence) -> tuple[UnwrittenRead, ...]:
    """Those that reach an output or an address; where numbers are wrong also those that decide a branch."""
    context = evidence.run.context
    if context is None:
        return ()
    found = []
    for raw in evidence.run.raws:
        if raw["check"] != "uninitialised":
            continue
        one = _read(raw, context, branches=evidence.wrong_count > 0)
        if one is not None:
            found.append(one)
    if all(one.finding.kind == "output" for one in found):  # what decides a branch spoils any number of elements
        reached = sum(one.finding.count for one in found)
        if reached < evidence.wrong_count:
            found = [replace(one, at_most=reached) for one in found]
    return tuple(sorted(found, key=lambda read: read.finding.level is not Level.ERROR))


def _read(raw: Mapping[str, Any], context: Context, *, branches: bool) -> UnwrittenRead | None:
    """A raw finding read; None for one that is no error, unless it decides a branch and `branches` counts."""
    finding = describe(raw, context)
    if finding is None or (finding.level is not Level.ERROR and not (branches and finding.kind == "branch")):
        return None
    seen = decode(raw["values"])
    space = "register" if raw["space"] == "generic" else str(raw["space"])
    extent = extent_at(context, space, int(raw["address"])) if space == "shared" else None
    name = "a register" if space == "register" else array_name(context, space, int(raw["address"]))
    size = missing = 0
    words = "bytes"
    prefix = False
    pitch, stage, times = 0, -1, 0
    writers: list[Place] = []
    ops: set[bool] = set()
    if extent is not None:
        part, start, end = array_at(extent, int(raw["address"]))
        name = part.name
        holes = [(max(a, start), min(b, end)) for a, b in seen.holes if a < end and b > start]
        unit = part.item or 1
        size, missing = (end - start) // unit, sum(b - a for a, b in holes) // unit
        words = "elements" if part.item else "bytes"
        prefix = len(holes) == 1 and holes[0][1] == end
        pitch = _pitch([(a // unit, b // unit) for a, b in holes]) if part.item else 0
        times = _times(end - start, [(a - start, b - start) for a, b in holes])
        stage = _stage(part, int(raw["address"]) - start, [(a - start, b - start) for a, b in holes])
        for writer in seen.writers:
            if writer.low < end and writer.high > start:
                writers.append(user_line(context, writer.pc))
                ops.add(context.kernel.nodes[writer.pc].op.startswith("wmma"))
    by: Literal["fragments", "threads", "mixed", "nothing"] = (
        "nothing" if not ops else "mixed" if len(ops) == 2 else "fragments" if True in ops else "threads"
    )
    return UnwrittenRead(
        finding,
        user_line(context, int(raw["pc"])),
        user_line(context, int(raw["other_pc"])),
        space,
        name,
        f"{size - missing:,} of {size:,} {words}",
        f"{missing:,} of {size:,} {words}",
        tuple(dict.fromkeys(writers)),
        by,
        prefix,
        pitch,
        stage,
        times,
    )


def _stage(part: Part, offset: int, holes: Sequence[tuple[int, int]]) -> int:
    """The outermost slice at an offset of an array, where nothing of it is written, and something of another is."""
    if not part.item or len(part.shape) <= _STAGED or not 2 <= part.shape[0] <= _MOST_STAGES:
        return -1
    size = part.strides[0]
    empty = [any(a <= n * size and b >= (n + 1) * size for a, b in holes) for n in range(part.shape[0])]
    number = offset // size
    return number if empty[number] and not all(empty) else -1


def _times(size: int, holes: Sequence[tuple[int, int]]) -> int:
    """How many times as large as its part before the last hole an array is, to a row's padding; 0 for no number."""
    if not holes or holes[-1][1] != size or not holes[-1][0]:
        return 0
    times = size / holes[-1][0]
    return round(times) if times > _ROUNDING + 1 and abs(times - round(times)) < _ROUNDING * times else 0


def _pitch(holes: Sequence[tuple[int, int]]) -> int:
    """What holes of one width at equal distances are apart, where no columns of a tile are left out there; else 0.

    No 8 columns fit into the holes; or whole tiles lie between them, and the holes are what is over.
    """
    distances = {later[0] - earlier[0] for earlier, later in itertools.pairwise(holes)}
    widths = {end - start for start, end in holes}
    if len(holes) < 8 or len(distances) != 1 or len(widths) != 1:
        return 0
    distance, width = distances.pop(), widths.pop()
    padding = width < _NARROWEST or (width < _TILE and not (distance - width) % _TILE)
    return distance if padding else 0
