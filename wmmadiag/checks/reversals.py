"""Whether another legal order of a race changes the result: the launch again, the two accesses the other way round.

Where nothing orders an access with an earlier write, the model lets it take place before that write: a read then finds
what was there before, a write is overwritten (docs/memory-model.md). The launch is run so, with every such meeting of
the two instructions turned round (once for each warp that looks), and compared with the run as it was. Where the
earlier one is a read, it is given what the later write leaves, which counts if that write then leaves the same. Last,
the first of these with warps and blocks in the opposite order. All these runs are legal, so a result that differs is
one that no chip promises.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.checks.races import UNDEFINED
from wmmadiag.checks.validated import is_guess
from wmmadiag.emulator import EmulatedKernel
from wmmadiag.emulator.kernel import Budget
from wmmadiag.errors import BudgetError, WmmadiagError
from wmmadiag.launch import ArraysByIndex, Launch
from wmmadiag.processes.deadline import seconds_left

_ALONE = 12
"""So many races are tried one by one; what further ones change is shown for all of them together."""
_WRITES, _NOTE, _READS = range(3)
"""What a run turns round, as `Turn` in native/checks/races_reversed.hpp."""
_PATIENCE = 1 << 15
"""Warp instructions until a block that waits for a later one lets it start: every run here waits anew."""
_ARITHMETIC = re.compile(r"(?:add|sub|mul|fma|mad|div|red|atom)\b\S*\.f(32|64)")
_STORE = re.compile(r"(?:st|red|atom)\b\S*\.[bfsu](32|64)")
_USUAL = 1e-30, 1e30
_FLOATS: dict[str, np.dtype[Any]] = {"32": np.dtype(np.float32), "64": np.dtype(np.float64)}
_SLACK = 1_000_000
_ALLOWANCE = 200_000_000
"""Warp instructions of all runs about accesses that are worth a word only if their order matters: locks that many
contend for take long to watch, and are right."""
_TIMES = 4


def is_relaxed(finding: Finding) -> bool:
    """Whether a race is between two strong accesses: no data race, and worth a word only where the order matters."""
    return finding.check == "races" and finding.kind.endswith("relaxed")


def _is_stray(finding: Finding) -> bool:
    """Whether it is a shuffle's undefined value: worth a word only where a result depends on it."""
    return finding.check == "barriers" and finding.kind == "stray"


def _reads_a_guess(finding: Finding, kernel: EmulatedKernel) -> bool:
    """Whether one of the two reads what it offers to a compare-and-swap: worth a word only where a result changes."""
    return any(is_guess(kernel.kernel, pc) for pair in finding.pairs for pc in pair)


def _is_tried(finding: Finding) -> bool:
    raced = finding.check == "races" and finding.kind not in UNDEFINED
    return finding.level is Level.ERROR and (raced or _is_stray(finding))


def judged(
    found: Iterable[Finding], kernel: EmulatedKernel, launch: Launch, before: ArraysByIndex, instructions: int | None
) -> tuple[Finding, ...]:
    """The findings with races as errors only where another order was shown to change a result.

    Those that change none become warnings; of two strong accesses, and of the guess of a compare-and-swap, nothing.

    Args:
        found: of a launch that has just been made; its arrays hold the results, and hold them again afterwards.
        kernel: that was launched.
        before: what the writable arrays held before.
        instructions: warp instructions of that launch; None: it did not come to its end, and nothing is tried.

    Raises:
        BudgetError: the time is over.
    """
    findings = tuple(found)
    races = [one for one in findings if _is_tried(one)]
    if not races:
        return findings
    evidence: dict[int, str] = {}
    if instructions is not None:
        replays = _Replays(kernel, launch, before, _TIMES * instructions + _SLACK, all(map(is_relaxed, races)))
        try:
            evidence = replays.evidence(races)
        except _TooLong:  # of nothing that is worth a word without it
            evidence = {}
    untried = "the launch did not come to its end, so the other order was not tried"
    kept = []
    for one in findings:
        if not _is_tried(one):
            kept.append(one)
        elif id(one) in evidence:
            kept.append(replace(one, detail=(*one.detail, evidence[id(one)])))
        elif not (is_relaxed(one) or _is_stray(one) or _reads_a_guess(one, kernel)):
            why = untried if instructions is None else "the other order was tried and changes no result of this launch"
            kept.append(replace(one, level=Level.WARNING, detail=(*one.detail, why)))
    rank = list(Level)
    return tuple(sorted(kept, key=lambda one: rank.index(one.level)))


@dataclass(frozen=True, slots=True)
class _Ended:
    """What a run left."""

    arrays: ArraysByIndex  # those that may be written
    problem: str = ""  # why it did not come to its end, or ""
    noted: tuple[int, ...] = ()  # what a run with `_NOTE` noted for one with `_READS`
    legal: bool = True  # whether every read that was given a later write's value was given what that write then left


class _TooLong(Exception):
    pass


class _Replays:
    def __init__(
        self, kernel: EmulatedKernel, launch: Launch, before: ArraysByIndex, instructions: int, in_brief: bool
    ) -> None:
        self._kernel, self._launch, self._before, self._instructions = kernel, launch, before, instructions
        self._left: int | None = _ALLOWANCE if in_brief else None  # warp instructions of all runs
        self._final = launch.contents()
        self._plain: dict[bool, _Ended] = {}
        written = {view.argument for view in launch.views if view.written}
        self._numbers = _stored_numbers(kernel)
        self._outputs = [index for index in self._final if not written or index in written]

    def evidence(self, races: Sequence[Finding]) -> dict[int, str]:
        """By `id` of the finding, the words that show what the other order changes."""
        together = ""
        if len(races) > 1 and (all(map(is_relaxed, races)) or len(races) > _ALONE):
            together = self._shown(races)
            if not together and all(map(is_relaxed, races)):
                return {}
        found = {id(one): words for one in races[:_ALONE] if (words := self._shown([one]))}
        rest = races[_ALONE:] if found else races
        if together:
            found.update({id(one): f"together with the other races found: {together}" for one in rest})
        return found

    def _shown(self, races: Sequence[Finding]) -> str:
        strict = not all(map(is_relaxed, races))
        for backwards, turn in ((False, _WRITES), (False, _READS), (True, _WRITES)):
            if backwards not in self._plain:
                self._plain[backwards] = self._run((), backwards)
            # Who reads what a strong write leaves may have synchronised with it: no strong read is told of the future.
            meant = [one for one in races if turn == _WRITES or not (is_relaxed(one) or _is_stray(one))]
            if not meant:
                continue
            pairs = tuple(pc for one in meant for pair in one.pairs for pc in pair)
            plain, table = self._plain[backwards], (turn, len(pairs) // 2, *pairs)
            if turn == _READS:
                noted = self._run((_NOTE, *table[1:]), backwards)
                if noted.problem or not noted.noted:
                    continue
                table = (*table, *noted.noted)
            turned = self._run(table, backwards)
            words = self._difference(plain, turned, strict) if turned.legal else ""
            if words:
                order = ", warps and blocks in the opposite order" if backwards else ""
                if _is_stray(races[0]):
                    return f"shown by a run with another value there{order}: {words}"
                return f"shown by a run with the two the other way round{order}: {words}"
        return ""

    def _run(self, table: tuple[int, ...], backwards: bool) -> _Ended:
        options, launch = self._kernel.options, self._launch
        warps = -(-launch.block[0] * launch.block[1] * launch.block[2] // 32)
        order = options.warp_order or tuple(range(warps))
        changed = replace(
            options,
            warp_order=order[::-1] if backwards else options.warp_order,
            last_block_first=backwards != options.last_block_first,
            observer=None,
            checks=("reversed",) if table else (),
            check_table=table,
            budget=Budget(self._instructions if self._left is None else min(self._instructions, self._left), 0.0),
            patience=_PATIENCE,
        )
        problem = ""
        emulated = EmulatedKernel(self._kernel.kernel, changed)
        try:
            launch.restore(self._before)
            self._spend(emulated.launch(launch.unnoted()).warp_instructions)
        except BudgetError as error:
            seconds_left()  # where the time is over, that is no property of the order
            self._spend(self._instructions)
            problem = error.message
        except WmmadiagError as error:
            problem = error.message
        finally:
            left = launch.contents()
            launch.restore(self._final)
        turned = next((raw for raw in emulated.raw_findings if raw["check"] == "reversed"), None)
        if turned is None:
            return _Ended(left, problem)
        return _Ended(left, problem, tuple(turned["values"]), turned["kind"] != "untrue")

    def _spend(self, instructions: int) -> None:
        """A run took so many warp instructions.

        Raises:
            _TooLong: no more may be spent.
        """
        if self._left is not None:
            self._left -= instructions
            if self._left <= 0:
                raise _TooLong

    def _difference(self, plain: _Ended, turned: _Ended, strict: bool) -> str:
        if plain.problem:
            return ""
        if turned.problem:
            return f"it does not come to its end: {turned.problem}"
        for index in self._outputs:
            one, other = plain.arrays[index], turned.arrays[index]
            changed = _changed(one, other, strict, self._numbers)
            if changed.size:
                return _told(one, other, changed, self._launch.name(index))
        return ""


def _told(one: NDArray[Any], other: NDArray[Any], changed: NDArray[Any], name: str) -> str:
    """How much of an array is `other` than in one run, and its first such element, by their flat indices."""
    at = np.unravel_index(int(changed[0]), one.shape)
    unit, first = "elements", f"{name}[{','.join(str(int(i)) for i in at)}]"
    if one.dtype == np.uint8:  # memory of whole programs is bytes, whatever they are of
        unit, first = "bytes", f"byte {int(changed[0])}"
    return f"{changed.size} of {one.size} {unit} of {name} change, {first} is {other[at]} instead of {one[at]}"


def _stored_numbers(kernel: EmulatedKernel) -> tuple[np.dtype[Any], ...]:
    """The floating-point types that a kernel computes in, of whose width it stores something."""
    texts = [node.text for node in kernel.kernel.nodes]
    widths = [{found[1] for text in texts if (found := kind.match(text))} for kind in (_ARITHMETIC, _STORE)]
    both = sorted(widths[0] & widths[1])
    return tuple(_FLOATS[width] for width in both)


def _changed(
    one: NDArray[np.generic], other: NDArray[np.generic], strict: bool, numbers: Sequence[np.dtype[Any]] = ()
) -> NDArray[np.intp]:
    """Flat indices of the elements that differ: in a bit, or (not `strict`) by more than sums in another order.

    Kernels that add up in the order in which strong accesses happen to meet are not wrong for the rounding of it. Of
    floating-point arrays, differences below the square root of the format's epsilon, of the largest magnitude, are
    taken for that: half of the digits, more than the rounding of a sum of as many terms as that root's inverse.
    Of memory without a type, what is so near to itself as one of `numbers`.
    """
    bits = (np.ascontiguousarray(a).reshape(-1).view(np.uint8).reshape(a.size, -1) for a in (one, other))
    differ = np.any(np.not_equal(*bits), axis=1) if one.size else np.zeros(0, bool)
    if not strict and one.size and np.issubdtype(one.dtype, np.floating):
        a, b = (np.asarray(x, np.float64).reshape(-1) for x in (one, other))
        with np.errstate(invalid="ignore", over="ignore"):
            largest = np.nanmax(np.abs(np.where(np.isfinite(a), a, 0)), initial=0.0)
            small = np.abs(a - b) <= np.sqrt(np.finfo(one.dtype.name).eps) * largest
        differ &= ~small
    elif not strict and one.dtype == np.uint8 and differ.any():
        for kind in numbers:
            words = one.size // kind.itemsize * kind.itemsize
            a, b = (np.ascontiguousarray(x).reshape(-1)[:words].view(kind) for x in (one, other))
            with np.errstate(all="ignore"):
                largest = np.maximum(np.abs(a), np.abs(b))
                usual = (largest > _USUAL[0]) & (largest < _USUAL[1])  # else they are rather integers, or addresses
                near = usual & (np.abs(a - b) <= np.sqrt(np.finfo(kind).eps) * largest)
            differ[:words] &= ~np.repeat(near, kind.itemsize)
    return np.flatnonzero(differ)
