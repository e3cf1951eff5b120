"""Accesses whose elements are not those that the block's part of the output is made of.

A block that stores rows R of O[b, h] must read rows R of Q[b, h], and K and V of that head. What it really touches was
recorded; the fewest accesses that must be wrong for the rest to be of one mind are. How far apart they are from block
to block, and from row to row, says which stride is wrong and what it must be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import TypeAlias

import numpy as np

from wmmadiag.diagnose.addressing.footprints import Ints, Making, Site, Where, lines_of, sites, where
from wmmadiag.emulator import EmulatedKernel
from wmmadiag.place import Place
from wmmadiag.provenance.expected import ExpectedOutput, ExpectedProduct, expected_outputs
from wmmadiag.provenance.raw import ROW
from wmmadiag.provenance.tags import ArgumentMatrix, number_matrices
from wmmadiag.subject.binding import BoundCase

_ROWS, _COLUMNS = 0, 1
AXES = {"batch": -4, "head": -3, "row": -2, "column": -1}
"""Names of a tensor's axes, counted from its last one."""
_MOST_PAIRS = 400
_UNIFORM = 1.3
"""How much likelier a line is that computes with the block's index or an argument than one with the thread's alone."""

Lines: TypeAlias = "Sequence[tuple[str, int]]"


@dataclass(frozen=True, slots=True)
class Stride:
    """Two neighbours along an axis are touched `read` elements apart, and lie `lies` elements apart."""

    axis: str
    read: int
    lies: int


@dataclass(frozen=True, slots=True)
class Misread:
    """An access that touches what its block has no use for, or not what it needs.

    Attributes:
        role: of the tensor.
        store: whether it writes.
        place: the user's own line of the access.
        words: what it touches in the first such block, and what it must touch there.
        matrix: whether that is another matrix (head, batch, tensor), not other rows or columns of the right one.
        strides: of which it is known that they do not fit the tensor.
        lines: the user's (file, line)s that make its address, those that right accesses do not share first.
        certain: whether this access must be wrong; else one of those that are told together.
    """

    role: str
    store: bool
    place: Place
    words: str
    matrix: bool
    strides: tuple[Stride, ...] = ()
    lines: tuple[tuple[str, int], ...] = ()
    certain: bool = True


@dataclass(frozen=True)
class _Part:
    """What one site touches of one tensor, sorted by block."""

    site: Site
    role: str
    lead: Ints
    row: Ints
    column: Ints
    mine: Ints

    @cached_property
    def touched(self) -> Mapping[int, _Touched]:
        """By block."""
        found = {}
        blocks, starts = np.unique(self.site.block, return_index=True)
        for block, here in zip(blocks, np.split(np.arange(len(self.site.block)), starts[1:]), strict=True):
            known = here[self.mine[here] == 1]
            leads, rows, columns = (
                frozenset(map(int, np.unique(values[known]))) for values in (self.lead, self.row, self.column)
            )
            pairs = frozenset(zip(self.lead[known].tolist(), self.row[known].tolist(), strict=True))
            found[int(block)] = _Touched(
                leads, rows, columns, pairs, len(here) - len(known), np.sort(self.site.element[here]),
                len(known) != len(leads) * len(rows) * len(columns),
            )  # fmt: skip
        return found


@dataclass(frozen=True, slots=True)
class _Touched:
    """What a block touches of a tensor.

    Attributes:
        leads, rows, columns: that occur; pairs: (lead, row).
        foreign: elements of other tensors, or of none.
        elements: where all of them lie in the argument, ascending.
        ragged: whether they are not all of some rows and columns: rows that begin elsewhere than they are taken to.
    """

    leads: frozenset[int]
    rows: frozenset[int]
    columns: frozenset[int]
    pairs: frozenset[tuple[int, int]]
    foreign: int
    elements: Ints
    ragged: bool


@dataclass(frozen=True, slots=True)
class _Need:
    """What an output matrix needs of an input: which matrix, and along which of its axes the output's axis runs."""

    lead: int
    along: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class _Task:
    """What a block makes: leads of the output, and its rows and columns (None: not known)."""

    leads: frozenset[int]
    axes: tuple[frozenset[int], frozenset[int] | None]


def misread(case: BoundCase, kernel: EmulatedKernel) -> tuple[Misread, ...]:
    """The accesses of a launch that touch the wrong elements; empty where all fit, or where it cannot be told.

    Args:
        case: freshly bound; its arrays are changed as by any launch.

    Raises:
        TooManyError: the launch is too large to be looked at.
        KernelFault, BudgetError, UnsupportedError: as for a traced launch.
    """
    matrices = number_matrices(case)
    expected = expected_outputs(case, matrices)
    if len({one.role for one in expected}) != 1:
        return ()
    return _Judge(case, kernel, expected, matrices, tuple(_parts(sites(case, kernel)))).found()


def _parts(found: Sequence[Site]) -> Iterator[_Part]:
    tables: dict[int, Where] = {}
    for site in found:
        if site.argument.index not in tables:
            tables[site.argument.index] = where(site.argument)
        table = tables[site.argument.index]
        role = table.role[site.element]
        known = role >= 0
        if known.any():
            # Of a packed argument the first element tells which tensor is meant, even where strides are wrong.
            meant = int(role[known][np.argmin(site.element[known])])
            at = site.element
            mine = (role == meant).astype(np.int64)
            yield _Part(site, table.roles[meant], table.lead[at], table.row[at], table.column[at], mine)


class _Judge:
    def __init__(
        self,
        case: BoundCase,
        kernel: EmulatedKernel,
        expected: Sequence[ExpectedOutput],
        matrices: Sequence[ArgumentMatrix],
        parts: Sequence[_Part],
    ) -> None:
        self._case, self._kernel, self._expected = case, kernel, expected
        self._by_number = {matrix.number: matrix for matrix in matrices}
        self._shapes = {role: p.shape for a in case.arguments for role, p in a.placements.items()}
        self._out = expected[0].role
        self._needs = [dict(self._leaves(one.product, _ROWS, _COLUMNS)) for one in expected]
        self._stores = [part for part in parts if part.site.store and part.role == self._out]
        self._loads = [part for part in parts if not part.site.store and part.role in self._needs[0]]

    def _leaves(self, product: ExpectedProduct, row: int | None, column: int | None) -> Iterator[tuple[str, _Need]]:
        """What each operand of a product must be, where its rows and columns run along axes of the output."""
        sides = ((product.left, product.left_axis, row), (product.right, product.right_axis, column))
        for operand, axis, output in sides:
            if isinstance(operand, ExpectedProduct):
                yield from self._leaves(operand, output, None)
                continue
            matrix = self._by_number[operand]
            free = _COLUMNS if axis == ROW else _ROWS
            yield matrix.role, _Need(self._flat(matrix), None if output is None else (free, output))

    def _flat(self, matrix: ArgumentMatrix) -> int:
        lead = self._shapes[matrix.role][:-2]
        return int(np.ravel_multi_index(matrix.lead, lead)) if lead else 0

    def found(self) -> tuple[Misread, ...]:
        """The accesses that must be wrong."""
        if not self._stores or not self._loads:
            return ()
        by_store, by_load = self._tasks_of_stores(), self._tasks_of_loads()
        options = []
        if by_store is not None:
            options.append(([part for part in self._loads if self._unfit(part, by_store)], by_store))
        if by_load is not None:
            loads = [part for part in self._loads if self._unfit(part, by_load)]
            options.append(([*loads, *(part for part in self._stores if self._unfit(part, by_load))], by_load))
        if not options:  # tensors of which parts are left out are no matter of addresses, unless matrices are torn
            return self._nothing_fits() if any(self._torn(part) for part in self._loads) else ()
        # Loads say nothing about columns: where they find all well, stores may know more.
        wrong, tasks = min(options, key=lambda option: len(option[0]) or len(self._loads))
        if any(len(task.leads) > 1 for task in tasks.values()) and any(self._torn(part) for part in wrong):
            return self._nothing_fits()
        if not wrong and by_store is not None:
            return self._told(list(self._unread(by_store)))
        return self._told([(part, self._misread(part, tasks)) for part in wrong])

    def _torn(self, part: _Part) -> bool:
        """Whether blocks touch parts of several matrices of which they need all rows."""
        return any(
            len(one.leads) > 1 and not part.site.store and self._lacking(part, [one.pairs], one.leads)
            for one in part.touched.values()
        )

    def _nothing_fits(self) -> tuple[Misread, ...]:
        """Neither what blocks store nor what they read is a whole: what they have in common is wrong."""
        found = []
        for part in (*self._loads, *self._stores):
            strides = [*self._inside(part), *self._between(part)]
            verb = "stores" if part.site.store else "reads"
            words = f"the blocks' parts of {part.role.upper()} that this line {verb} are not the whole of it"
            found.append((part, Misread(part.role, part.site.store, part.site.place, words, True, tuple(strides))))
        return self._told(found)

    # What each block makes

    def _tasks_of_stores(self) -> Mapping[int, _Task] | None:
        """As stored; None where elements are missing or stored by several blocks."""
        seen = np.zeros(self._shapes[self._out], np.int64).reshape(len(self._expected), *self._shapes[self._out][-2:])
        tasks: dict[int, _Task] = {}
        once: set[tuple[int, int]] = set()
        size = seen.size
        atomic = any(part.site.atomic for part in self._stores)
        for part in self._stores:
            here = part.mine == 1
            linear = np.ravel_multi_index((part.lead[here], part.row[here], part.column[here]), seen.shape)
            both = np.unique(part.site.block[here] * size + linear)
            once.add((len(both), len(linear)))
            np.add.at(seen.reshape(-1), both % size, 1)
            for block, one in part.touched.items():
                tasks[block] = _joined(tasks.get(block), _Task(one.leads, (one.rows, one.columns)))
        several = not atomic and len(self._stores) == 1 and bool((seen > 1).any())
        return None if several or not seen.all() else tasks

    def _tasks_of_loads(self) -> Mapping[int, _Task] | None:
        """By what blocks read of the operand whose rows are the output's; None where that is not a whole."""
        guide = next((r for r, need in self._needs[0].items() if need.along == (_ROWS, _ROWS)), None)
        parts = [part for part in self._loads if part.role == guide]
        if guide is None or not parts:
            return None
        outputs: dict[int, list[int]] = {}
        for lead, needs in enumerate(self._needs):
            outputs.setdefault(needs[guide].lead, []).append(lead)
        if any(len(one) > 1 for one in outputs.values()):
            return None
        tasks: dict[int, _Task] = {}
        whole: dict[int, set[int]] = {}
        for part in parts:
            for block, one in part.touched.items():
                if one.foreign or not one.leads:
                    return None
                leads = frozenset(outputs[lead][0] for lead in one.leads)
                tasks[block] = _joined(tasks.get(block), _Task(leads, (one.rows, None)))
                for lead, row in one.pairs:
                    whole.setdefault(lead, set()).add(row)
        rows = self._shapes[guide][-2]
        complete = len(whole) == len(self._expected) and all(len(one) == rows for one in whole.values())
        return tasks if complete else None

    # What fits

    def _unfit(self, part: _Part, tasks: Mapping[int, _Task]) -> tuple[int, str, bool] | None:
        """The first block in which a part is not what the block needs, and in what way; None where all fit."""
        for block, one in part.touched.items():
            task = tasks.get(block)
            if task is None:
                continue
            wanted, _, free = self._wanted(part, task)
            tensor = part.role.upper()
            alike = [p.touched[block] for p in self._alike(part) if block in p.touched]
            if one.foreign:
                # Blocks that share a task may share its elements, too, as those of a split K do.
                peers = [p.touched[b] for p in self._alike(part) for b in p.touched if tasks.get(b) == task]
                if self._complete(part, wanted, dict(free), peers):
                    return None  # all that it needs, and more: a condition or a loop's end, no stride
                return block, f"elements outside {tensor}", True
            if not one.leads <= wanted or wanted - frozenset().union(*(other.leads for other in alike)):
                words = f"{self._named(part, one.leads)} where it needs {self._named(part, wanted)}"
                return block, words if self._told_apart(part) else f"{self._named(part, one.leads)}", True
            for axis, needed in free:
                seen = one.rows if axis == _ROWS else one.columns
                others = frozenset().union(*(other.rows if axis == _ROWS else other.columns for other in alike))
                if needed - others and (seen - needed or one.ragged):
                    what = "rows" if axis == _ROWS else "columns"
                    return block, f"{what} {_range(seen)} of {tensor} where it needs {_range(needed)}", False
            if len(wanted) > 1 and not part.site.store and self._lacking(part, [o.pairs for o in alike], wanted):
                return block, f"parts of {self._named(part, one.leads)}, and nothing whole", True
        return None

    def _complete(
        self, part: _Part, leads: frozenset[int], free: Mapping[int, frozenset[int]], alike: Sequence[_Touched]
    ) -> bool:
        """Whether every element of what a block needs is touched."""
        needed, _, _ = self._needed(part, leads, free)
        return bool(np.isin(needed, np.concatenate([other.elements for other in alike])).all())

    def _unread(self, tasks: Mapping[int, _Task]) -> Iterator[tuple[_Part, Misread]]:
        """The loads of a tensor of which blocks leave out what they need, and read other elements twice instead.

        That a part is left out alone is a matter of conditions and loops' ends.
        """
        if self._case.parameters.get("causal"):  # what is masked need not be read
            return
        for role in self._needs[0]:
            parts = [part for part in self._loads if part.role == role]
            often: Counter[int] = Counter()
            words = ""
            for block, task in tasks.items():
                left_out = self._left_out(parts, task, tasks)
                if left_out is not None:
                    again = {number: _again(part, parts, block) for number, part in enumerate(parts)}
                    if not any(again.values()):
                        return
                    often.update(again)
                    words = words or f"block {block} never reads {left_out} of {role.upper()}, and others twice"
            for number, count in often.most_common():
                part = parts[number]
                if not count:
                    break
                yield part, Misread(role, False, part.site.place, words, False, certain=False)

    def _left_out(self, parts: Sequence[_Part], task: _Task, tasks: Mapping[int, _Task]) -> str | None:
        """Rows and columns of what a block of a task needs and no block of the same task reads; None for none."""
        if not parts:
            return None
        leads, _, free = self._wanted(parts[0], task)
        peers = [part.touched[b] for part in parts for b in part.touched if tasks.get(b) == task]
        if not peers or len(leads) != 1:
            return None
        needed, rows, columns = self._needed(parts[0], leads, dict(free))
        missing = ~np.isin(needed[0], np.concatenate([one.elements for one in peers]))
        if not missing.any():
            return None
        at_rows, at_columns = (frozenset(np.flatnonzero(missing.any(axis=axis)).tolist()) for axis in (1, 0))
        return (
            f"rows {_range(frozenset(rows[at] for at in at_rows))}, "
            f"columns {_range(frozenset(columns[at] for at in at_columns))}"
        )

    def _needed(
        self, part: _Part, leads: frozenset[int], free: Mapping[int, frozenset[int]]
    ) -> tuple[Ints, list[int], list[int]]:
        """Where the elements lie that a block needs, by lead, row and column; which rows and columns these are."""
        placement = part.site.argument.placements[part.role]
        matrices = placement.view(np.arange(placement.end)).reshape(-1, *placement.shape[-2:])
        rows, columns = (sorted(free.get(axis, range(placement.shape[axis - 2]))) for axis in (_ROWS, _COLUMNS))
        return matrices[np.ix_(sorted(leads), rows, columns)], rows, columns

    def _told_apart(self, part: _Part) -> bool:
        """Whether it is certain which tensor an access means: not where a packed one has parts that nothing reads."""
        loaded = {one.role for one in self._loads}
        return part.site.store or all(role in loaded for role in part.site.argument.placements)

    def _alike(self, part: _Part) -> list[_Part]:
        """The parts that read, or store, the same tensor."""
        return [
            one for one in (*self._loads, *self._stores) if one.role == part.role and one.site.store == part.site.store
        ]

    def _lacking(self, part: _Part, pairs: Sequence[frozenset[tuple[int, int]]], leads: frozenset[int]) -> bool:
        """Whether a block that reads several matrices lacks rows of each, of a tensor of which all rows are needed."""
        along = self._needs[0][part.role].along
        if along is not None and along[0] == _ROWS:
            return False
        counts = Counter(lead for lead, _ in frozenset().union(*pairs))
        return all(counts[lead] < self._shapes[part.role][-2] for lead in leads)

    def _wanted(
        self, part: _Part, task: _Task
    ) -> tuple[frozenset[int], tuple[int, ...], list[tuple[int, frozenset[int]]]]:
        """Leads of a part's tensor, the first of them as indices, and what is needed along its free axes."""
        if part.site.store:
            leads = task.leads
            free = [(axis, needed) for axis, needed in enumerate(task.axes) if needed is not None]
        else:
            needs = [self._needs[lead][part.role] for lead in task.leads]
            leads = frozenset(need.lead for need in needs)
            along = needs[0].along
            needed = None if along is None else task.axes[along[1]]
            free = [] if along is None or needed is None else [(along[0], needed)]
        shape = self._shapes[part.role][:-2]
        first = tuple(map(int, np.unravel_index(min(leads), shape))) if shape else ()
        return leads, first, free

    def _named(self, part: _Part, leads: frozenset[int]) -> str:
        shape = self._shapes[part.role][:-2]
        if not shape:
            return part.role.upper()
        names = [",".join(map(str, np.unravel_index(lead, shape))) for lead in sorted(leads)[:3]]
        return " and ".join(f"{part.role.upper()}[{name}]" for name in names) + (", …" if len(leads) > 3 else "")

    def _misread(self, part: _Part, tasks: Mapping[int, _Task]) -> Misread:
        unfit = self._unfit(part, tasks)
        assert unfit is not None
        verb = "stores" if part.site.store else "reads"
        words = f"block {unfit[0]} {verb} {unfit[1]}"
        return Misread(part.role, part.site.store, part.site.place, words, unfit[2], tuple(self._strides(part, tasks)))

    # How far apart

    def _strides(self, part: _Part, tasks: Mapping[int, _Task]) -> Iterator[Stride]:
        placement = part.site.argument.placements[part.role]
        names = ("batch", "head")[-(len(placement.shape) - 2) :] if len(placement.shape) > 2 else ()
        axes = [*names, "row", "column"]
        points = []
        for block, one in part.touched.items():
            task = tasks.get(block)
            # Without the columns that are meant, only blocks that store whole rows can be held against each other.
            narrow = part.site.store and (one.ragged or len(one.columns) < placement.shape[-1])
            if task is not None and task.leads and not (narrow and task.axes[_COLUMNS] is None):
                _, lead, free = self._wanted(part, task)
                inner = [0, 0]
                for axis, needed in free:
                    inner[axis] = min(needed, default=0)
                points.append(((*lead, *inner), int(one.elements[0])))
        for axis, name in enumerate(axes):
            steps: Counter[int] = Counter()
            for (a, at), (b, there) in list(combinations(points, 2))[:_MOST_PAIRS]:
                apart = b[axis] - a[axis]
                if apart and all(x == y for n, (x, y) in enumerate(zip(a, b, strict=True)) if n != axis):
                    step, rest = divmod(there - at, apart)
                    steps[step if rest == 0 else 0] += 1
            step, times = steps.most_common(1)[0] if steps else (0, 0)
            if step > 0 and times == sum(steps.values()) and step != placement.strides[axis]:
                yield Stride(name, step, placement.strides[axis])
                if name == "row":
                    return
        yield from self._overlapping(part, tasks) or self._inside(part)

    def _overlapping(self, part: _Part, tasks: Mapping[int, _Task]) -> tuple[Stride, ...]:
        """The pitch of rows that run into each other: by where the first and the last of so many lie."""
        placement = part.site.argument.placements[part.role]
        found: Counter[int] = Counter()
        for block, one in part.touched.items():
            task = tasks.get(block)
            whole = one.ragged and not part.site.store  # of what is stored, a block may have some columns only
            free = dict(self._wanted(part, task)[2]) if task is not None and whole else {}
            count = len(free.get(_ROWS, ()))
            if count > 1 and placement.strides[-1] == 1:
                span = int(one.elements[-1] - one.elements[0]) + 1 - placement.shape[-1]
                found[span // (count - 1) if span % (count - 1) == 0 else 0] += 1
        pitch, times = found.most_common(1)[0] if found else (0, 0)
        if pitch <= 0 or 2 * times <= sum(found.values()) or pitch == placement.strides[-2]:
            return ()
        return (Stride("row", pitch, placement.strides[-2]),)

    def _between(self, part: _Part) -> Iterator[Stride]:
        """How far apart blocks touch that are neighbours along the later axes of the grid, where no axis is like it."""
        placement = part.site.argument.placements[part.role]
        if len(placement.strides) < 3:
            return
        across, down, deep = self._case.launch.grid
        later = [apart for apart, extent in ((across, down), (across * down, deep)) if extent > 1] or [1]
        bases = {block: int(one.elements[0]) for block, one in part.touched.items()}
        for apart in later:
            steps = Counter(bases[block + apart] - at for block, at in bases.items() if block + apart in bases)
            step, times = steps.most_common(1)[0] if steps else (0, 0)
            if step > 0 and 2 * times >= sum(steps.values()) and step not in placement.strides[:-2]:
                yield Stride("head", step, placement.strides[-3])
                return

    def _inside(self, part: _Part) -> Iterator[Stride]:
        placement = part.site.argument.placements[part.role]
        pitch = self._pitch(part)
        inner = placement.strides[-2:]
        if pitch and min(inner) == 1 and pitch != max(inner):
            yield Stride("row" if inner[1] == 1 else "column", pitch, max(inner))

    def _pitch(self, part: _Part) -> int:
        """How far apart rows (or columns) are touched inside a block; 0 where it cannot be told."""
        placement = part.site.argument.placements[part.role]
        width = placement.shape[-1] if placement.strides[-1] == 1 else placement.shape[-2]
        found: Counter[int] = Counter()
        for one in part.touched.values():
            at = one.elements
            starts = at[np.flatnonzero(np.diff(at, prepend=at[0] - 2) != 1)]
            if len(starts) > 2:
                gap, times = Counter(np.diff(starts).tolist()).most_common(1)[0]
                found[gap if 4 * times >= 3 * (len(starts) - 1) else 0] += 1
            elif len(at) % width == 0 and len(at) > width and not (one.ragged and part.site.store):
                pitch, rest = divmod(int(at[-1] - at[0]) + 1 - width, len(at) // width - 1)
                found[pitch if rest == 0 else 0] += 1
        pitch, times = found.most_common(1)[0] if found else (0, 0)
        return pitch if 2 * times > sum(found.values()) else 0

    # On which lines

    def _told(self, found: Sequence[tuple[_Part, Misread]]) -> tuple[Misread, ...]:
        """With the lines of each address: those that wrong accesses share, and right ones do not, come first."""
        wrong = [lines_of(self._kernel, part.site.pcs) for part, _ in found]
        pcs = {pc for part, _ in found for pc in part.site.pcs}
        right = [
            lines_of(self._kernel, part.site.pcs)
            for part in (*self._loads, *self._stores)
            if not pcs.intersection(part.site.pcs)
        ]
        told = []
        for (_, one), mine in zip(found, wrong, strict=True):

            def key(line: tuple[str, int], mine: Mapping[tuple[str, int], Making] = mine) -> tuple[float, int]:
                bad = sum(line in lines for lines in wrong)
                good = sum(line in lines for lines in right)
                ochiai = bad / (len(wrong) * (bad + good)) ** 0.5
                return -ochiai * (_UNIFORM if mine[line].uniform else 1.0), mine[line].steps

            told.append(replace(one, lines=tuple(sorted(mine, key=key))))
        return tuple(told)


def _again(part: _Part, parts: Sequence[_Part], block: int) -> int:
    """How many elements of a block an access reads that another one of the same tensor reads as well."""
    if block not in part.touched:
        return 0
    mine = part.touched[block].elements
    others = [one.touched[block].elements for one in parts if one is not part and block in one.touched]
    return int(np.isin(mine, np.concatenate(others)).sum()) if others else 0


def _joined(a: _Task | None, b: _Task) -> _Task:
    if a is None:
        return b
    columns = None if a.axes[1] is None or b.axes[1] is None else a.axes[1] | b.axes[1]
    return _Task(a.leads | b.leads, (a.axes[0] | b.axes[0], columns))


def _range(values: frozenset[int]) -> str:
    if not values:
        return "none"
    low, high = min(values), max(values)
    return f"{low} to {high}" if high > low else str(low)
