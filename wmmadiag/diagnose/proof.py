"""What speaks against a proof of a change with which everything is right: then it is likely, and no more.

A change is proven where nothing else mends as simply, where the changed kernel does what the kernel did and no more
than it must, and where what the change is about could not have been meant otherwise.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.csource.tree import Source
from wmmadiag.diagnose.changes import Change
from wmmadiag.diagnose.confirm import (
    Confirmed,
    decided,
    overflows_now,
    share_altered,
    tolerated,
    touched,
)
from wmmadiag.diagnose.excerpts import listed, statement_lines
from wmmadiag.diagnose.frugal import rearranged, repeats, strays, twice
from wmmadiag.diagnose.hard import runs_on_hard_inputs
from wmmadiag.diagnose.meeting import function_at, homes, ordered_by, through_two_pointers
from wmmadiag.diagnose.names import TARGETS, puts_in_order
from wmmadiag.diagnose.only_where import CHOSEN
from wmmadiag.diagnose.ranking import Ranked, tokens_of
from wmmadiag.diagnose.ranking import difference as differing
from wmmadiag.diagnose.sidebyside import Difference, of_two_ends
from wmmadiag.diagnose.sketching import FILLED
from wmmadiag.diagnose.sliding import movable
from wmmadiag.diagnose.solving import SOLVED
from wmmadiag.diagnose.two_ends import other_end_in_several
from wmmadiag.diagnose.watched import LineShift, blocks_of, both_texts, fresh, watched
from wmmadiag.diagnose.where_made import made_before
from wmmadiag.errors import WmmadiagError
from wmmadiag.ops.registry import OPERATIONS
from wmmadiag.place import Place, own_place
from wmmadiag.subject.bench import CaseRun, Workbench
from wmmadiag.subject.card import Case

if TYPE_CHECKING:
    from wmmadiag.diagnose.examined import Examined

_SOUGHT = {
    FILLED: "thousands of expressions were tried at this place and others: one may fit by chance",
    SOLVED: "its number was sought: another place may need another one",
    CHOSEN: "its condition was sought among those of the source: another one may be meant",
}
_NAMES_SOMETHING = re.compile(r"\(\s*&?\s*[A-Za-z_]")
"""A call with a variable as its first argument."""
_ELEMENTS = frozenset(
    {"leading-dimension", "transposed", "wrong-axis", "wrong-matrix", "shifted", "misplaced", "broken-operand"}
)
"""Kinds of disagreements about which element is where."""


def doubts(found: Examined, first: CaseRun, best: Confirmed, difference: Difference | None) -> Iterator[str]:
    """Why a change may not be what was meant, though it mends everything; one sentence each."""
    change = best.tried.ranked.change
    ran = [one for one in found.bench.cases() if one.name in found.baseline]
    cases = sorted(ran, key=lambda one: one.name != found.case.name)
    if best.shape is not None:
        yield "the kernel could as well be written for the launch that there is"
    else:
        yield from _by_its_text(found.sources, best.tried.ranked)
    if of_two_ends(change, difference):
        yield "who writes this memory and who reads it would agree as well if the other end were changed"
    if puts_in_order(change) and _overlap(found, first, best):
        yield "it orders accesses through different pointers, whose memory should perhaps not overlap"
    if best.lanes_meet:
        yield "with it lanes of a warp meet in memory all the same: it may stand at the wrong place"
    if caller := waits_apart(found.sources, first, change):
        yield f"both accesses that it orders are made or called for in {caller}: there it may be what is missing"
    if puts_in_order(change) and (other := also_in(found.sources, best)):
        yield f"in {other} it puts these accesses in order as well"
    if movable(change) and best.tried.also != ():
        where = f"at {listed(best.tried.also)}" if best.tried.also else "perhaps at other places"
        yield f"what it puts in mends {where} as well"
    if case := disturbed(cases, found.baseline, best):
        yield f"it also alters what is read and written in the case {case}, which was right without it"
    if where := unfit(found.bench, cases, best):
        yield f"it is wrong in {where}, which no case asks for"
    if best.frail:
        yield best.frail
    yield from _untried(found)
    if best.unfit:
        yield f"it is wrong in {best.unfit}, which no case asks for"
    yield from best.waste
    if best.shape is None:
        if lines := other_end_in_several(first, best.runs[0], found.sources, best.texts):
            yield f"{listed(lines)} meet this line in shared memory: they may be what is wrong, all alike"
        yield from _more_than_needed(found.sources, first, best)


def _untried(found: Examined) -> Iterator[str]:
    """What might mend it as well, and was not tried."""
    if found.of_headers:
        yield "most of the kernel is of headers, of which nothing was tried: one of them may be what is wrong"
    if found.passed_over:
        yield f"{found.passed_over:,} changes beside it were not tried, as each takes a compilation of its own"


def _by_its_text(sources: Mapping[str, Source], ranked: Ranked) -> Iterator[str]:
    """What a change itself says against it."""
    change = ranked.change
    if ranked.agreed:
        yield "other places are written for this constant: one of them may be what is wrong"
    if change.operator in _SOUGHT:
        yield _SOUGHT[change.operator]
    if ranked.alike > 1:
        yield f"it alters {ranked.alike} lines that agree with each other: what they meet may be what is wrong"
    if name := counted_twice(sources, change):
        yield f"{name} is in what it is added to already: what multiplies it there may be what is wrong"
    if names_registers(sources, change):
        yield "it says which register is which: what fills or reads these registers could be changed as well"
    if again := said_elsewhere(sources, change):
        yield f"the same stands at {again} already: it may be what stands at the wrong place"


def names_registers(sources: Mapping[str, Source], change: Change) -> bool:
    """Whether a change says which register is which: of assembly, or elements exchanged among a call's arguments."""
    if change.role == "assembly operand":
        return True
    old = sorted(sources[edit.file].slice(edit.start, edit.end) for edit in change.edits)
    exchanged = len(old) > 1 and old == sorted(edit.text for edit in change.edits)
    return exchanged and change.role == "argument" and all("[" in text for text in old)


def counted_twice(sources: Mapping[str, Source], change: Change) -> str:
    """A name that a change adds to a sum of which it is a part already, by what the sum's names are made of; "" for
    none. Once more is as good as any factor that happens to be one more than the one that is there."""
    edit = change.edits[0]
    source = sources[edit.file]
    old = source.slice(edit.start, edit.end)
    gone, come = differing(old, edit.text)
    if len(change.edits) > 1 or gone or len(come) != 2 or come[0] not in "+-" or not come[1].isidentifier():
        return ""
    made = made_before(source, edit.start)
    names, known = set(tokens_of(old)), set[str]()
    while names - known and come[1] not in names:
        more = {word for name in names - known for word in tokens_of(source.text(made[name]) if name in made else "")}
        known, names = known | names, names | more
    return come[1] if come[1] in names else ""


def other_end(found: Examined, best: Confirmed, difference: Difference | None) -> Place | None:
    """Where elements depart, of a change that only says which register is which: there it could be mended as well."""
    change = best.tried.ranked.change
    if difference is not None or found.traced is None or found.steps or change.role not in TARGETS:
        return None
    seen = [one for one in found.traced.disagreements if one.because_of is None and one.kind in _ELEMENTS]
    places = [own_place(place) for one in seen for place in (one.place, one.other) if place is not None]
    edit = change.edits[0]
    start, end = statement_lines(found.sources[edit.file], edit.start)
    return next((one for one in places if one.file != best.line[0] or not start <= one.line <= end), None)


def said_elsewhere(sources: Mapping[str, Source], change: Change) -> str:
    """Where a function does to the same thing what a change puts in for the sake of order; "" for nowhere. A barrier
    that names nothing is asked for again and again."""
    if not puts_in_order(change):
        return ""
    text, source = change.edits[0].text.strip(), sources[change.edits[0].file]
    at = source.data.find(text.encode("utf-8", "surrogateescape")) if _NAMES_SOMETHING.search(text) else -1
    return f"{Path(source.name).name}:{source.place_at(at).line}" if at >= 0 else ""


def waits_apart(sources: Mapping[str, Source], first: CaseRun, change: Change) -> str:
    """The function in which two accesses meet, where a change puts in order what some other function does; "" else."""
    met = homes(first.findings) if puts_in_order(change) else frozenset()
    own = function_at(sources, change.edits[0].file, change.edits[0].start) if met else ""
    return min(met) if met and own not in met else ""


def also_in(sources: Mapping[str, Source], best: Confirmed) -> str:
    """Another function in which what a change puts in for the sake of order mends the case as well; "" for none."""
    change = best.tried.ranked.change
    put_in = {edit.text.strip() for edit in change.edits}
    own = function_at(sources, change.edits[0].file, change.edits[0].start)
    others = (one.ranked.change for one in best.alike if one.ranked.change.role == change.role)
    same = (one.edits[0] for one in others if {edit.text.strip() for edit in one.edits} == put_in)
    return next((name for one in same if (name := function_at(sources, one.file, one.start)) not in ("", own)), "")


def moves_what_is_put_in(sources: Mapping[str, Source], moved: Change, put_in: Change) -> bool:
    """Whether a change takes away somewhere else what another one puts in for the sake of order, and does the same
    besides: it is no other answer, it only says that one of these would be enough."""
    if not puts_in_order(put_in) or moved.role != put_in.role or len(moved.edits) != 2 or len(put_in.edits) != 1:
        return False
    gone = [sources[one.file].slice(one.start, one.end).strip() for one in moved.edits if not one.text.strip()]
    come = [one.text.strip() for one in moved.edits if one.start == one.end]
    return gone == come == [put_in.edits[0].text.strip()]


def _overlap(found: Examined, first: CaseRun, best: Confirmed) -> bool:
    """Whether what an order mends may be memory that overlaps: other pointers, or another change, say so."""
    change = best.tried.ranked.change
    others = any(
        one.right
        and not puts_in_order(one.tried.ranked.change)
        and not moves_what_is_put_in(found.sources, one.tried.ranked.change, change)
        for one in found.answers
    )
    return others or through_two_pointers(ordered_by(first, best.runs), found.sources)


def disturbed(cases: Sequence[Case], baseline: Mapping[str, CaseRun], one: Confirmed) -> str:
    """The smallest case that was right, where a change alters what is read and written in it; "" for none."""
    for case, mended in zip(cases, one.runs, strict=False):
        if baseline[case.name].passed and mended.result.case == case.name:
            return case.name if share_altered(touched(baseline[case.name]), mended) > 0 else ""
    return ""


def unfit(bench: Workbench, cases: Sequence[Case], one: Confirmed) -> str:
    """Inputs that are hard for the operation and that no case asks for, on which a change is wrong by a tolerance that
    was not said of them, or where the kernel overflows on them with the change alone; "" for none."""
    last, own = cases[-1], OPERATIONS[bench.card.computes.operation].of_user
    if not (own or tolerated(bench, last)):
        return ""
    used = bench if one.shape is None else bench.launched(one.shape)
    for name, run in runs_on_hard_inputs(used, last, one.texts):
        if (
            not run.passed
            and decided(run)
            and (math.isfinite(run.max_difference) or overflows_now(used, last, run, name))
        ):
            return f"{last.name} on inputs {name}"
    return ""


def _more_than_needed(sources: Mapping[str, Source], first: CaseRun, best: Confirmed) -> Iterator[str]:
    """What the changed kernel does for nothing, and the kernel did not."""
    mended = best.runs[0]
    one, two = first.emulated, mended.emulated
    bound = first.bound or mended.bound  # a run that died has none
    if one is None or two is None or bound is None or mended.bound is None:
        return
    lines = LineShift(both_texts(sources, best.texts))
    blocks = blocks_of(bound.launch)
    try:
        before, after = watched(fresh(bound), one, blocks), watched(fresh(mended.bound), two, blocks)
        extents = one.named_memory(bound.launch), two.named_memory(mended.bound.launch)
    except WmmadiagError:
        return
    if before.cut or after.cut:
        return
    if (place := rearranged(before, after, lines)) is not None:
        yield f"{place}: it fills shared memory from the same elements in another order: who reads them may be wrong"
    if (place := twice(after)) is not None:
        yield f"{place}: two warps or more still store each byte there, of which one would do"
    if space := repeats(before, after):
        yield f"with it the kernel reads nothing in {space} memory that it did not read before, only more often"
    if (found := strays(before, after, lines, extents)) is not None:
        yield f"{found[0]}: with it, this line goes on into {found[1]}"
