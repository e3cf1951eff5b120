"""What host code computes of the same arrays by a library: the strongest word on a kernel's operation and storage."""

from __future__ import annotations

from dataclasses import dataclass

from wmmadiag.hostcode import terms
from wmmadiag.hostcode.events import Product
from wmmadiag.hostcode.terms import Term
from wmmadiag.hostcode.values import Buffer, Pointer
from wmmadiag.ops import OPERATIONS
from wmmadiag.subject.drafts.kernel import SourceKernel
from wmmadiag.subject.drafts.meanings import Meanings
from wmmadiag.subject.drafts.model import CardDraft, DraftArgument

_FLAGS = frozenset({"transpose_a", "transpose_b"})  # what a library's product tells


@dataclass(frozen=True, slots=True)
class ProductEvidence:
    """A library's product of the arrays that the kernel reads."""

    product: Product  # as the library has it, by columns
    swapped: bool  # whether the library gets B first: read by rows, its result is then the kernel's

    def apply(self, result: CardDraft, meant: Meanings) -> None:
        """Let a draft say what the product says: how operands are stored, and by which names their extents go."""
        one = self.product
        # Stored by columns, X is what Xᵀ is by rows: an operand that the library does not transpose lies transposed.
        if self.swapped:
            rows, columns = one.n, one.m
            transposes = {"a": one.transposed[1], "b": one.transposed[0]}
        else:
            rows, columns = one.m, one.n
            transposes = {"a": not one.transposed[0], "b": not one.transposed[1]}
            for argument in result.arguments:
                if argument.role in ("c", "d"):
                    argument.layout = "NM" if one.batch is None else "BNM"
        for role, turned in transposes.items():
            if turned:
                result.computes[f"transpose_{role}"] = "1"
        for term, name in ((rows, "M"), (columns, "N"), (one.k, "K")):
            if term.op == "symbol":
                meant.by_symbol[term.args[0]] = terms.symbol(name)
        result.stated |= {"operation", "storage"}
        result.remarks.append(
            f"stored as for the library's product at {one.place}, which the host computes of the same arrays"
        )


@dataclass(frozen=True, slots=True)
class LoopEvidence:
    """A product that host code computes itself, in loops, of the arrays that the kernel reads."""

    turned: frozenset[str]  # the operands that lie the other way around

    def apply(self, result: CardDraft, meant: Meanings) -> None:
        """Let a draft say how operands are stored."""
        del meant
        for role in self.turned:
            result.computes[f"transpose_{role}"] = "1"
        result.stated |= {"operation", "storage"}
        result.remarks.append("stored as for the product that the host computes of the same arrays in loops")


def _by_loops(result: CardDraft, kernel: SourceKernel) -> LoopEvidence | None:
    """The product of the kernel's inputs that host code stores: `C[i*N + j]`, the sum of `A[i*K + k]·B[k*N + j]`."""
    machine = kernel.machine
    assert machine is not None
    for _, place, value in machine.stores:
        found = _sum_of_products(value)
        if found is None:
            continue
        depth, loads = found
        inner = [name for name in terms.symbols(place) if name.startswith("index_")]
        columns = [name for name in inner if _step(place, name) == 1]
        rows = [name for name in inner if name not in columns]
        if len(columns) != 1 or len(rows) != 1:
            continue
        left = next((one for one in loads if rows[0] in terms.symbols(one.args[1])), None)
        right = next((one for one in loads if columns[0] in terms.symbols(one.args[1])), None)
        if left is None or right is None or left is right:
            continue
        a, b = (_argument(result, machine.loads[one.args[0]]) for one in (left, right))
        if a is None or b is None or (a.role, b.role) != ("a", "b"):
            continue
        turned = {"a": _step(left.args[1], depth) != 1, "b": _step(right.args[1], columns[0]) != 1}
        return LoopEvidence(frozenset(role for role, other in turned.items() if other))
    return None


def _sum_of_products(value: object) -> tuple[str, tuple[Term, Term]] | None:
    """(index of the sum, the two loads) of a value in which products of two loads are summed."""
    if not isinstance(value, Term):
        return None
    if value.op == "sum":
        loads = [one for one in _factors(value.args[1]) if one.op == "load"]
        return (value.args[0].args[0], (loads[0], loads[1])) if len(loads) == 2 else None
    return next((found for one in value.args if (found := _sum_of_products(one)) is not None), None)


def _factors(term: Term) -> list[Term]:
    if term.op == "*":
        return [*_factors(term.args[0]), *_factors(term.args[1])]
    return _factors(term.args[0]) if term.op in ("float", "int") else [term]


def _step(place: Term, name: str) -> float | None:
    """By how much a place moves where an index grows by one."""
    others = {
        one: 0 if one.startswith("index_") else 101 + 6 * at for at, one in enumerate(sorted(terms.symbols(place)))
    }
    first, second = (terms.value(place, {**others, name: at}) for at in (0, 1))
    return None if first is None or second is None else second - first


def product_of(result: CardDraft, kernel: SourceKernel) -> ProductEvidence | LoopEvidence | None:
    """A product of the kernel's own inputs that the host makes by other means; None if there is none."""
    if not OPERATIONS[result.operation].parameters.keys() >= _FLAGS or kernel.launch is None or kernel.machine is None:
        return None
    for one in kernel.products:
        a, b = _argument(result, one.a.buffer), _argument(result, one.b.buffer)
        if a is None or b is None or a is b:
            continue
        swapped = (a.role, b.role) == ("b", "a")
        if not swapped and (a.role, b.role) != ("a", "b"):
            continue
        return ProductEvidence(one, swapped)
    return _by_loops(result, kernel)


def _argument(result: CardDraft, buffer: Buffer) -> DraftArgument | None:
    origin = buffer.origin()
    return next(
        (
            one
            for one in result.arguments
            if isinstance(one.passed, Pointer) and (one.passed.buffer is buffer or one.passed.buffer.origin() is origin)
        ),
        None,
    )
