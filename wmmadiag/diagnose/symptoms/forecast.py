"""Which changes of a source would let its warps store every element of the output, and each one once.

A launch's work is dealt out by indices: a block that steps by four tiles where it has eight warps stores tiles twice
and leaves the last ones out. What each warp stores is computed from the source (`source.threads`), first as it stands:
only where that says what was seen in the run is it believed. Then with each change, for every case of the card.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from wmmadiag.diagnose.edits import Change, Edit, apply
from wmmadiag.diagnose.edits.registry import View, generators
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.source.evaluate import Unknown
from wmmadiag.diagnose.source.model import Number, SourceModel
from wmmadiag.diagnose.source.slices import Slicer
from wmmadiag.diagnose.source.threads import Shape, Threads
from wmmadiag.diagnose.symptoms.faulting import unwritten_share
from wmmadiag.subject.binding import BoundCase

Outlook: TypeAlias = Literal["mends", "same", "worse", "unknown"]
"""mends: every element is stored, once. same: nothing that is wrong about the stores changes. worse: less is stored."""

_THREADS = 300_000
"""Threads of a launch for which stores are forecast."""
_SECONDS = 2.0
"""Of this thread's own time: a busy machine does not change what is found."""
_FEW = 4
_TILE = 256
"""Elements of a square tile: where threads clear less of an array beyond what its tiles cover, it is padding."""
_DEEP = 4
_STEP = 0.02
"""What one dependence between a change and the store weighs against the change's own rank."""
_DEALING = frozenset({"indices", "index-terms", "conditions", "loops", "coverage", "dealing"})
"""Kinds of edits that may change who stores what."""


@dataclass(frozen=True, slots=True)
class Work:
    """How the elements of an array are dealt out, over all cases.

    Attributes:
        missing: elements of an output that no warp stores; of a shared array elements of its tiles, as a negative
            number: the more the better.
        twice: pairs of a warp and an element that another warp stores by the same statement as well.
        outside: elements outside the array.
    """

    missing: int
    twice: int
    outside: int


@dataclass(frozen=True, slots=True)
class _Launch:
    """A case as the forecast needs it; `wanted` are the elements of each output by the name of its pointer."""

    shape: Shape
    values: Mapping[str, Number]
    wanted: Mapping[str, np.ndarray]
    item: Mapping[str, int]


class Forecast:
    """What changes of one failing kernel's source would do to who stores what."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self.file = str(evidence.bench.source)
        self._model = evidence.source_model(self.file)
        self._launches: tuple[_Launch, ...] = ()
        self.target = ""
        self._now: Work | None = None
        self._tiles_only = False
        self._first = Work(0, 0, 0)
        self._read: set[tuple[int, int]] = set()
        self._text = self._model.text if self._model is not None else ""
        bound = evidence.run.bound
        if self._model is None or bound is None:
            return
        names = self._parameters()
        cases = [bound, *evidence.other_cases]
        self._launches = tuple(one for case in cases if (one := _launch(evidence, case, names)) is not None)
        if not self._launches or _launch(evidence, bound, names) is None:
            return
        self._choose()

    def _parameters(self) -> Sequence[str]:
        """Names of the kernel's parameters, in order."""
        model = self._model
        assert model is not None
        entry = self._evidence.entry.partition("<")[0].rpartition("::")[2]
        kernels = [one for one in model.functions if one.kernel]
        kernel = next((one for one in kernels if one.name == entry), kernels[0] if len(kernels) == 1 else None)
        return [one.name for one in kernel.parameters] if kernel is not None else []

    def _choose(self) -> None:
        """The array whose stores leave something out or overlap: the output, if that is what the run showed.

        Else a shared array; that of which threads clear more than its tiles' stores cover comes last.
        """
        model = self._model
        assert model is not None
        first = self._launches[0]
        for name in first.wanted:
            work = self._work(model, name, self._launches[:1])
            seen = sum(count for output, count, _ in unwritten_share(self._evidence) if output == name)
            if work is not None and (work.missing or work.twice) and work.missing == seen:
                self.target, self._first = name, work
                self._read.clear()
                self._now = self._work(model, name, self._launches)
                return
        for array in (v.name for v in model.arrays if v.shared and v.dims):
            self._read.clear()
            work = self._work(model, array, self._launches[:1])
            if work is not None and work.missing < 0 and (work.twice or self._hole(array)):
                self.target, self._first = array, work
                self._now = self._work(model, array, self._launches)
                return

        for array in dict.fromkeys(v.name for v in model.variables if (v.shared and v.dims) or v.pointer):
            self._read.clear()
            whole = self._work(model, array, self._launches[:1])
            self._tiles_only = True
            work = self._work(model, array, self._launches[:1])
            if whole is not None and work is not None and whole.missing + _TILE <= work.missing < 0:
                self.target, self._first = array, work
                self._now = self._work(model, array, self._launches)
                return
            self._tiles_only = False

    def _hole(self, array: str) -> bool:
        """Whether part of an array was read that nothing had written."""
        from wmmadiag.diagnose.symptoms.unwritten import unwritten_reads

        return any(one.array == array and one.by == "fragments" for one in unwritten_reads(self._evidence))

    @property
    def known(self) -> bool:
        """Whether something is wrong about who stores what, and the source says so, too."""
        return self._now is not None

    @property
    def lines(self) -> tuple[int, ...]:
        """The lines of the statements that store to the target."""
        model = self._model
        if model is None or not self.target:
            return ()
        return tuple(dict.fromkeys(model.statements[i].line for i in _storing(model, self.target)))

    def of(self, edit: Edit) -> Outlook:
        """What a change of the kernel's own file would do."""
        model, now = self._model, self._now
        if model is None or now is None:
            return "unknown"
        if not self._structural(edit) and not any(self._is_read(change.start, change.end) for change in edit.changes):
            return "same"
        if self._structural(edit):
            model = self._changed(edit)
        first = self._judged(model, edit, self._launches[:1], self._first) if model is not None else "unknown"
        return self._judged(model, edit, self._launches, now) if model is not None and first == "mends" else first

    def _structural(self, edit: Edit) -> bool:
        """Whether a change is of statements, not of an expression."""
        texts = [text for c in edit.changes for text in (c.text, self._text[c.start : c.end])]
        return any(re.search(r"[{};]|\b(?:for|if|return|while)\b", text) for text in texts)

    def _is_read(self, start: int, end: int) -> bool:
        """Whether what some statement stores depends on code between two offsets."""
        return any(low <= start and end <= high for low, high in self._read)

    def _judged(self, model: SourceModel, edit: Edit, launches: Sequence[_Launch], now: Work) -> Outlook:
        changed = None if self._structural(edit) else edit
        work = self._work(model, self.target, launches, changed)
        if work is None:
            return "unknown"
        if work == now:
            return "same"
        if work.outside > now.outside or work.twice > now.twice or work.missing > now.missing:
            return "worse"
        shared = now.missing < 0
        if shared:
            return "mends" if work.missing < now.missing and not work.twice else "unknown"
        return "mends" if not work.missing and not work.twice and not work.outside else "unknown"

    def _changed(self, edit: Edit) -> SourceModel | None:
        from wmmadiag.diagnose.source.read import read_source

        assert self._model is not None
        compilation = self._evidence.run.compilation
        macros = compilation.options.macros if compilation is not None else None
        return read_source(apply(self._model.text, edit), entry=self._evidence.entry, macros=macros)

    def _work(
        self, model: SourceModel, target: str, launches: Sequence[_Launch], edit: Edit | None = None
    ) -> Work | None:
        missing = twice = outside = 0
        statements = _storing(model, target)
        calls = {model.statement_at(c.start) for c in model.calls if c.name == "store_matrix_sync"}
        if self._tiles_only:
            statements = [one for one in statements if one in calls]
        if not statements:
            return None
        tiles_only = calls.issuperset(statements)
        variable = model.variable(target, model.statements[statements[0]].start)
        base = variable.name_at if variable is not None else -1
        for launch in launches:
            changes = edit.changes if edit is not None else ()
            try:
                threads = Threads(
                    model, launch.shape, launch.values, launch.item, changes,
                    tiles_only=tiles_only, one_block=target not in launch.wanted,
                )  # fmt: skip
                stores = [one for one in threads.stores(statements) if one.base == base]
            except (Unknown, ArithmeticError, ValueError, TypeError, IndexError):
                return None
            if edit is None and model is self._model:
                self._read |= threads.read
            if not stores:
                return None
            wanted = launch.wanted.get(target)
            touched = np.unique(np.concatenate([one.element for one in stores]))
            twice += sum(0 if one.atomic else len(one.element) - len(np.unique(one.element)) for one in stores)
            if wanted is None:
                missing -= len(touched)
                size = next((v.sizes for v in model.arrays if v.name == target and v.dims), ())
                extent = int(np.prod([one or 0 for one in size])) if size else 0
                outside += int(np.count_nonzero((touched < 0) | ((touched >= extent) & (extent > 0))))
            else:
                inside = (touched >= 0) & (touched < len(wanted))
                outside += int(np.count_nonzero(~inside))
                missing += int(np.count_nonzero(wanted)) - int(np.count_nonzero(wanted[touched[inside]]))
        return Work(missing, twice, outside)

    def mends(self) -> Iterator[tuple[str, Edit]]:
        """(file, edit) for changes on the lines that place the stores, that let every element be stored once."""
        model = self._model
        if model is None or not self.known:
            return
        started = time.thread_time()
        far = Slicer(model).distances(self.lines, _DEEP)
        read = {line for a, b in self._read for line in range(model.line_of(a), model.line_of(b) + 1)}
        near = {line: far.get(line, _DEEP) for line in read}
        offered: dict[tuple[Change, ...], tuple[float, Edit]] = {}
        for line, steps in near.items():
            view = View(model, frozenset((line,)), self._evidence.values)
            for one in generators():
                for edit in one.generate(view) if one.kind in _DEALING else ():
                    rank = edit.rank + _STEP * steps
                    if edit.changes not in offered or rank < offered[edit.changes][0]:
                        offered[edit.changes] = rank, edit
        # What changes statements is read anew, which takes long: the best few first.
        inorder = sorted(offered.values(), key=lambda item: item[0])
        slow = [item for item in inorder if self._structural(item[1])]
        quick = [item for item in inorder if not self._structural(item[1])]
        for _, edit in (*slow[:_FEW], *quick, *slow[_FEW:]):
            if time.thread_time() - started > _SECONDS:
                return
            if self.of(edit) == "mends":
                yield self.file, self._named(edit)

    def _named(self, edit: Edit) -> Edit:
        """A count of rows or warps with which the launch's blocks cover the output: it was the launch that did not."""
        counts = edit.kind == "coverage" and not self._structural(edit) and self.target in self._launches[0].wanted
        return replace(edit, hypothesis="launch-coverage") if counts else edit


def _launch(evidence: Evidence, case: BoundCase, names: Sequence[str]) -> _Launch | None:
    shape = Shape(case.launch.grid, case.launch.block)
    if int(np.prod(shape.grid)) * int(np.prod(shape.block)) > _THREADS:
        return None
    outputs = set(evidence.wrong)
    wanted: dict[str, np.ndarray] = {}
    item: dict[str, int] = {}
    position, before = -1, ""
    for argument in case.arguments:  # the fields of a struct stand in a row
        struct = argument.spec.struct
        position += not struct or struct != before
        before = struct
        if struct or argument.storage is None or position >= len(names):
            continue
        item[names[position]] = argument.storage.dtype.itemsize
        for role, placement in argument.placements.items():
            if role in outputs:
                mask = np.zeros(argument.storage.size, bool)
                mask[np.asarray(placement.view(np.arange(argument.storage.size))).reshape(-1)] = True
                wanted[names[position]] = mask
    return _Launch(shape, evidence.numbers(case), wanted, item)


def _storing(model: SourceModel, target: str) -> list[int]:
    """The statements that store to an array, or through a pointer made of it."""
    names = {target}
    grown = True
    while grown:
        grown = False
        for variable in model.variables:
            if variable.name in names or not variable.pointer or variable.initial is None:
                continue
            words = [token.text for token in model.tokens[variable.initial.first : variable.initial.last]]
            if names & set(words):
                names.add(variable.name)
                grown = True
    found: dict[int, None] = {}
    for call in model.calls:
        if call.name not in ("store_matrix_sync", "atomicAdd") or not call.arguments:
            continue
        if names & {token.text for token in model.tokens[call.arguments[0].first : call.arguments[0].last]}:
            found[model.statement_at(call.start)] = None
    for one in model.assignments:
        if "[" not in one.target.text and not one.target.text.startswith("*"):
            continue
        words = [token.text for token in model.tokens[one.target.first : one.target.last] if token.kind == "id"]
        base = next((word for word in words if word not in ("reinterpret_cast", "uint32_t", "half2", "__half2")), "")
        if base in names:
            found[one.statement] = None
    return list(found)
