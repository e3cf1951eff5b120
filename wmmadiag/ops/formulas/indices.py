"""The indices of a statement: which of its names they are, how far each goes, and which axis of values it has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wmmadiag.ops.formulas.tree import Equation, Expr, FormulaError, Indexed, Summed, Word, nodes
from wmmadiag.ops.formulas.values import Val, widened
from wmmadiag.ops.parts.late import NDArray, np


@dataclass(frozen=True, slots=True)
class NamedTensor:
    """What a name of a formula is.

    Attributes:
        v: float64 or complex128.
        dims: what its extents are called.
        e: the largest error of its elements.
        plain, whole: as a value has it.
    """

    v: NDArray[Any]
    dims: tuple[str, ...]
    e: Any = 0.0
    plain: bool = True
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Wanted:
    """A tensor that is to be said: its extents, and what it holds before where something is added to that."""

    shape: tuple[int, ...]
    dims: tuple[str, ...]
    before: NDArray[Any] | None = None


@dataclass(slots=True)
class Indices:
    """Those of one statement."""

    statement: Equation
    tensors: Mapping[str, NamedTensor]
    numbers: Mapping[str, float]
    own: Wanted | None
    labels: dict[str, int] = field(default_factory=dict)  # index → the axis that it has in values
    extents: dict[str, int] = field(default_factory=dict)
    called: dict[str, str] = field(default_factory=dict)  # … and what its extent is called
    lifted: dict[str, str] = field(default_factory=dict)  # what an extent is called → the index that goes along it

    def __post_init__(self) -> None:
        self._lift()
        for name in self._names():
            self._give(name)

    def shape(self, names: Sequence[str]) -> list[int]:
        """That of an array which goes along some of them."""
        found = [1] * len(self.labels)
        for one in names:
            found[self.labels[one]] = self.extents[one]
        return found

    def placed(self, found: Val, names: Sequence[str], own: Sequence[int]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Values and errors by these indices in their order, and then by own axes."""
        labels = len(self.labels)
        for name, at in self.labels.items():
            if found.v.shape[at] != 1 and name not in names:
                raise FormulaError(f"'{name}' is left open")
        shape = self.shape(names)
        order = [self.labels[one] for one in names]
        rest = [at for at in range(labels) if at not in order]
        moved = [*order, *range(labels, labels + len(own)), *rest]
        final = [self.extents[one] for one in names] + list(own)
        v = np.broadcast_to(found.v, [*shape, *own])
        e = np.broadcast_to(found.e, [*shape, *own])
        return np.transpose(v, moved).reshape(final), np.transpose(e, moved).reshape(final)

    def widened(self, found: Val, shape: Sequence[int]) -> Val:
        """A value over all of an array that its own axes are spread over."""
        labels = len(self.labels)
        rank = len(shape)
        v, e = found.v, np.broadcast_to(found.e, found.v.shape)
        if found.rank > rank:
            gone = tuple(range(labels, labels + found.rank - rank))
            v, e = np.squeeze(v, gone), np.squeeze(e, gone)
        else:
            v, e = widened(v, found.rank, rank), widened(e, found.rank, rank)
        full = [*v.shape[:labels], *shape]
        return Val(np.broadcast_to(v, full), np.broadcast_to(e, full), ("",) * rank)

    def spread(self, of: Val, names: Sequence[str]) -> Val:
        """A value with the whole extent of indices."""
        shape = list(of.v.shape)
        for one in names:
            shape[self.labels[one]] = self.extents[one]
        return replace(of, v=np.broadcast_to(of.v, shape))

    def filled(self, tensor: NamedTensor, items: Sequence[Expr | None]) -> list[Expr | None]:
        """Indices of all axes: where some are missing, an axis that is called as an index goes along that."""
        left = [*items]
        summed = {one for node in nodes(self.statement) if isinstance(node, Summed) for one in node.labels}
        filled: list[Expr | None] = []
        for at, text in enumerate(tensor.dims):
            spare = len(tensor.dims) - at > len(left)
            label = self.lifted.get(text, text if text in summed else "")
            if spare and label and tensor.dims.count(text) == 1:
                filled.append(Word(label))
            else:
                filled.append(left.pop(0) if left else None)
        return filled

    def _lift(self) -> None:
        """Of a target of more than two axes the leading ones are indices of all that has them, too."""
        if self.own is None:
            return
        items = self.statement.items
        if items is not None:  # those that stand for whole axes
            numbered = zip(items, self.own.dims, self.own.shape, strict=False)
            for item, text, extent in numbered:
                if isinstance(item, Word) and item.id == f"<{text}>":
                    self.lifted[text] = item.id
                    self._add(item.id, extent, text)
            return
        for text, extent in zip(self.own.dims[:-2], self.own.shape, strict=False):
            if text not in self.lifted and not text.isdecimal():
                self.lifted[text] = f"<{text}>"
                self._add(f"<{text}>", extent, text)

    def _add(self, name: str, extent: int, called: str) -> None:
        self.labels[name] = len(self.labels)
        self.extents[name], self.called[name] = extent, called

    def _names(self) -> Iterator[str]:
        """The names that are indices, the target's first."""
        parts: list[object] = [one for one in self.statement.items or () if one is not None]
        for node in nodes(self.statement):
            if isinstance(node, Indexed):
                parts += [one for one in node.items if one is not None]
            elif isinstance(node, Summed):
                parts += [Word(one) for one in node.labels]
        for part in parts:
            for node in nodes(part):
                name = node.id if isinstance(node, Word) else ""
                plain = name not in self.tensors or part is node  # a whole tensor is no index
                if name and ((plain and name not in self.numbers) or self._is_bound(name)):
                    yield name

    def _is_bound(self, name: str) -> bool:
        """Whether an index hides a number or a tensor of its name."""
        return any(isinstance(one, Summed) and name in one.labels for one in nodes(self.statement)) or any(
            isinstance(one, Word) and one.id == name for one in self.statement.items or ()
        )

    def _give(self, name: str) -> None:
        if name in self.labels:
            return
        found: list[tuple[int, str]] = []
        if self.own is not None and self.statement.items is not None:
            found += self._along(name, self.statement.items, self.own.shape, self.own.dims)
        for node in nodes(self.statement):
            if isinstance(node, Indexed) and node.base in self.tensors:
                tensor = self.tensors[node.base]
                found += self._along(name, self.filled(tensor, node.items), tensor.v.shape, tensor.dims)
        if not found:
            extent = next(
                (self.numbers[one] for one in (name.upper(), name.lower()) if one in self.numbers and one != name), None
            )
            if extent is None or extent < 1:
                raise FormulaError(f"nothing says how far '{name}' goes")
            found = [(int(extent), name)]
        self._add(name, *found[0])

    @staticmethod
    def _along(
        name: str, items: Sequence[Expr | None], shape: Sequence[int], dims: Sequence[str]
    ) -> Iterator[tuple[int, str]]:
        for item, extent, text in zip(items, shape, dims, strict=False):
            if isinstance(item, Word) and item.id == name:
                yield extent, text
