"""How the arrays of statements are shaped: as comments say, as host code makes them, and as the statements use them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice, permutations

from wmmadiag.hostcode.terms import Term
from wmmadiag.ops.formulas.tree import (
    Applied,
    Equation,
    Expr,
    FormulaError,
    Indexed,
    Infix,
    Inner,
    Literal,
    Negated,
    Norm,
    Power,
    Summed,
    Turned,
    Word,
    index_text,
    nodes,
    with_own_indices,
)
from wmmadiag.subject.drafts.guess import DraftParameter
from wmmadiag.subject.drafts.kernel import SourceKernel
from wmmadiag.subject.drafts.stated.launch_text import WrittenLaunch
from wmmadiag.subject.drafts.stated.names import KnownNumbers, labels_in

Shapes = Mapping[str, tuple[str, ...]]
_MOST = 12  # ways in which extents are told apart
_VECTOR = re.compile(r"(?i)b|bias\w*|\w*bias|\w*scale\w*|gamma|beta|g|weight_?norm|\w*norm\w*|\w*mean|\w*std")
_STRIDE = re.compile(r"(?i)ld[a-z]?|\w*stride\w*|pitch\w*|batch\w*|\w*heads?|split\w*|\w*group\w*")


def shapes_of(
    kernel: SourceKernel, launched: WrittenLaunch, statements: Sequence[Equation], said: Shapes, numbers: KnownNumbers
) -> Iterator[dict[str, tuple[str, ...]]]:
    """The extents of all arrays, as names or expressions, in the ways in which they may be.

    Args:
        said: what comments say.
        numbers: the kernel's.
    """
    arrays = [one for one in kernel.parameters if one.pointer and not one.value]
    known = dict(said)
    known |= {name: dims for name, dims in of_tensors(kernel, launched, arrays).items() if name not in known}
    inference = _Inference(arrays, with_own_indices(statements), known, numbers)
    inference.infer()
    yield from islice(inference.shapes(_extents(kernel)), _MOST)


def numbered_axes(statements: Sequence[Equation], shapes: Shapes) -> dict[str, str]:
    """The extents of axes along which statements number pairs: `pair(i, j) = i * (i + 1) / 2 + j`, as expressions."""
    axes = {dim for dims in shapes.values() for dim in dims}
    along: dict[str, str] = {}
    for one in statements:
        along |= dict(_indexed_along(one, shapes))
    found = {}
    for one in statements:
        if one.target in axes and one.items:
            names = [item.id for item in one.items if isinstance(item, Word) and item.id in along]
            with suppress(FormulaError):
                found[one.target] = f"{index_text(one.value, {name: f'({along[name]} - 1)' for name in names})} + 1"
    return found


def _indexed_along(statement: Equation, shapes: Shapes) -> Iterator[tuple[str, str]]:
    """Indices with the extents along which they go, the axes aside that the result has or that are summed."""
    summed = {label for one in nodes(statement) if isinstance(one, Summed) for label in one.labels}
    own = set(shapes.get(statement.target, ()))
    for one in nodes(statement):
        if isinstance(one, Indexed):
            dims = [dim for dim in shapes.get(one.base, ()) if dim not in own | summed]
            pairs = zip(one.items, dims, strict=False)
            yield from ((item.id, dim) for item, dim in pairs if isinstance(item, Word))


def of_tensors(
    kernel: SourceKernel, launched: WrittenLaunch, arrays: Sequence[DraftParameter]
) -> dict[str, tuple[str, ...]]:
    """Shapes that host code asks a tensor for, `x.size(0)`, and of arrays that it makes of a product of symbols."""
    found: dict[str, dict[int, str]] = {}
    for symbol in kernel.machine.names if kernel.machine is not None else ():
        match = re.fullmatch(r"(\w+)_size_(\d+)", symbol)
        if match is not None:
            found.setdefault(match[1], {})[int(match[2])] = symbol
    whole = {name: dims for name, dims in found.items() if sorted(dims) == [*range(len(dims))]}
    shapes = {name: tuple(dims[at] for at in range(len(dims))) for name, dims in whole.items()}
    for name, text in launched.sizes.items():
        factors = text.split(" * ")
        if len(factors) <= 4 and all(one.isidentifier() for one in factors):
            shapes.setdefault(name, tuple(factors))
    same = _equal(kernel)
    return {one.name: tuple(same.get(dim, dim) for dim in shapes[one.name]) for one in arrays if one.name in shapes}


def _equal(kernel: SourceKernel) -> dict[str, str]:
    """Host symbols that have to be the same as others, with those."""
    found: dict[str, str] = {}
    for fact, holds in kernel.launch.facts if kernel.launch is not None else ():
        if fact.op == "==" and holds and all(isinstance(one, Term) and one.op == "symbol" for one in fact.args):
            first, second = (one.args[0] for one in fact.args)
            found[second] = found.get(first, first)
    return found


def _extents(kernel: SourceKernel) -> list[str]:
    """The kernel's whole numbers that may be extents of matrices."""
    whole = [
        one for one in kernel.parameters if not one.pointer and not one.value and one.dtype not in ("f32", "f64", None)
    ]
    return [one.own_name for one in whole if not _STRIDE.fullmatch(one.own_name)]


@dataclass(slots=True)
class _Inference:
    """Axes that statements show to be the same.

    An axis is a number; `called` has the extents of those that are known.
    """

    arrays: Sequence[DraftParameter]
    statements: Sequence[Equation]
    known: Shapes
    numbers: KnownNumbers
    parents: list[int] = field(default_factory=list)
    called: dict[int, str] = field(default_factory=dict)
    by_text: dict[str, int] = field(default_factory=dict)
    tensors: dict[str, list[int]] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    matrices: bool = False  # whether the statement that is looked at multiplies matrices

    def infer(self) -> None:
        """Go through the statements until nothing new is learned."""
        for name, dims in self.known.items():
            self.tensors[name] = [self._of_text(one) for one in dims]
        for _ in range(3):
            for one in self.statements:
                self._statement(one)

    def shapes(self, extents: Sequence[str]) -> Iterator[dict[str, tuple[str, ...]]]:
        """The arrays' shapes, for each way in which axes without a name may be extents of the kernel's."""
        names = [one.name for one in self.arrays]
        if any(one not in self.tensors for one in names):
            return
        roots = dict.fromkeys(self._root(axis) for one in names for axis in self.tensors[one])
        open_roots = [one for one in roots if one not in self.called]
        taken = {text for root, text in self.called.items() if root in roots}
        left = [one for one in extents if one not in taken]
        ways = permutations(left, len(open_roots)) if len(open_roots) <= len(left) <= 4 else []
        for chosen in [()] if not open_roots else ways:
            texts = self.called | dict(zip(open_roots, chosen, strict=True))
            yield {one: tuple(texts[self._root(axis)] for axis in self.tensors[one]) for one in names}

    # ---- axes

    def _new(self) -> int:
        self.parents.append(len(self.parents))
        return len(self.parents) - 1

    def _of_text(self, text: str) -> int:
        if text not in self.by_text:
            self.by_text[text] = self._new()
            self.called[self.by_text[text]] = text
        return self.by_text[text]

    def _root(self, axis: int) -> int:
        while self.parents[axis] != axis:
            axis = self.parents[axis]
        return axis

    def _same(self, one: int, other: int) -> None:
        a, b = self._root(one), self._root(other)
        if a == b or (a in self.called and b in self.called):
            return
        if a in self.called:
            a, b = b, a
        self.parents[a] = b

    def _meet(self, first: Sequence[int], second: Sequence[int]) -> list[int]:
        """The axes of what is taken element by element."""
        for a, b in zip(reversed(first), reversed(second), strict=False):
            self._same(a, b)
        return [*(first if len(first) >= len(second) else second)]

    def _product(self, first: Sequence[int], second: Sequence[int]) -> list[int]:
        if not first or not second:
            return [*first, *second]
        self._same(first[-1], second[-2] if len(second) > 1 else second[0])
        return [
            *first[:-1],
            *(second[:-2] if len(second) > len(first) else ()),
            *(second[-1:] if len(second) > 1 else ()),
        ]

    # ---- statements

    def _statement(self, one: Equation) -> None:
        self.labels = {}
        self.matrices = any(
            isinstance(node, Turned) or (isinstance(node, Infix) and node.op == "@") for node in nodes(one)
        )
        for label in labels_in(one):
            for name in (label.upper(), label.lower()):
                if name != label and name in self.numbers.exact:
                    self.labels[label] = self._of_text(name)
        axes = self._value(one.value, vector=False)
        if not one.target:
            return
        items = one.items or ()
        if one.target not in self.tensors:
            own = len(axes) + len(items) - sum(item is None for item in items)
            self.tensors[one.target] = [self._new() for _ in range(max(own, len(items)))]
        whole = self.tensors[one.target]
        rest = self._indexed(whole, items)
        self._meet(axes, rest)

    def _indexed(self, axes: Sequence[int], items: Sequence[Expr | None]) -> list[int]:
        """The axes that indices leave."""
        left = []
        for at, axis in enumerate(axes):
            item = items[at] if at < len(items) else None
            if isinstance(item, Word) and item.id not in self.tensors and item.id not in self.numbers.exact:
                if item.id in self.labels:
                    self._same(self.labels[item.id], axis)
                else:
                    self.labels[item.id] = axis
            elif item is None:
                left.append(axis)
        return left

    def _tensor(self, name: str, rank: int) -> list[int]:
        if name not in self.tensors and any(one.name == name for one in self.arrays):
            self.tensors[name] = [self._new() for _ in range(rank)]
        return self.tensors.get(name, [])

    def _value(self, tree: Expr, *, vector: bool, matrix: bool = False) -> list[int]:
        """The own axes of a value; `vector`, `matrix`: what a tensor of unknown rank is there."""
        match tree:
            case Literal():
                return []
            case Word():
                single = _VECTOR.fullmatch(tree.id) is not None and not matrix
                return self._tensor(tree.id, 1 if single or vector else 2)
            case Indexed():
                for item in tree.items:
                    if item is not None and not isinstance(item, Word):
                        self._value(item, vector=False)
                sliced = self.matrices and _VECTOR.fullmatch(tree.base)
                own = 2 if matrix else 1 if vector or sliced else 0
                return self._indexed(self._tensor(tree.base, len(tree.items) + own), tree.items)
            case Negated():
                return self._value(tree.of, vector=vector, matrix=matrix)
            case Turned():
                inner = self._value(tree.of, vector=False, matrix=True)
                return [*inner[:-2], *reversed(inner[-2:])]
            case Power():
                self._value(tree.exponent, vector=False)
                return self._value(tree.of, vector=vector, matrix=matrix)
            case Norm():
                self._value(tree.of, vector=True)
                return []
            case Inner():
                self._product(self._value(tree.left, vector=True), self._value(tree.right, vector=True))
                return []
            case Summed():
                return self._value(tree.body, vector=vector, matrix=matrix)
            case Infix():
                return self._binary(tree, vector=vector)
            case _:
                return self._call(tree)

    def _binary(self, tree: Infix, *, vector: bool) -> list[int]:
        if tree.op in ("@", "side", ".") or (tree.op == "*" and _are_matrices(tree)):
            vectors = tree.op == "." and any(isinstance(one, Indexed) for one in (tree.left, tree.right))
            first = self._value(tree.left, vector=vectors, matrix=not vectors)
            return self._product(first, self._value(tree.right, vector=vectors, matrix=not vectors))
        first = self._value(tree.left, vector=vector)
        return self._meet(first, self._value(tree.right, vector=vector))

    def _call(self, tree: Applied) -> list[int]:
        given = [self._value(one, vector=at > 0) for at, one in enumerate(tree.arguments)]
        if not given:
            return []
        for one in given[1:]:
            self._meet(given[0], one)
        return given[0]


def _are_matrices(tree: Infix) -> bool:
    """Whether both sides of a star are matrices by how they are written: `A * B`, `A * B^T`."""

    def is_matrix(one: Expr) -> bool:
        return isinstance(one, Turned) or (isinstance(one, Word) and one.id.isupper())

    return is_matrix(tree.right) and (is_matrix(tree.left) or isinstance(tree.left, Infix))
