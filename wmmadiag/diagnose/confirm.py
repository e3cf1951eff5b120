"""What is right on one case, held to every case: all checks, other values, and inputs hard for the operation."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from wmmadiag.csource.nodes import LOOPS, ancestors, at, called, descendants
from wmmadiag.csource.tree import Source, parse
from wmmadiag.diagnose.changes import Change, applied, by_path
from wmmadiag.diagnose.changes import Texts as Bytes
from wmmadiag.diagnose.evidence import clean
from wmmadiag.diagnose.excerpts import statement_lines
from wmmadiag.diagnose.frailty import frailty, passes, wrong_size
from wmmadiag.diagnose.hard import runs_on_hard_inputs
from wmmadiag.diagnose.intrusion import Touch, altered, touches
from wmmadiag.diagnose.meeting import function_at, homes, lambda_at
from wmmadiag.diagnose.names import puts_in_order
from wmmadiag.diagnose.ranking import after_trial
from wmmadiag.diagnose.search import Tried
from wmmadiag.diagnose.sizes import further_sizes
from wmmadiag.diagnose.waste import wasted
from wmmadiag.diagnose.watched import fresh
from wmmadiag.ops.registry import OPERATIONS
from wmmadiag.subject.bench import CaseRun, Workbench
from wmmadiag.subject.card import Case, LaunchShape
from wmmadiag.subject.compiling import Texts

_RIVALS = 4
"""Changes of different places that are told apart by further sizes."""
_INTRUSIVE, _MUCH = 3.0, 0.1
"""A change that alters so many times what another one alters, and this share of all, is the weaker answer."""
_ANYWHERE = "", 0, 0
"""The place of a barrier that is put in."""
_ROUNDS = 16
_DEEP = 4
"""Calls that are followed outwards from a place."""
_ALIKE = 3
"""Changes of one place that are run on every case, until one of them is right in all."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A change, and every case as it ran with it."""

    tried: Tried
    texts: Texts
    runs: tuple[CaseRun, ...]  # with it; those on other inputs than the card's follow
    score: float  # of its rank, with what the trial showed
    alike: tuple[Tried, ...] = ()  # further changes of the same place that make the failing case right
    further: int = 0  # sizes that nobody asked for on which it is right as well, where that tells it from others
    # share of the failing case's accesses that are no longer made, where that may tell it from others
    altered: float = 0.0
    intrusive: bool = False  # another one mends as much, and alters far less
    shape: LaunchShape | None = None  # of a changed launch; None for the card's
    frail: str = ""  # why it may only hide what is wrong, see `frailty`; "" for no reason
    unfit: str = ""  # a size mixed of the cases' own that is wrong with it; "" for none
    unmade: bool = False  # whether that size is of a program that no case is compiled as: it may be no kernel at all
    waste: tuple[str, ...] = ()  # what it does for nothing, where that was asked, see `waste`

    @property
    def right(self) -> bool:
        """Every run passes."""
        return bool(self.runs) and all(run.passed for run in self.runs)

    @property
    def firm(self) -> bool:
        """It is right, and nothing says that it only hides what is wrong: the search may end."""
        return self.right and not self.weak

    @property
    def weak(self) -> bool:
        """Right or not, what is neither frail nor unfit goes before it."""
        return bool(self.frail or (self.unfit and not self.unmade))

    @property
    def lanes_meet(self) -> bool:
        """Whether it puts accesses in order, and lanes of a warp meet in memory all the same: another place of what it
        puts in may leave none."""
        return puts_in_order(self.tried.ranked.change) and not all(map(clean, self.runs))

    @property
    def line(self) -> tuple[str, int]:
        """Of its first edit."""
        return self.tried.ranked.line


def confirmed(
    bench: Workbench,
    cases: Sequence[Case],
    baseline: Mapping[str, CaseRun],
    right: Sequence[Tried],
    texts: Bytes,
    most: int,
    launches: Sequence[tuple[Tried, LaunchShape]] = (),
) -> list[Confirmed]:
    """Run the likeliest change of each place on every case; what is right in all comes first, the likeliest first, and
    what is not in the order given.

    Args:
        bench: runs the source with other texts, with all checks.
        cases: to run, the failing one among them.
        baseline: the cases as the source stands.
        right: changes that make the failing case right, the best first.
        texts: what the changes are of.
        most: changes to run.
        launches: that make the failing case right.
    """
    sources = {file: parse(text, file) for file, text in texts.items()}
    places: dict[tuple[str, int, int], list[Tried]] = {}
    for one in right:
        places.setdefault(_place(one, sources), []).append(one)
    found: list[Confirmed] = []
    met = homes(baseline[cases[0].name].findings)
    for place, group in places.items():
        if place == _ANYWHERE:
            # The fewest waits; of these, where both accesses are made or called for, and the likeliest.
            group.sort(key=lambda one: (_times(one, sources), _function(one, sources) not in met))
        for one in group[: most if place == _ANYWHERE else _ALIKE]:
            if len(found) >= most:
                break
            changed = by_path(applied(texts, [one.ranked.change]))
            runs = tuple(_runs(bench, cases, baseline, changed))
            score = after_trial(one.ranked, one.outcome, _work_before(baseline))
            others = [other for other in group if other is not one]
            if place == _ANYWHERE:  # a loop's beginning and its end are as good: the other end comes first
                others.sort(key=lambda other: _apart(one, other, sources))
            held = Confirmed(one, changed, runs, score, tuple(others))
            if held.right:
                why = frailty(bench, cases, baseline[cases[0].name], runs[0], changed)
                unfit, unmade = wrong_size(bench, cases, changed)
                held = replace(held, frail=why, unfit=unfit, unmade=unmade)
            found.append(held)
            if held.right and not held.lanes_meet:
                break
    for number, (one, shape) in enumerate(launches[:_ALIKE]):
        runs = tuple(_runs(bench.launched(shape), cases, baseline, {}))
        score = after_trial(one.ranked, one.outcome, _work_before(baseline))
        alike = tuple(other for other, _ in launches[number + 1 :])
        found.append(Confirmed(one, {}, runs, score, alike, shape=shape))
        if found[-1].right:
            break
    found = _weighed(baseline[cases[0].name], _told_apart(bench, cases, found))
    given = {one.ranked.change: number for number, one in enumerate(right)}
    found.sort(key=lambda one: (not one.right, *(_merits(one) if one.right else _given(one, given))))
    return _frugal_first(baseline[cases[0].name], found) if found else []


def _merits(one: Confirmed) -> tuple[bool, bool, int, bool, float]:
    return one.weak, one.lanes_meet, -one.further, one.intrusive, -one.score


def _frugal_first(broken: CaseRun, found: Sequence[Confirmed]) -> list[Confirmed]:
    """The best one with what it does for nothing; where that is something, its equals with the same, and these without
    such a thing before it."""
    best = found[0]
    if not best.right or best.shape is not None:
        return list(found)
    told = replace(best, waste=tuple(wasted(broken, _own(best))))
    if not told.waste:
        return [told, *found[1:]]
    equal = [one for one in found[1:] if one.right and one.shape is None and _merits(one)[:-1] == _merits(best)[:-1]]
    others = {id(one): replace(one, waste=tuple(wasted(broken, _own(one)))) for one in equal[: _RIVALS - 1]}
    first = [one for one in others.values() if not one.waste]
    rest = [others.get(id(one), one) for one in found[1:] if others.get(id(one), told).waste]
    return [*first, told, *rest]


def _own(one: Confirmed) -> list[CaseRun]:
    """The cases as they are, without those on other values and inputs."""
    seen: dict[str, CaseRun] = {}
    for run in one.runs:
        seen.setdefault(run.result.case, run)
    return list(seen.values())


def _given(one: Confirmed, order: Mapping[Change, int]) -> tuple[int, float]:
    """Of what is not right everywhere: what leaves the least wrong stands first already; see `screening`."""
    return order.get(one.tried.ranked.change, len(order)), -one.score


def _told_apart(bench: Workbench, cases: Sequence[Case], found: Sequence[Confirmed]) -> list[Confirmed]:
    """Where changes of several places are right in every case: on how many further sizes each is right."""
    right = [one for one in found if one.right]
    rivals = right[:_RIVALS]
    if len({one.line for one in rivals}) < 2:
        return list(found)
    counts = {id(one): 0 for one in rivals}
    for case in further_sizes(cases, cases[0]):
        passed = [one for one in rivals if passes(_used(bench, one), one.texts, case)]
        if 0 < len(passed) < len(rivals):
            for one in passed:
                counts[id(one)] += 1
    return [replace(one, further=counts.get(id(one), 0)) for one in found]


def _used(bench: Workbench, one: Confirmed) -> Workbench:
    return bench if one.shape is None else bench.launched(one.shape)


def _weighed(broken: CaseRun, found: Sequence[Confirmed]) -> list[Confirmed]:
    """Where changes of several places are right in every case: how much of what the kernel does each alters.

    A kernel and its launch are two ends of one agreement: neither is held against the other.
    """
    rivals = [one for one in found if one.right and one.shape is None][:_RIVALS]
    if len({one.line for one in rivals}) < 2:
        return list(found)
    before = touched(broken)
    shares = {id(one): share_altered(before, one.runs[0]) for one in rivals}
    least = min(shares.values())
    return [
        replace(one, altered=share, intrusive=share >= _MUCH and share > _INTRUSIVE * least)
        if (share := shares.get(id(one))) is not None
        else one
        for one in found
    ]


def share_altered(before: Counter[Touch] | None, mended: CaseRun) -> float:
    """Share of a run's memory accesses that another one does not make; 0 where they cannot be seen."""
    after = touched(mended)
    return altered(before, after) if before is not None and after is not None else 0.0


def touched(run: CaseRun) -> Counter[Touch] | None:
    """What the kernel of a run touches; None where that cannot be seen."""
    kernel = run.emulated
    old = run.bound
    if kernel is None or old is None:
        return None
    return touches(fresh(old), kernel)


def _work_before(baseline: Mapping[str, CaseRun]) -> int:
    """Warp instructions of the failing case as the source stands; 0 where it did not end."""
    works = [run.result.warp_instructions for run in baseline.values() if not run.passed and run.verdict is not None]
    return works[0] if works else 0


def _place(one: Tried, sources: Mapping[str, Source]) -> tuple[str, int, int]:
    """What a change is about: the statement that it begins in; two of one statement are readings of one mistake.

    So are barriers that are put in: each stands somewhere between the two accesses that nothing orders.
    """
    if puts_in_order(one.ranked.change):
        return _ANYWHERE
    edit = one.ranked.change.edits[0]
    return (edit.file, *statement_lines(sources[edit.file], edit.start))


def _times(one: Tried, sources: Mapping[str, Source]) -> int:
    """How often what is put in at the place of a change is done, where each loop has `_ROUNDS` rounds."""
    edit = one.ranked.change.edits[0]
    return _done(sources, edit.file, edit.start, _DEEP)


def _function(one: Tried, sources: Mapping[str, Source]) -> str:
    edit = one.ranked.change.edits[0]
    return function_at(sources, edit.file, edit.start)


def _done(sources: Mapping[str, Source], file: str, start: int, deep: int) -> int:
    """How often a place is come to: by the loops around it, and by each call of the function that it is in.

    Args:
        deep: calls that are followed.
    """
    node = at(sources[file].root, start)
    around = (node, *ancestors(node))
    held = lambda_at(sources[file], start)
    within = held.start_byte if held is not None else 0
    loops = sum(loop.type in LOOPS and within <= loop.start_byte < start < loop.end_byte for loop in around)
    own: int = _ROUNDS**loops
    name = function_at(sources, file, start)
    if not name or not deep:
        return own
    calls = [
        _done(sources, other, call.start_byte, deep - 1)
        for other, source in sources.items()
        for call in descendants(source.root, "call_expression")
        if called(call) == name
    ]
    return own * max(1, sum(calls))


def _apart(one: Tried, other: Tried, sources: Mapping[str, Source]) -> tuple[bool, int]:
    """What two places have in common, the least far first: how often each is come to; then the farthest in the text."""
    (file, line), (other_file, other_line) = one.ranked.line, other.ranked.line
    same = file == other_file and _times(one, sources) == _times(other, sources)
    return not same, -abs(line - other_line)


def _runs(bench: Workbench, cases: Sequence[Case], baseline: Mapping[str, CaseRun], texts: Texts) -> Iterator[CaseRun]:
    """Every case until one fails; then the smallest with other values, and the largest on hard inputs."""
    for case in cases:
        run = bench.run(case, texts)
        yield run
        if not run.passed:
            return
    first = baseline.get(cases[0].name)
    seed = first.result.seed if first is not None and first.result.seed is not None else 0
    run = bench.run(cases[0], texts, seed=seed + 1)
    yield run
    if not run.passed:
        return
    for name, run in runs_on_hard_inputs(bench, cases[-1], texts):
        # What overflows as it stands on these inputs is nothing that a change must mend; nor is what a tolerance of the
        # card's own, which is said of its own inputs, does not allow; and what cannot be judged refutes nothing.
        if run.passed or (decided(run) and not tolerated(bench, cases[-1]) and _judged(bench, cases[-1], run, name)):
            yield run


def decided(run: CaseRun) -> bool:
    """Whether it is known to be right or wrong: not where rounding alone may explain any value."""
    return run.result.problem is None or run.result.problem.kind != "undecided"


def _judged(bench: Workbench, case: Case, run: CaseRun, inputs: str) -> bool:
    """Whether numbers came out, of a change's run or of the source as it stands.

    Of a function of the user's own only the former counts: nobody said that its kernel has to bear these inputs.
    """
    if math.isfinite(run.max_difference):
        return True
    return not OPERATIONS[bench.card.computes.operation].of_user and overflows_now(bench, case, run, inputs)


def overflows_now(bench: Workbench, case: Case, run: CaseRun, inputs: str) -> bool:
    """Whether a change's run makes no numbers of some inputs, of which the source as it stands makes some."""
    finite = math.isfinite(run.max_difference)
    return not finite and math.isfinite(bench.run(case, inputs=inputs).max_difference)


def tolerated(bench: Workbench, case: Case) -> bool:
    """Whether somebody said how far off a result may be: the bound is then not derived from the inputs."""
    return (case.tolerance or bench.card.tolerance) is not None
