"""The workbench of trials: one failing case of a kernel, on which changes of its source are tried by the hundred."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wmmadiag.diagnose.changes import Change, Texts, applied, together
from wmmadiag.diagnose.trials.compiled import Kernels, Program
from wmmadiag.diagnose.trials.complaints import complaints_left
from wmmadiag.diagnose.trials.expected import expected_of
from wmmadiag.diagnose.trials.haste import Plain, Unchanged
from wmmadiag.diagnose.trials.holes import UNMADE, Filled, Sketch, selector
from wmmadiag.diagnose.trials.launched import CaseLaunches
from wmmadiag.diagnose.trials.outcomes import STRAYS, LaunchChange, Outcome, faithful, outcome_of
from wmmadiag.diagnose.trials.parted import Ran, parted
from wmmadiag.diagnose.trials.parts import SMALL_APART, cost_apart, packed, parts, selected, spread
from wmmadiag.diagnose.trials.prepared import Prepared, prepare
from wmmadiag.diagnose.trials.programs import Programs
from wmmadiag.diagnose.trials.schemata import SELECTOR
from wmmadiag.diagnose.trials.setting import Setting
from wmmadiag.diagnose.trials.staged import FOR_ALL, staged
from wmmadiag.diagnose.trials.team import Part, processes, share, threads_each
from wmmadiag.emulator.trials import ElementRules, TrialLaunch, TrialLimits, TrialResult
from wmmadiag.errors import WmmadiagError
from wmmadiag.launch import Launch
from wmmadiag.subject.binding import BoundCase, bind
from wmmadiag.subject.card import Card, Case, Variant
from wmmadiag.subject.compiling import options_of
from wmmadiag.subject.symbols import rendered_entries, rendered_macros
from wmmadiag.subject.verdict import expectation

_SHARED = 48
"""Fewer changes are tried in this process alone."""
_AGAIN = 10
"""Of a kernel that did not end within its budget, a program is believed to do the same after so small a part of it."""
_SLOWER = 32
"""So many times the warp instructions may a program take that does the same in haste, with alternatives in it."""
_DEAR = 48_000
"""Warp instructions of a trial from which on a program of fewer is worth more of the compiler's time."""
_DEARER = 3
"""Times the warp instructions of another trial that one of a hole may take: what fills it is put together each time."""


class TrialBench:
    """One case of one variant, on which changes are tried. Changes are of `texts`.

    Args:
        setting: what runs, as what.
        threads: that run trials; 0: as many as this process may use. No answer depends on it.
        like: another bench of the same files: what only they decide is not made again.

    Raises:
        WmmadiagError: the kernel does not compile, cannot be emulated, or the case does not fit it.
    """

    def __init__(self, setting: Setting, threads: int = 0, like: TrialBench | None = None) -> None:
        self.setting, self.threads = setting, threads
        self.card, self.variant, self.case = setting.card, setting.variant, setting.case
        self._share = threads
        self._bound = self._bind(self.variant)
        entries = rendered_entries(self.card, self.case, self.variant)
        macros = rendered_macros(self.card, self.case, self.variant)
        options = options_of(self.card, setting.arch, entries, macros)
        self._made = self.variant.source or self.card.source, options, entries, setting.texts
        same = like is not None and like._made == self._made
        self._prepared: Prepared = like._prepared if like is not None and same else prepare(*self._made)
        self._stages = CaseLaunches(self.card, entries[0], self._bound.launch)
        values, judgements, _ = expectation(self._bound)
        self._expected = expected_of(self._bound, values, judgements)
        self._programs: Programs = Programs(self._prepared, like=like._programs if like is not None else None)
        self._deferred: set[Change] = set()
        self._looked: dict[int, TrialResult] = {}  # by how many blocks of it
        self._wrong: NDArray[np.uint8] = np.zeros(self._expected.value.size, np.uint8)
        self._passing = False  # whether accesses that belong nowhere pass, and are counted
        self._hasty = False  # whether local memory may be read and written at any address
        self._begin()

    def _begin(self) -> None:
        """Run the kernel as it is: what it gets wrong, and whether its program made in haste does the same."""
        own = self._programs.own()
        launch = self._launch(own.kernels)
        base = launch.base(self.setting.budget)
        dies_of = base.result.fault
        if dies_of in STRAYS:  # what comes after it tells more of a change than that there is still one
            self._passing = True
            launch = self._launch(own.kernels)
            base = launch.base(self.setting.budget)
        self.reference: TrialResult = base.result
        self._hasty = dies_of != "misaligned"
        if base.wrong.size:
            self._wrong = base.wrong
            self.reference = replace(base.result, mended=0, broken=0)
        self._unchanged = Unchanged(self._programs, Plain(own, base, launch), self._based)

    def _based(self, program: Program) -> Plain:
        launch = self._launch(program.kernels)
        return Plain(program, launch.base(self._base_budget), launch)

    def settle(self) -> None:
        """Find out how programs are compiled, if nothing was tried yet: that takes a compilation."""
        self._programs.spares = self._before(self._limits(1)).instructions > _DEAR

    @property
    def _base_budget(self) -> int:  # of a program that is not as well optimised
        given, own = self.setting.budget, self.reference
        return max(given, _SLOWER * own.instructions) if own.end == "finished" else given // _AGAIN

    @property
    def texts(self) -> Texts:
        """The files that changes are of: the source first, then the headers of the user's that it includes."""
        return self._prepared.sources

    @property
    def wrong_before(self) -> int | None:
        """Wrong elements of the kernel as it is; None where it does not end."""
        return self.reference.wrong if self.reference.end == "finished" else None

    @property
    def strays_before(self) -> int:
        """Accesses of the kernel as it is that belong nowhere, where it dies of one."""
        return self.reference.strays

    @property
    def compilations(self) -> int:
        """How many programs were compiled since the bench was made."""
        return self._programs.compilations

    def apply(self, *changes: Change) -> dict[str, bytes]:
        """The texts with changes made.

        Raises:
            ValueError: they overlap, or are of another file.
        """
        return applied(self.texts, changes)

    def files(self, *changes: Change) -> dict[Path, str]:
        """The files that changes change: resolved path → text, as `wmmadiag.subject.bench` takes them.

        Raises:
            ValueError: as `apply`.
        """
        made = self._changed(changes)
        return {Path(file).resolve(): text.decode("utf-8", "surrogateescape") for file, text in made.items()}

    def _changed(self, changes: Sequence[Change]) -> dict[str, bytes]:
        """The texts that are not the disk's, with changes made."""
        made = self.apply(*changes)
        return {**self.setting.texts, **{file: text for file, text in made.items() if text != self.texts[file]}}

    def read_as(self, card: Card) -> TrialBench:
        """A bench of the same source, judged by another reading of its card.

        Raises:
            WmmadiagError: as for a new one.
        """
        return TrialBench(replace(self.setting, card=card), self.threads, like=self)

    def keeping(self, *changes: Change, case: Case | None = None, seed: int | None = None) -> TrialBench:
        """A bench of the source with these changes made: what is tried there is of its `texts`.

        Args:
            case, seed: in place of the bench's own.

        Raises:
            WmmadiagError: as for a new one.
            ValueError: as `apply`.
        """
        old, texts = self.setting, self._changed(changes)
        made = replace(old, texts=texts, case=case or old.case, seed=old.seed if seed is None else seed)
        return TrialBench(made, self.threads, like=self)

    @property
    def cost_apart(self) -> float:
        """How much more a change costs that is compiled as a text of its own than one that shares a program."""
        return cost_apart(self.texts, len(self._prepared.own.ptx))

    @property
    def spread(self) -> int:
        """How many times as many changes as usual are worth a program."""
        return spread(len(self._prepared.own.ptx))

    def try_batch(self, changes: Sequence[Change], *, looks: int = 1, defers: bool = False) -> list[Outcome]:
        """Try changes, each alone.

        Args:
            defers: what turns out to need a text of its own is "deferred" where that is dear.
            looks: blocks with wrong elements that must be no better before a change is given up: with more, one of
                several faults is found. 0: nothing is given up, every element is counted.

        Returns:
            One outcome per change, in their order.
        """
        defers = defers and self.cost_apart > SMALL_APART
        found = self._tried(
            list(parts(changes, looks, times=self.spread, defers=defers, alone=self._deferred)), len(changes)
        )
        self._deferred |= {change for change, one in found.items() if one.verdict == "deferred"}
        return [found[change] for change in changes]

    def try_pairs(self, pairs: Sequence[tuple[Change, Change]]) -> list[Outcome]:
        """Try two changes at once: of all that is in one program any two are a trial.

        Args:
            pairs: of changes whose edits do not touch; those that share changes follow each other.

        Returns:
            An outcome per pair, of both as one, in their order.
        """
        found = self._tried(list(packed(pairs)), len(pairs))
        return [found[together(*pair)] for pair in pairs]

    def _tried(self, work: Sequence[Part], count: int) -> dict[Change, Outcome]:
        """What becomes of the changes of some parts of the work, here and in other processes."""
        shares = self._shares(alone=count < _SHARED)
        answers = share(self, work, self.threads) if shares else map(self.try_part, work)
        return {one.change: one for some in answers for one in some if isinstance(one.change, Change)}

    def _shares(self, *, alone: bool) -> bool:
        """Whether work is done in other processes as well, which know what this one does, and not here alone."""
        self.settle()
        alone = alone or processes(self.threads) == 1
        self._share = self.threads if alone else threads_each(self.threads)
        return not alone

    def try_part(self, part: Part) -> list[Outcome]:
        """Try changes in one program, or each as a text of its own: one outcome per change, in their order."""
        self.settle()
        limits = self._limits(part.looks)
        if part.pairs:
            return self._pairs([(part.changes[one], part.changes[other]) for one, other in part.pairs], part, limits)
        found: dict[Change, Outcome] = {}
        alone: Sequence[Change] = part.changes
        if not part.apart:
            together = parted(part.changes, lambda some, anyway: self._together(some, limits, anyway))
            found, alone = together.found, together.alone
            self._programs.misleading.update(together.misleading)
            if part.defers:
                found |= {one: Outcome(one, "deferred", self.wrong_before) for one in alone}
                alone = ()
        ran: list[tuple[Program | str, Outcome]] = []  # several changes may give the same program
        for change, made in self._programs.apart(alone):
            outcome = next((one for program, one in ran if program is made), None)
            if outcome is None:
                outcome = self._alone(change, made, limits)
                ran.append((made, outcome))
            found[change] = replace(outcome, change=change)
        return [found[change] for change in part.changes]

    def _pairs(self, pairs: Sequence[tuple[Change, Change]], part: Part, limits: TrialLimits) -> list[Outcome]:
        """Pairs of the changes of one program."""
        batch = self._programs.batch(part.changes, two=True)
        refused = dict(batch.refused)
        found: dict[Change, Outcome] = {}
        for program in batch.programs:
            if inside := selected(program.changes, part):
                found |= self._told(inside, *self._ran(program.kernels, list(inside), limits))
        for one, other in pairs:
            message = refused.get(one) or refused.get(other)
            found.setdefault(
                together(one, other), self._refused(together(one, other), message or "both are in no program together")
            )
        return list(found.values())

    def complaints_left(
        self, changes: Sequence[Change], pairs: Sequence[tuple[Change, Change]], checks: Sequence[str]
    ) -> dict[Change, float]:
        """What checks have left to complain of with changes, and with two at once; see `complaints.complaints_left`.

        Args:
            checks: the engine's names of them.
        """
        self.settle()
        some = [*parts(changes, 1), *packed(pairs)]
        plain, budget = self._unchanged.plain.program, self._base_budget
        return complaints_left(self._programs, self._stages.of, plain, some, checks, budget)

    def try_launches(self, changes: Sequence[LaunchChange]) -> list[Outcome]:
        """Try other launches of the same source; everything is counted. One that does not end either costs little.

        Of several kernels none is tried: their launches are the host function's.
        """
        if len(self._stages) > 1:
            return [self._refused(change, "several kernels are launched") for change in changes]
        limits = self._limits(0)
        if self.wrong_before is None:
            limits = replace(limits, budget=min(limits.budget, FOR_ALL))
        kernels = self._unchanged.plain.program.kernels
        ran: dict[object, TrialResult] = {}  # several may come to the same extents
        outcomes: list[Outcome] = []
        for change in changes:
            try:
                bound = self._bind(replace(self.variant, launch=change.shape))
                extents = bound.launch.grid, bound.launch.block, bound.launch.shared_bytes
                if extents not in ran:
                    ran[extents] = self._launch(kernels, bound.launch).run([0], limits, 1)[0]
                outcomes.append(outcome_of(change, ran[extents], self.reference, True, self.reference))
            except WmmadiagError as error:
                outcomes.append(self._refused(change, error.message))
        return outcomes

    def _bind(self, variant: Variant) -> BoundCase:
        return bind(self.card, self.case, variant, seed=self.setting.seed, inputs=self.setting.inputs)

    def _together(self, changes: Sequence[Change], limits: TrialLimits, anyway: bool) -> Ran:
        """Changes in as few programs as can be; in one that is not faithful they are tried only if `anyway`."""
        batch = self._programs.batch(changes)
        ran = Ran({change: self._refused(change, message) for change, message in batch.refused}, batch.singles)
        for program in batch.programs:
            before, results, true = self._ran(program.kernels, list(program.changes), limits, anyway)
            ran.faithful = ran.faithful and true
            if not ran.faithful and self._unchanged.doubted():  # all are compiled otherwise from now on
                return self._together(changes, limits, anyway)
            if not ran.faithful and not anyway:
                break
            ran.found |= self._told(program.changes, before, results, true)
        return ran

    def _told(
        self, changes: Mapping[int, Change], before: TrialResult, results: Sequence[TrialResult], true: bool
    ) -> dict[Change, Outcome]:
        told = (outcome_of(*one, self.reference, true, before) for one in zip(changes.values(), results, strict=True))
        return dict(zip(changes.values(), told, strict=True))

    def _ran(
        self, kernels: Kernels, selectors: Sequence[int], limits: TrialLimits, anyway: bool = True
    ) -> tuple[TrialResult, list[TrialResult], bool]:
        """A program without a change, with each of some selectors, and whether the first does what the kernel does.

        Args:
            anyway: also where it does not, as far as that is seen before the others run.
        """
        launch = self._launch(kernels)
        if self.reference.end != "finished":
            before, *results = staged(launch, [0, *selectors], limits, self._share)
            return before, results, faithful(before, self.reference)
        own = launch.base(self._base_budget).result
        true = faithful(own, self.reference)
        before, *results = launch.run([0, *selectors], limits, self._share) if true or anyway else [own]
        return before, results, true

    def try_sketches(self, sketches: Sequence[Sketch]) -> list[Filled]:
        """Try what may stand in the holes of some sketches; one answer for each, in their order."""
        shares = self._shares(alone=len(sketches) == 1)
        return share(self, sketches, self.threads) if shares else [*map(self.try_sketch, sketches)]

    def try_sketch(self, sketch: Sketch) -> Filled:
        """Try what may stand in the holes of one program."""
        self.settle()
        kernels, has = self._programs.with_holes(sketch.holes)
        wanted = sketch.wanted(has)
        if kernels is None or not wanted:
            return Filled(0, 0, [])
        selectors = [selector(*one) for one in wanted]
        limits = self._limits(1)
        limits = replace(limits, times=_DEARER * limits.times, budget=_DEARER * limits.budget)
        before, results, true = self._ran(kernels, selectors, limits)
        outcomes = (outcome_of(UNMADE, result, self.reference, true, before) for result in results)
        told = [(*one, outcome) for one, outcome in zip(wanted, outcomes, strict=True) if outcome.tells]
        return Filled(len(results), sum(one.instructions for one in results), told)

    def _alone(self, change: Change, made: Program | str, limits: TrialLimits) -> Outcome:
        if isinstance(made, str):
            return self._refused(change, made)
        try:
            launch = self._launch(made.kernels)
        except WmmadiagError as error:
            return self._refused(change, error.message)
        launch.adopt(self._unchanged.plain.launch)
        result = staged(launch, [0], limits, 1)[0] if self.wrong_before is None else launch.run([0], limits, 1)[0]
        return outcome_of(change, result, self.reference, True, self._before(limits))

    def _before(self, limits: TrialLimits) -> TrialResult:
        """The kernel as it is, looked at like a trial."""
        if self.reference.end != "finished":
            return self.reference
        if limits.looks not in self._looked:
            self._looked[limits.looks] = self._unchanged.plain.launch.run([0], limits, 1)[0]
        return self._looked[limits.looks]

    def _refused(self, change: Change | LaunchChange, message: str) -> Outcome:
        return Outcome(change, "refused", self.wrong_before, reason=message)

    def _limits(self, looks: int) -> TrialLimits:
        """Where a program's own base is not known, the plain program's work counts."""
        limits = TrialLimits(budget=self.setting.budget, looks=looks)
        base = self._unchanged.plain.base
        if base.result.end != "finished":
            return limits
        most = limits.times * base.result.instructions + limits.slack * len(base.instructions)
        return replace(limits, budget=most)

    def _launch(self, kernels: Kernels, launch: Launch | None = None) -> TrialLaunch:
        rules = ElementRules(self._expected.value, self._expected.bound, self._expected.accepted, self._wrong)
        return TrialLaunch(
            self._stages.of(kernels, launch), SELECTOR, self._expected.arrays, rules,
            strays_pass=self._passing, local_unaligned=self._hasty, addresses=self._stages.addresses,
        )  # fmt: skip
