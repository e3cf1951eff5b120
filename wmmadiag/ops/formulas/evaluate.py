"""Formulas evaluated: what each of their targets holds, and the largest error that rounding explains."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wmmadiag.ops.formulas import values
from wmmadiag.ops.formulas.functions import Reckoning, called, rows, times
from wmmadiag.ops.formulas.indices import Indices, NamedTensor, Wanted
from wmmadiag.ops.formulas.tree import (
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
    replaced,
    with_own_indices,
)
from wmmadiag.ops.formulas.values import Val
from wmmadiag.ops.parts.late import NDArray, np
from wmmadiag.ops.parts.rounding import U32, Doubles


@dataclass(frozen=True, slots=True)
class SaidTensor:
    """What statements say of one tensor; `known`: of which elements."""

    v: NDArray[Any]
    e: Doubles
    known: NDArray[np.bool_]


def evaluated(
    statements: Sequence[Equation],
    tensors: Mapping[str, NamedTensor],
    numbers: Mapping[str, float],
    wanted: Mapping[str, Wanted],
    meaning: Reckoning,
) -> dict[str, SaidTensor]:
    """What the wanted tensors hold.

    Args:
        statements: in their order; a target that is not wanted is a name for the following ones.

    Raises:
        FormulaError: they cannot be evaluated so.
    """
    known, found = dict(tensors), dict[str, SaidTensor]()
    axes = {dim for one in wanted.values() for dim in one.dims}
    numberings = {one.target: one for one in statements if one.target in axes and one.target not in wanted}
    for one in with_own_indices(statements):
        if one.target in numberings:
            continue
        target = one.target or (next(iter(wanted)) if len(wanted) == 1 else "")
        if not target:
            raise FormulaError("no target")
        own = wanted.get(target)
        one = _numbered(one, own, numberings)
        scope = _Scope(one, known, numbers, Indices(one, known, numbers, own), meaning)
        if own is None:
            known[target] = scope.named()
            continue
        said = scope.said(own)
        if target in found:
            earlier = found[target]
            said = SaidTensor(np.where(said.known, said.v, earlier.v), np.where(said.known, said.e, earlier.e),
                        said.known | earlier.known)  # fmt: skip
        found[target] = said
        known[target] = NamedTensor(said.v, own.dims, said.e, plain=False)
    return found


def _numbered(one: Equation, own: Wanted | None, numberings: Mapping[str, Equation]) -> Equation:
    """A statement of pairs as one of the axis that they are numbered along: `v(i, j)` where `pair(i, j) = i * n + j`.

    The axes before that are those of the operands that are called the same.
    """
    if own is None or one.items is None:
        return one
    at = next((at for at, dim in enumerate(own.dims) if dim in numberings), None)
    if at is None or at != len(own.dims) - 1:
        return one
    numbering = numberings[own.dims[at]]
    names = [item.id for item in numbering.items or () if isinstance(item, Word)]
    if len(names) != len(one.items) or not all(isinstance(item, Word) for item in one.items):
        return one
    by = {name: item for name, item in zip(names, one.items, strict=True) if item is not None}
    where = numbering.where if one.where is None else one.where
    leading = tuple(Word(f"<{dim}>") for dim in own.dims[:at])
    items = (*leading, replaced(numbering.value, by))
    return replace(one, items=items, where=None if where is None else replaced(where, by))


@dataclass(frozen=True, slots=True)
class _Scope:
    """One statement being evaluated."""

    statement: Equation
    tensors: Mapping[str, NamedTensor]
    numbers: Mapping[str, float]
    indices: Indices
    meaning: Reckoning

    def value(self, tree: Expr) -> Val:
        """The value of an expression."""
        match tree:
            case Literal():
                return self._number(tree.value)
            case Word():
                return self._name(tree.id)
            case Indexed():
                return self._element(tree)
            case Negated():
                of = self.value(tree.of)
                return replace(of, v=-of.v)
            case Infix():
                return self._binary(tree)
            case Turned():
                return values.turned(self.value(tree.of))
            case Power():
                return self._power(self.value(tree.of), self.value(tree.exponent))
            case Summed():
                return self._over(tree)
            case Norm():
                of = self.value(tree.of)
                if not of.rank:
                    return replace(of, v=np.abs(of.v))
                squares = rows(values.combined("*", of, of), "sum", self.meaning.model)
                return values.mapped(squares, lambda x: np.sqrt(np.maximum(x, 0)))
            case Inner():
                return values.multiplied(self._operand(tree.left), self._operand(tree.right), self.meaning.model)
            case _:
                return called(tree.name, [self.value(one) for one in tree.arguments], self.meaning)

    def _name(self, name: str) -> Val:
        if name in self.indices.labels:
            count = np.arange(self.indices.extents[name], dtype=np.float64)
            return Val(count.reshape(self.indices.shape([name])), 0.0, (), plain=True, whole=True)
        if name in self.tensors:
            return self._whole(self.tensors[name])
        if name in self.numbers:
            return self._number(self.numbers[name])
        if name.lower() in _CONSTANTS:
            return replace(self._number(_CONSTANTS[name.lower()]), plain=False)
        raise FormulaError(f"nothing is called '{name}'")

    def _number(self, value: float) -> Val:
        shape = (1,) * len(self.indices.labels)
        return Val(np.full(shape, value), 0.0, (), plain=True, whole=math.isfinite(value) and value == int(value))

    def _whole(self, tensor: NamedTensor) -> Val:
        """A tensor without indices: axes of which the target has an index go along that."""
        items: list[Expr | None] = []
        for text, extent in zip(tensor.dims, tensor.v.shape, strict=True):
            label = self.indices.lifted.get(text, "") if tensor.dims.count(text) == 1 else ""
            items.append(Word(label) if label and self.indices.extents[label] == extent else None)
        return self._gathered(tensor, items)

    def _element(self, tree: Indexed) -> Val:
        if tree.base not in self.tensors:
            raise FormulaError(f"nothing is called '{tree.base}'")
        tensor = self.tensors[tree.base]
        if len(tree.items) > len(tensor.dims):
            raise FormulaError(f"'{tree.base}' has {len(tensor.dims)} axes")
        return self._gathered(tensor, self.indices.filled(tensor, tree.items))

    def _gathered(self, tensor: NamedTensor, items: Sequence[Expr | None]) -> Val:
        labels = len(self.indices.labels)
        own = [at for at, item in enumerate(items) if item is None]
        taken = [at for at, item in enumerate(items) if item is not None]
        v = np.transpose(tensor.v, taken + own)
        e = np.transpose(tensor.e, taken + own) if isinstance(tensor.e, np.ndarray) else tensor.e
        dims = tuple(tensor.dims[at] for at in own)
        names = [item.id for item in items if isinstance(item, Word) and item.id in self.indices.labels]
        if len(names) == len(taken) == len(set(names)) and all(
            self.indices.extents[name] == tensor.v.shape[at] for name, at in zip(names, taken, strict=True)
        ):
            order = sorted(range(len(taken)), key=lambda at: self.indices.labels[names[at]])
            shape = self.indices.shape(names)
            moved = [*order, *range(len(taken), len(items))]
            v = np.transpose(v, moved).reshape((*shape, *v.shape[len(taken) :]))
            e = np.transpose(e, moved).reshape(v.shape) if isinstance(e, np.ndarray) else e
            return Val(v, e, dims, tensor.plain, tensor.whole)
        if not taken:
            v = v.reshape((*[1] * labels, *v.shape))
            return Val(v, e.reshape(v.shape) if isinstance(e, np.ndarray) else e, dims, tensor.plain, tensor.whole)
        indices, outside = [], np.zeros((1,) * labels, bool)
        for at in taken:
            item = items[at]
            assert item is not None
            index = np.rint(self.index(item)).astype(np.int64)
            outside = outside | (index < 0) | (index >= tensor.v.shape[at])
            indices.append(np.clip(index, 0, tensor.v.shape[at] - 1))
        every = np.broadcast_shapes(*(one.shape for one in indices), outside.shape)
        values.check_size((*every, *v.shape[len(taken) :]))
        hidden = np.broadcast_to(outside, every).reshape((*every, *[1] * len(own)))
        spread = tuple(np.broadcast_to(one, every) for one in indices)
        found = np.where(hidden, 0, v[spread])
        error = np.where(hidden, 0, e[spread]) if isinstance(e, np.ndarray) else e
        return Val(found, error, dims, tensor.plain, tensor.whole)

    def index(self, tree: Expr) -> NDArray[Any]:
        """A number that counts elements: quotients are whole."""
        match tree:
            case Infix(op, left, right) if op in _WHOLE:
                a, b = self.index(left), self.index(right)
                return np.asarray(_WHOLE[op](a, b))
            case Negated(of):
                return np.asarray(-self.index(of))
            case _:
                found = self.value(tree)
                if found.rank:
                    raise FormulaError("an index is no number")
                return np.asarray(found.v)

    def _operand(self, tree: Expr) -> Val:
        """A factor of a product that tensor cores may make."""
        found = self.value(tree)
        return found if found.plain or found.v.size == 1 else values.rounded(found, self.meaning.narrow)

    def _binary(self, tree: Infix) -> Val:
        if tree.op in ("*", "side", "@", "."):
            return times(tree.op, self._operand(tree.left), self._operand(tree.right), self.meaning)
        a, b = self.value(tree.left), self.value(tree.right)
        if tree.op in ("+", "-", "/"):
            return values.combined(tree.op, a, b)
        return replace(a, v=np.mod(a.v, b.v)) if tree.op == "%" else values.compared(tree.op, a, b)

    def _power(self, of: Val, exponent: Val) -> Val:
        plain = float(exponent.v.reshape(-1)[0].real) if exponent.v.size == 1 else math.nan
        if plain == 2:
            return values.combined("*", of, of)
        if plain == -1:
            return values.combined("/", self.value(Literal(1.0)), of)
        (a, b), (ea, eb), dims = values.aligned([of, exponent])
        with np.errstate(all="ignore"):
            v = np.power(a, b)
            logs = np.where(a > 0, np.log(np.where(a > 0, a, 1)), 0)
            e = np.abs(v) * (np.abs(b) * ea / np.where(a != 0, np.abs(a), 1) + np.abs(logs) * eb
                             + U32 * (8 + 2 * np.abs(b * logs)))  # fmt: skip
        return Val(v, e, dims)

    def _over(self, tree: Summed) -> Val:
        axes = [self.indices.labels[one] for one in tree.labels]
        if tree.kind in ("max", "min", "softmax"):
            body = self.indices.spread(self.value(tree.body), tree.labels)
            if tree.where is not None:
                hides = -math.inf if tree.kind != "min" else math.inf
                kept = self.value(tree.where)
                body = replace(body, v=np.where(values.widened(kept.v, 0, body.rank) != 0, body.v, hides))
            if tree.kind == "softmax":
                return values.softmax(body, axes, self.meaning.model)
            return values.largest(body, axes, least=tree.kind == "min")
        trees, conditions, labels = _factors(tree.body), [tree.where] * (tree.where is not None), [*tree.labels]
        while isinstance(inner := trees[-1], Summed) and inner.kind == "sum":
            trees = [*trees[:-1], *_factors(inner.body)]
            labels += inner.labels
            conditions += [inner.where] * (inner.where is not None)
        counted = [self.value(one) for one in conditions if one is not None]
        found = self._summed(trees, counted, labels)
        if tree.kind == "mean":
            count = math.prod(self.indices.extents[one] for one in labels)
            found = values.combined("/", found, values.constant(float(count), found))
        return found

    def _summed(self, trees: Sequence[Expr], kept: Sequence[Val], labels: Sequence[str]) -> Val:
        """The sum over indices of a product, of those summands that are kept."""
        axes = [self.indices.labels[one] for one in labels]
        if not any(isinstance(one, Infix) and one.op in ("@", ".") for one in trees):
            ready = [self._operand(one) if len(trees) > 1 else self.value(one) for one in trees]
            if not any(one.rank for one in ready):
                ready += kept
                spread = [one for one in labels if all(each.v.shape[self.indices.labels[one]] == 1 for each in ready)]
                ready[0] = self.indices.spread(ready[0], spread)
                return values.contracted(ready, axes, self.meaning.model)
        body = trees[0]
        for one in trees[1:]:
            body = Infix("*", body, one)
        whole = self.indices.spread(self.value(body), labels)
        for condition in kept:
            whole = values.combined("*", whole, condition)
        return values.summed_up(whole, axes, self.meaning.model)

    def _result(self) -> Val:
        found = self.value(self.statement.value)
        if self.statement.power == 2:
            found = values.mapped(found, lambda a: np.sqrt(np.maximum(a, 0)))
        return found

    def named(self) -> NamedTensor:
        """What a name stands for that no tensor has."""
        found, items = self._result(), self.statement.items
        found = values.rounded(found, self.meaning.narrow) if found.v.size > 1 else found
        names = [one.id for one in items or () if isinstance(one, Word)]
        open_axes = [at for at, item in enumerate(items or ()) if item is None]
        if items is not None and len(names) + len(open_axes) != len(items):
            raise FormulaError(f"'{self.statement.target}' is said of no plain indices")
        first = len(items or ()) - len(open_axes)
        if open_axes and open_axes != [*range(first, len(items or ()))]:
            raise FormulaError("an axis between indices is left open")
        v, e = self.indices.placed(found, names, found.v.shape[len(self.indices.labels) :])
        dims = (*(self.indices.called[one] for one in names), *found.dims)
        return NamedTensor(v, dims, e, plain=False, whole=found.whole)

    def said(self, own: Wanted) -> SaidTensor:
        """What the wanted tensor holds, as far as the statement says it."""
        found, items = self._result(), self.statement.items
        if items is None:
            first = own.dims[:-2]
            items = tuple(
                Word(self.indices.lifted[text]) if text in self.indices.lifted and first.index(text) == at else None
                for at, text in enumerate(first)
            )
        if len(items) > len(own.dims):
            raise FormulaError(f"'{self.statement.target}' has {len(own.dims)} axes")
        items = (*items, *[None] * (len(own.dims) - len(items)))
        inner = [at for at, item in enumerate(items) if item is None]
        target_dims = tuple(own.dims[at] for at in inner)
        shape = tuple(own.shape[at] for at in inner)
        spare = found.v.shape[len(self.indices.labels) :][: max(0, found.rank - len(inner))]
        if any(extent != 1 for extent in spare):
            raise FormulaError("the result has more axes than its target")
        for mine, its in zip(found.dims[::-1], target_dims[::-1], strict=False):
            if mine not in ("1", its) and found.rank:
                raise FormulaError(f"the result goes along '{mine}', its target along '{its}'")
        names = [one.id for one in items if isinstance(one, Word) and one.id in self.indices.labels]
        if len(names) == len(set(names)) == len(items) - len(inner) and self.statement.where is None:
            found = self.indices.widened(found, shape)
            v, e = self.indices.placed(found, names, shape)
            back = np.argsort([*[at for at, item in enumerate(items) if item is not None], *inner])
            v, e = np.transpose(v, back), np.transpose(e, back)
            if v.shape != own.shape:
                raise FormulaError("the result has another shape than its target")
            return self._after(own, np.array(v), np.array(e), np.ones(own.shape, bool))
        if inner:
            raise FormulaError("the target is said in part")
        return self._scattered(own, found, [one for one in items if one is not None])

    def _scattered(self, own: Wanted, found: Val, items: Sequence[Expr]) -> SaidTensor:
        """A target whose indices are computed, or which is said for some indices alone."""
        indices = [np.rint(self.index(one)).astype(np.int64) for one in items]
        kept = np.ones((1,) * len(self.indices.labels), bool)
        if self.statement.where is not None:
            kept = self.value(self.statement.where).v != 0
        every = np.broadcast_shapes(found.v.shape, kept.shape, *(one.shape for one in indices))
        values.check_size(every)
        kept = np.broadcast_to(kept, every)
        spread = tuple(np.broadcast_to(one, every)[kept] for one in indices)
        for one, extent in zip(spread, own.shape, strict=True):
            if one.size and (one.min() < 0 or one.max() >= extent):
                raise FormulaError("an index of the target is outside of it")
        v, e = np.zeros(own.shape, found.v.dtype), np.zeros(own.shape)
        known = np.zeros(own.shape, bool)
        v[spread] = np.broadcast_to(found.v, every)[kept]
        e[spread] = np.broadcast_to(found.e, every)[kept]
        known[spread] = True
        return self._after(own, v, e, known)

    def _after(self, own: Wanted, v: NDArray[Any], e: Doubles, known: NDArray[np.bool_]) -> SaidTensor:
        if not self.statement.added:
            return SaidTensor(v, e, known)
        if own.before is None:
            raise FormulaError("something is added to what nothing says")
        total = v + own.before
        return SaidTensor(total, e + U32 * (np.abs(v) + np.abs(own.before)), known)


_CONSTANTS: Mapping[str, float] = {"pi": math.pi, "inf": math.inf, "infinity": math.inf}
_WHOLE: Mapping[str, Any] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "side": operator.mul,
    "/": operator.floordiv,
    "%": operator.mod,
}


def _factors(tree: Expr) -> list[Expr]:
    """The factors of a product, from left to right."""
    if isinstance(tree, Infix) and tree.op in ("*", "side"):
        return [*_factors(tree.left), *_factors(tree.right)]
    return [tree]
