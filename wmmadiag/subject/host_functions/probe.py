"""What host functions do with their arrays: how much of each they touch, and whether they write it, or add to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wmmadiag.subject.host_functions import library
from wmmadiag.subject.host_functions.reference import prepared, program_of, updates
from wmmadiag.subject.host_functions.text import CallArray

_UNITS = (2.0**-24, 2.0**-22)
_WORK = 1_500_000_000
"""Operations of numbers that each question to a call may cost, some ten seconds of a processor: what is judged must not
depend on how busy a machine is."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of some calls."""

    path: Path
    include_paths: tuple[Path, ...]
    macros: tuple[tuple[str, str], ...]
    statements: str
    numbers: Mapping[str, tuple[float, bool]]  # value, and whether it is a real one
    arrays: tuple[str, ...]  # of the kernel; `counts`: elements of those that host code makes room for
    counts: Mapping[str, int]
    outputs: frozenset[str]  # that the kernel may write, and the functions, too
    read: frozenset[str]  # that the kernel reads alone, and that the functions may write
    below: int  # what integers in arrays are less than


@dataclass(frozen=True, slots=True)
class Probed:
    """The answer, by the arrays' names."""

    counts: Mapping[str, int]  # elements that are touched, or that host code makes
    # of the outputs: those that are written; that need not be written wholly; that something is added to
    written: frozenset[str]
    partial: frozenset[str]
    updated: frozenset[str]
    given: tuple[str, ...]  # arrays that the kernel reads as the functions leave them
    inputs: str  # a distribution of the inputs of which they make numbers: "normal", or "positive" for a root


def probe(question: Question) -> Probed | None:
    """Run the calls; None where they do not end, or cannot be taken out of the source.

    Raises:
        CompileError: they do not compile by themselves.
    """
    path = question.path.resolve()
    program = program_of(path, question.include_paths, question.macros)
    kinds = {name: real for name, (_, real) in question.numbers.items()}
    call = prepared(program, question.statements, kinds, str(question.path))
    if call is None:
        return None
    values = [question.numbers[name][0] for name in call.numbers]
    counts = dict(question.counts)
    if missing := [one for one in question.arrays if one not in counts]:
        touched = library.extents(call.made, call.arrays, values, question.below, _WORK)
        if touched is None:
            return None
        every = dict(zip((one.name for one in call.arrays), touched, strict=True))
        counts |= {name: max(1, every.get(name, 1)) for name in missing}
    given = {one.name: _numbers(one, counts[one.name], "normal", question.below) for one in call.arrays
             if one.name in counts}  # fmt: skip
    fresh = {name: one for name, one in given.items() if name not in question.outputs}
    done = library.run(call.made, call.arrays, fresh, counts, values, _UNITS, work=_WORK)
    if done is None:
        return None
    written, partial, updated = set(), set(), set()
    for name in question.outputs & done[0].keys():
        left = done[0][name]
        if left.ndim == 1:  # integers: whether they were read nobody sees
            written.add(name)
            continue
        made = left[:, 2] != library.UNWRITTEN
        written |= {name} if made.any() else set()
        partial |= {name} if not (made & (left[:, 2] != library.UNSAID)).all() else set()
        updated |= {name} if updates(left) else set()
    changed = tuple(name for name in sorted(question.read & done[0].keys()) if _changed(done[0][name], given[name]))
    for inputs in ("normal", "positive"):
        given = {one.name: _numbers(one, counts[one.name], inputs, question.below) for one in call.arrays
                 if one.name in fresh or one.name in updated}  # fmt: skip
        given |= {name: np.zeros(counts[name]) for name in changed}
        done = library.run(call.made, call.arrays, given, counts, values, _UNITS, work=_WORK)
        if done is not None and not any(updates(done[0][name]) for name in written if done[0][name].ndim > 1):
            return Probed(counts, frozenset(written), frozenset(partial), frozenset(updated), changed, inputs)
    return None


def _changed(left: NDArray[np.float64], before: NDArray[np.generic]) -> bool:
    return left.ndim > 1 and not np.array_equal(left[:, 0], before.astype(np.float64))


def _numbers(one: CallArray, count: int, inputs: str, below: int) -> NDArray[np.generic]:
    if one.type:
        index = np.arange(count)
        return np.asarray((index * 7919 + index // 13) % below)
    random = np.random.default_rng(0)
    return random.standard_normal(count) if inputs == "normal" else random.uniform(0.25, 1, count)
