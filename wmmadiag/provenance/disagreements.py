"""From what the engine recorded to disagreements on the user's lines, with what it would take to agree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from wmmadiag.ops.model import ROW
from wmmadiag.ops.stages.model import ExpectedOutput, ExpectedProduct
from wmmadiag.provenance.model import Disagreement, Reach
from wmmadiag.provenance.naming import Names
from wmmadiag.provenance.outputs import ElementMask, JudgedOutput, Products
from wmmadiag.provenance.raw import DerivedProduct, EventKind, RecordKind, TaggedRun, TagRecord
from wmmadiag.provenance.tags import DecodedTag

_AXES = ("row", "column")

_LOST: Mapping[EventKind, str] = {
    EventKind.OVERWRITTEN: "overwrites partial sums of {} with sums that lack them",
    EventKind.RESTARTED: "starts a sum of {} again from zero and drops what had been added",
}
"""What an event by which sums are lost does to which product."""


class Classifier:
    """Turns records and judged outputs into disagreements."""

    def __init__(self, names: Names, raw: TaggedRun, expected: Sequence[ExpectedOutput], products: Products) -> None:
        self._names, self._raw, self._products = names, raw, products
        self._pairs: dict[tuple[str, str], tuple[int, int]] = {}
        self._expected: list[ExpectedProduct] = []
        for output in expected:
            self._expected.append(output.product)
            if isinstance(output.product.left, ExpectedProduct):
                self._expected.append(output.product.left)
        self._strides = {event.pc: event for event in raw.events if event.kind is EventKind.STRIDE}

    def disagreements(self, outputs: Iterable[JudgedOutput]) -> tuple[Disagreement, ...]:
        """All that reach an output, merged by kind, line and operand; the widest reach first."""
        merged: dict[tuple[object, ...], Disagreement] = {}
        for output in outputs:
            for one in self._of_output(output):
                key = (one.kind, one.place)
                seen = merged.get(key)
                merged[key] = one if seen is None else _merge(seen, one)
        return tuple(sorted(merged.values(), key=lambda d: -sum(r.elements for r in d.reach)))

    def of_unknown(self, wrong: Mapping[str, ElementMask]) -> tuple[Disagreement, ...]:
        """What may be behind wrong elements whose tags say nothing: sums and products that the operation does not have.

        Args:
            wrong: those elements, by output.
        """
        reach = tuple(Reach.of_mask(role, mask) for role, mask in wrong.items())
        if not reach:
            return ()
        merged: dict[tuple[object, ...], Disagreement] = {}
        for event in self._raw.events:
            if event.kind is EventKind.FOREIGN_SUM:
                words = f"adds {self._names.matrix(event.matrix)} to an accumulator that holds "
                words += self._names.element(event.first)
                one = Disagreement(
                    "accumulator", self._names.line(event.pc), words, "C", None, (), event.count, event.block,
                    event.warp, reach, "zero the accumulator before this product",
                )  # fmt: skip
                merged.setdefault((one.kind, one.place), one)
        if not merged:
            for use in self._raw.uses:
                made = self._raw.derived[use.product]
                arguments = made.left in self._names.arguments and made.right in self._names.arguments
                if arguments and not self._products.expected(use.product):
                    for one in self._foreign(use.product, reach[0]):
                        one = replace(one, reach=reach)
                        merged.setdefault((one.kind, one.place), one)
        return tuple(merged.values())

    def _of_output(self, output: JudgedOutput) -> Iterator[Disagreement]:
        for number, where in output.by_record.items():
            record = self._raw.records[number]
            yield replace(self._record(record), reach=(output.reach(where),), guessed=self._meets(record))
        for base, where in output.foreign.items():
            yield from self._foreign(base, output.reach(where))
        for base, where in output.incomplete.items():
            yield from self._incomplete(base, output, where)
        for base, where in output.repeated.items():
            yield from self._at_uses(
                base, "repeated", output.reach(where), "adds products of the same index more than once"
            )
        for base, where in output.misplaced.items():
            index = output.reach(where).first
            row, column = int(output.tags.row[index]), int(output.tags.column[index])
            yield from self._at_uses(
                base,
                "misplaced",
                output.reach(where),
                f"{output.role}{list(index)} holds element ({row}, {column}) of {self._names.matrix(base)}",
            )

    # Records

    def _record(self, record: TagRecord) -> Disagreement:
        names = self._names
        stride = next((pc for pc in (record.pc, record.a_pc, record.b_pc) if pc in self._strides), None)
        if stride is not None and record.kind in (
            RecordKind.UNWRITTEN, RecordKind.OPERAND_A, RecordKind.OPERAND_B, RecordKind.CONTRACTION
        ):  # fmt: skip
            return self._leading_dimension(record, stride)
        make = {
            RecordKind.UNWRITTEN: self._unwritten,
            RecordKind.OPERAND_A: self._broken,
            RecordKind.OPERAND_B: self._broken,
            RecordKind.CONTRACTION: self._contraction,
        }.get(record.kind)
        if make is not None:
            return make(record)
        if record.kind is RecordKind.ACCUMULATOR:
            return self._seen(
                record,
                "accumulator",
                f"adds {names.element(record.second)} to an accumulator that holds {names.element(record.first)}",
                "C",
            )
        return self._seen(
            record,
            "row-statistic",
            f"combines {names.element(record.first)} with a statistic of {names.element(record.second)}",
            hint="index the maximum, sum or factor by the row of the element",
        )

    def _seen(
        self, record: TagRecord, kind: str, message: str, operand: str = "", pc: int | None = None, hint: str = "",
        detail: tuple[str, ...] = (),
    ) -> Disagreement:  # fmt: skip
        at = record.pc if pc is None else pc
        other = None if at == record.pc else self._names.line(record.pc)
        place = self._names.line(at)
        return Disagreement(
            kind, place, message, operand, None if other == place else other, detail, record.count, record.block,
            record.warp, hint=hint,
        )  # fmt: skip

    def _leading_dimension(self, record: TagRecord, pc: int) -> Disagreement:
        event = self._strides[pc]
        what = self._names.matrix(event.matrix)
        operand = "A" if pc == record.a_pc else "B" if pc == record.b_pc else ""
        return self._seen(
            record,
            "leading-dimension",
            f"loads {what} with leading dimension {event.a}; its rows lie {event.b} elements apart there",
            operand,
            pc,
            hint=f"pass {event.b} as the leading dimension",
        )

    def _unwritten(self, record: TagRecord) -> Disagreement:
        where = f"{record.space} memory, offset {record.address:#x}"
        return self._seen(
            record,
            "uninitialised",
            "reads memory that nothing wrote, where an element is expected",
            detail=(f"first: {where}, lane {record.lane}",),
            hint="find which threads or warps should have written it",
        )

    def _broken(self, record: TagRecord) -> Disagreement:
        operand = "A" if record.kind is RecordKind.OPERAND_A else "B"
        line = "row" if operand == "A" else "column"
        first, odd = record.first, record.second
        if first.matrix != odd.matrix:
            message = f"one {line} of {operand} comes from two matrices"
        else:
            message = f"one {line} of {operand} is no single row or column of {self._names.matrix(first.matrix)}"
        return self._seen(
            record,
            "broken-operand",
            message,
            operand,
            record.a_pc if operand == "A" else record.b_pc,
            detail=(
                f"{line} {record.line}: begins at {self._names.element(first)}, "
                f"k = {record.k} is {self._names.element(odd)}",
            ),
        )

    def _contraction(self, record: TagRecord) -> Disagreement:
        a, b = record.first, record.second
        axes = record.lane & 1, record.lane >> 1 & 1
        wanted = self._wanted_axes(a, b)
        detail = (
            f"row {record.line} of A, column {record.column} of B, k = {record.k}: "
            f"{self._names.element(a)} meets {self._names.element(b)}",
        )
        for position, operand, tag, pc in ((0, "A", a, record.a_pc), (1, "B", b, record.b_pc)):
            if wanted is not None and axes[position] != wanted[position]:
                return self._seen(
                    record,
                    "transposed",
                    f"{operand} runs along the {_AXES[axes[position]]}s of {self._names.matrix(tag.matrix)}; "
                    f"the product needs its {_AXES[wanted[position]]}s",
                    operand,
                    pc,
                    detail=detail,
                    hint="load it with the other layout, or store it transposed",
                )
        shift = _index(b, axes[1]) - _index(a, axes[0])
        return self._seen(
            record,
            "shifted",
            f"A and B are {abs(shift)} apart along the contracted index: {self._names.element(a)} meets "
            f"{self._names.element(b)}",
            "B",
            record.b_pc,
            detail=detail,
        )

    def _meets(self, record: TagRecord) -> bool:
        """Whether the elements of a contraction that seems wrong do meet as the operation needs.

        Where a row of an operand holds one element alone that could be followed (a maximum beside what is made of it
        and others), along which axis the row runs was a guess.
        """
        if record.kind is not RecordKind.CONTRACTION:
            return False
        wanted = self._wanted_axes(record.first, record.second)
        return wanted is not None and _index(record.first, wanted[0]) == _index(record.second, wanted[1])

    def _wanted_axes(self, a: DecodedTag, b: DecodedTag) -> tuple[int, int] | None:
        """The axes over which the operation contracts these two matrices, in this order."""
        for wanted in self._expected:
            if self._products.matches(a.matrix, wanted.left) and b.matrix == wanted.right:
                return wanted.left_axis, wanted.right_axis
            if self._products.matches(b.matrix, wanted.left) and a.matrix == wanted.right:
                return wanted.right_axis, wanted.left_axis
        return None

    # Products that do not belong

    def _root(self, base: int) -> DerivedProduct | None:
        """The first product on the way to this one that the operation does not have."""
        made = self._raw.derived.get(base)
        if made is None:
            return None
        for operand in (made.left, made.right):
            inner = self._raw.derived.get(operand)
            if inner is not None and not self._products.expected(inner.base):
                return self._root(inner.base)
        return made

    def _foreign(self, base: int, reach: Reach) -> Iterator[Disagreement]:
        root = self._root(base)
        if root is None:
            yield Disagreement(
                "wrong-matrix",
                self._names.line(0),
                f"an output holds {self._names.matrix(base)} itself",
                reach=(reach,),
            )
            return
        for operand in (root.left, root.right):
            inner = self._raw.derived.get(operand)
            if inner is not None and self._products.expected(inner.base):
                wanted = next(w for w in self._expected if self._products.is_product(inner.base, w))
                if not inner.covers(wanted.extent):
                    detail = (f"uses {_ranges(inner.coverage)} of [0, {wanted.extent})",)
                    lost = tuple(self._lost_sums(inner.base, wanted, reach, detail))
                    if lost:
                        yield from lost
                        return
                    yield from self._at_uses(
                        root.base,
                        "incomplete",
                        reach,
                        f"uses {wanted.words} added up over {_ranges(inner.coverage)} of [0, {wanted.extent}) only",
                    )
                    return
        if self._products.expected(root.base):  # of another head or batch
            yield from self._at_uses(
                root.base,
                "misplaced",
                reach,
                f"{reach.role}{list(reach.first)} holds an element of {self._names.matrix(root.base)}",
                hint="compare the offsets of heads and batches where results are stored",
            )
            return
        same = [w for w in self._expected if self._same_operands(root, w)]
        if same:
            wanted = same[0]
            yield from self._at_uses(
                root.base,
                "wrong-axis",
                reach,
                f"multiplies {self._names.product(root)}: contracts {self._names.contracts(root)}; "
                f"the operation needs {wanted.words}",
                load=True,
                hint="load the operand with the other layout, or store it transposed",
            )
            return
        yield from self._at_uses(
            root.base,
            "wrong-matrix",
            reach,
            f"multiplies {self._names.product(root)}, which reaches {reach.role}{list(reach.first)}",
            load=True,
            hint="compare the offsets of heads and batches in the two addresses",
        )

    def _same_operands(self, made: DerivedProduct, wanted: ExpectedProduct) -> bool:
        matches = self._products.matches
        return any(
            matches(x, wanted.left) and y == wanted.right for x, y in ((made.left, made.right), (made.right, made.left))
        )

    def _incomplete(self, base: int, output: JudgedOutput, where: ElementMask) -> Iterator[Disagreement]:
        reach = output.reach(where)
        number = int(output.tags.matrix[reach.first])
        made = self._raw.derived[number]
        wanted = next(w for w in self._expected if self._products.is_product(base, w))
        detail = (
            f"{output.role}{list(reach.first)} has {_ranges(made.coverage) or 'nothing'} of [0, {wanted.extent})",
        )
        lost = tuple(self._lost_sums(base, wanted, reach, detail))
        yield from lost or self._at_uses(
            base, "incomplete", reach, f"the sum of {wanted.words} lacks indices", detail=detail
        )

    def _lost_sums(
        self, base: int, wanted: ExpectedProduct, reach: Reach, detail: tuple[str, ...]
    ) -> Iterator[Disagreement]:
        """Where sums of a product that is not complete were overwritten, or else started again."""
        events = [
            e for e in self._raw.events if e.matrix == base and e.kind in (EventKind.OVERWRITTEN, EventKind.RESTARTED)
        ]
        restarts = [e for e in events if e.kind is EventKind.RESTARTED]
        for event in [e for e in events if e.kind is EventKind.OVERWRITTEN] or restarts:
            words = _LOST[event.kind]
            other = self._names.line(restarts[0].pc) if restarts and restarts[0] is not event else None
            yield Disagreement(
                "lost-sums", self._names.line(event.pc), words.format(wanted.words), "C", other, detail, event.count,
                event.block, event.warp, (reach,),
                "load the accumulator from what earlier tiles left, or zero it once only",
            )  # fmt: skip

    def _at_uses(
        self, base: int, kind: str, reach: Reach, message: str, *, detail: tuple[str, ...] = (), load: bool = False,
        hint: str = "",
    ) -> Iterator[Disagreement]:  # fmt: skip
        for use in self._raw.uses:
            if use.product != base:
                continue
            pc = use.b_pc if load else None
            yield Disagreement(
                kind, self._names.line(use.pc), message, "B" if load else "",
                None if pc is None else self._names.line(pc), detail, use.count, reach=(reach,), hint=hint,
            )  # fmt: skip


def _index(tag: DecodedTag, axis: int) -> int:
    return (tag.row if axis == ROW else tag.column) or 0


def _ranges(coverage: Iterable[tuple[int, int]]) -> str:
    return ", ".join(f"[{first}, {end})" for first, end in coverage)


def _merge(a: Disagreement, b: Disagreement) -> Disagreement:
    by_role: dict[str, Reach] = {reach.role: reach for reach in a.reach}
    for reach in b.reach:
        seen = by_role.get(reach.role)
        by_role[reach.role] = reach if seen is None else Reach.of_mask(reach.role, seen.where | reach.where)
    return replace(
        a,
        operand=a.operand or b.operand,
        other=a.other or b.other,
        count=a.count + b.count,
        reach=tuple(by_role.values()),
    )
