"""What a fragment held against what it should: one load of the wrong kernel beside the same one of the mended kernel.

Where a tried change mends a fragment load, the two kernels run side by side; the first load on the named line whose
addresses differ is drawn, lane by lane (`wmmadiag.fragments`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wmmadiag import backends
from wmmadiag.checks.naming import element_name, thread_name, user_line
from wmmadiag.checks.registry import Context
from wmmadiag.emulator.observer import AccessKind, MemorySpace, lanes_of
from wmmadiag.errors import WmmadiagError
from wmmadiag.fragments.map import ELEMENT_BITS
from wmmadiag.fragments.wmma import wmma_map
from wmmadiag.ptx.meaning import meaning
from wmmadiag.results.diagnosis import Cause, Diagnosis
from wmmadiag.results.maps import FragmentCell, HeldFragment
from wmmadiag.results.text import edits, split_place
from wmmadiag.subject.bench import CaseRun, Workbench
from wmmadiag.subject.binding import BoundCase, bind
from wmmadiag.subject.card import Card
from wmmadiag.subject.compiling import SubjectCompiler, Texts

MAX_LOADS = 4096
"""Fragment loads of one run that are compared."""


class _Enough(Exception):
    """Ends a run of which enough was seen."""


@dataclass(frozen=True, slots=True)
class _Load:
    """One fragment load: who, which instruction, and the address of each line."""

    block: int
    warp: int
    pc: int
    space: str
    lines: NDArray[np.uint64]


class _Loads:
    """An observer that keeps the fragment loads of one source line."""

    def __init__(self, pcs: frozenset[int]) -> None:
        self.pcs = pcs
        self.seen: list[_Load] = []

    def on_memory(
        self, where: tuple[int, int, int], space: int, kind: int, active: int, _size: int, addresses: bytes
    ) -> None:
        if where[2] not in self.pcs or kind != AccessKind.LOAD:
            return
        name = MemorySpace(space).name.lower()
        self.seen.append(_Load(*where, name, np.frombuffer(addresses, "<u8")[lanes_of(active)]))
        if len(self.seen) >= MAX_LOADS:
            raise _Enough


def fragment_maps(
    card: Card, diagnosis: Diagnosis, *, seed: int | None = None, inputs: str = ""
) -> tuple[HeldFragment, ...]:
    """Maps for the causes whose change was tried and moves a fragment load; empty where there is none.

    Args:
        card: that was diagnosed; `seed`, `inputs`: in place of its own, as then.
    """
    if diagnosis.backend == "gpu" or not diagnosis.case:
        return ()
    bench = Workbench(
        card, card.variant(diagnosis.variant), diagnosis.arch, backends.backend("emulator"), (), SubjectCompiler(),
        seed=seed, inputs=inputs,
    )  # fmt: skip
    found = []
    for cause in diagnosis.causes:
        try:
            made = _of_cause(bench, cause, diagnosis.case)
        except WmmadiagError:  # a picture less; the diagnosis stands without it
            continue
        if made is not None:
            found.append(made)
    return tuple(found)


def _of_cause(bench: Workbench, cause: Cause, case_name: str) -> HeldFragment | None:
    line = split_place(cause.place).line
    if cause.fix is None or cause.fix.status != "verified" or not cause.fix.diff or not line:
        return None
    texts, moved = _mended(bench.source, cause.fix.diff, line)
    case = bench.card.case(case_name)
    runs = [(bench.run(case, None), line), (bench.run(case, texts), line + moved)]
    bound = [bind(bench.card, case, bench.variant, seed=bench.seed, inputs=bench.inputs) for _ in runs]
    seen = [_loads(run, one, at) for (run, at), one in zip(runs, bound, strict=True)]
    for wrong, right in zip(*(loads for loads, _ in seen), strict=False):
        if (wrong.block, wrong.warp) != (right.block, right.warp):
            return None
        if wrong.space != right.space or not np.array_equal(wrong.lines, right.lines) or _form(seen, wrong, right):
            return _drawn(bench.arch, cause.place, seen, wrong, right)
    return None


_Seen = tuple[list[_Load], Context]


def _form(seen: Sequence[_Seen], wrong: _Load, right: _Load) -> bool:
    """Whether the two loads read the same lines in another layout."""
    return _stated(seen[0][1], wrong) != _stated(seen[1][1], right)


def _stated(context: Context, load: _Load) -> tuple[str, str, str, str]:
    """(matrix, layout, shape, type) of a load."""
    does = meaning(context.kernel.nodes[load.pc].text).attributes
    return does["matrix"], does["layout"], does["shape"], does["type"]


def _mended(source: Path, diff: str, line: int) -> tuple[Texts, int]:
    """The source with the change, and by how many lines that moves a line."""
    text = source.read_text("utf-8", "surrogateescape").split("\n")
    moved = 0
    for edit in reversed(edits(diff, str(source))):
        text[edit.first - 1 : edit.first - 1 + len(edit.removed)] = edit.added
        if edit.first + len(edit.removed) <= line:
            moved += len(edit.added) - len(edit.removed)
    return {source.resolve(): "\n".join(text)}, moved


def _loads(run: CaseRun, bound: BoundCase, line: int) -> _Seen:
    """The fragment loads of one line, in the order of a run on one thread."""
    kernel = run.emulated
    if kernel is None:
        raise run.error or WmmadiagError(
            "the kernel did not compile", hint="mend that first; `wmmadiag check` shows the compiler's words"
        )
    context = Context(kernel.kernel, bound.launch, kernel.named_memory(bound.launch))
    wanted = frozenset(
        pc
        for pc, node in enumerate(kernel.kernel.nodes)
        if node.op == "wmma.load" and user_line(context, pc).line == line
    )
    observer = _Loads(wanted)
    try:
        if wanted:
            kernel.observed(bound.launch, observer)
    except (_Enough, WmmadiagError):
        pass
    return observer.seen, context


def _drawn(arch: str, place: str, seen: Sequence[_Seen], wrong: _Load, right: _Load) -> HeldFragment | None:
    sides = []
    for (_, context), load in zip(seen, (wrong, right), strict=True):
        matrix, layout, shape, kind = _stated(context, load)
        where = wmma_map(shape, matrix, kind, arch)
        width = ELEMENT_BITS[kind] // 8
        if width == 0 or len(load.lines) != where.shape[0 if layout == "row" else 1]:
            return None
        sides.append((context, load, layout, width, where, matrix))
    where = sides[1][4]
    if sides[0][4].shape != where.shape or sides[0][5] != sides[1][5]:
        return None
    cells = []
    for lane in range(where.row.shape[0]):
        for slot in range(where.used_registers * where.per_register):
            row, column = int(where.row[lane, slot]), int(where.col[lane, slot])
            held, wanted = (_name(*side[:4], row, column) for side in sides)
            cells.append(FragmentCell(row, column, lane, slot, held, wanted))
    context = sides[0][0]
    title = f"Fragment {sides[0][5]} of {thread_name(context, wrong.block, wrong.warp)}, the first load that differs"
    return HeldFragment(title, place, *where.shape, tuple(cells))


def _name(context: Context, load: _Load, layout: str, width: int, row: int, column: int) -> str:
    """The element that a load puts at a row and column of the tile, as the source indexes it."""
    line, along = (row, column) if layout == "row" else (column, row)
    return element_name(context, load.space, int(load.lines[line]) + along * width, width)
