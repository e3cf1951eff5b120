"""Numbers of formulas: values in float64 with the largest error that rounding explains (running error analysis).

A value has the axes of the formula's indices first, each of its extent or 1, then those of its own, by position.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wmmadiag.ops.formulas.tree import FormulaError
from wmmadiag.ops.parts.late import NDArray, np
from wmmadiag.ops.parts.rounding import U32, Arithmetic, product_error

_MOST = 1 << 26  # elements of one value
_TANH = 2.0**-10.9  # tanh.approx.f32 (PTX ISA, "tanh")
_EXTRA = 8  # roundings of an elementary function, CUDA C++ Programming Guide, "Mathematical Functions"


@dataclass(frozen=True, slots=True)
class Val:
    """A value.

    Attributes:
        v: float64 or complex128, shaped (indices…, own axes…).
        e: its largest error, of that shape, or one for all.
        dims: what the extents of its own axes are called: axes of the same name are the same.
        plain: whether it is what a tensor holds, so that no kernel rounds it before it multiplies.
        whole: whether it is made of whole numbers alone, of which sums are exact.
    """

    v: NDArray[Any]
    e: NDArray[np.float64] | float
    dims: tuple[str, ...] = ()
    plain: bool = False
    whole: bool = False

    @property
    def rank(self) -> int:
        """How many axes of its own it has."""
        return len(self.dims)


def constant(value: float, beside: Val) -> Val:
    """A number, with as many indices as another value has."""
    return Val(np.full((1,) * (beside.v.ndim - beside.rank), value), 0.0, (), True, value == int(value))


def aligned(values: Sequence[Val], rank: int | None = None) -> tuple[list[NDArray[Any]], list[Any], tuple[str, ...]]:
    """Values and errors that NumPy broadcasts, own axes from the last one on; and the names of the result's axes.

    Raises:
        FormulaError: two axes that meet are not the same.
    """
    rank = max(one.rank for one in values) if rank is None else rank
    dims = [""] * rank
    for one in values:
        for at, name in enumerate(one.dims, rank - one.rank):
            if dims[at] not in ("", "1", name) and name != "1":
                raise FormulaError(f"axes '{dims[at]}' and '{name}' meet")
            dims[at] = name if dims[at] in ("", "1") else dims[at]
    return (
        [widened(one.v, one.rank, rank) for one in values],
        [widened(one.e, one.rank, rank) for one in values],
        tuple(dims),
    )


def widened(array: Any, own: int, rank: int) -> Any:
    """An array with further own axes of extent 1 before its own."""
    if not isinstance(array, np.ndarray) or own == rank:
        return array
    labels = array.ndim - own
    return array.reshape(array.shape[:labels] + (1,) * (rank - own) + array.shape[labels:])


def check_size(shape: Sequence[int]) -> None:
    """Refuse what nobody computes a formula of.

    Raises:
        FormulaError: it is larger.
    """
    if math.prod(shape) > _MOST:
        raise FormulaError("too large")


def meets(first: Val, second: Val) -> bool:
    """Whether two values can be taken element by element."""
    try:
        aligned([first, second])
    except FormulaError:
        return False
    return True


def combined(op: str, first: Val, second: Val) -> Val:
    """Sum, difference, product or quotient of elements.

    Raises:
        FormulaError: their axes do not meet.
    """
    (a, b), (ea, eb), dims = aligned([first, second])
    check_size(np.broadcast_shapes(a.shape, b.shape))
    whole = first.whole and second.whole and op != "/"
    with np.errstate(all="ignore"):
        if op in ("+", "-"):
            v = a + b if op == "+" else a - b
            e = ea + eb + (0.0 if whole else U32 * (np.abs(a) + np.abs(b)))
        elif op == "*":
            v = a * b
            e = np.abs(a) * eb + np.abs(b) * ea + ea * eb + (0.0 if whole else U32 * np.abs(v))
        else:
            v = a / b
            least = np.abs(b) - eb
            e = np.where(least > 0, (ea + np.abs(v) * eb) / np.where(least > 0, least, 1) + 2 * U32 * np.abs(v), np.inf)
    return Val(v, e, dims, whole=whole)


def compared(op: str, first: Val, second: Val) -> Val:
    """1 where a comparison holds, 0 elsewhere."""
    (a, b), _, dims = aligned([first, second])
    functions: dict[str, Callable[[Any, Any], Any]] = {
        "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
        "and": np.multiply,
    }  # fmt: skip
    return Val(functions[op](a, b).astype(np.float64), 0.0, dims, plain=True, whole=True)


def mapped(
    of: Val, function: Callable[[NDArray[Any]], NDArray[Any]], relative: float = _EXTRA * U32, absolute: float = 0.0
) -> Val:
    """A function of each element, rising or falling between a value and what it may be in its place."""
    with np.errstate(all="ignore"):
        v = function(of.v)
        e: Any = relative * np.abs(v) + absolute
        if np.any(of.e):
            apart = np.maximum(np.abs(function(of.v + of.e) - v), np.abs(function(of.v - of.e) - v))
            e = e + np.where(np.isfinite(apart), apart, 0.0)
    return replace(of, v=v, e=e, plain=False, whole=False)


def tanh(of: Val) -> Val:
    """Its approximation on GPUs included."""
    return mapped(of, np.tanh, _TANH)


def exp(of: Val) -> Val:
    """Of a large argument the rounding of that counts most."""
    found = mapped(of, np.exp, 0.0)
    with np.errstate(all="ignore"):
        extra = (4 + 4 * np.abs(of.v)) * U32 * found.v
    return replace(found, e=found.e + np.where(np.isfinite(extra), extra, 0.0))


def rounded(of: Val, unit: float) -> Val:
    """A value that a kernel has rounded to a narrow type."""
    return replace(of, e=of.e + unit * np.abs(of.v)) if unit else of


def contracted(values: Sequence[Val], over: Sequence[int], model: Arithmetic) -> Val:
    """The sum over some indices of a product of values without own axes: `over` counts axes of their arrays.

    Raises:
        FormulaError: it is too large.
    """
    (*arrays,), (*errors,), dims = aligned(values)
    if dims:
        return _summed_directly(values, over, model)
    ndim = arrays[0].ndim
    kept = [at for at in range(ndim) if at not in over]
    depth = 1
    for at in over:
        depth *= max(one.shape[at] for one in arrays)

    def summed(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        letters = "abcdefghijklmnopqrstuvwxyz"
        terms, given = [], []
        for one in parts:
            present = [at for at in range(ndim) if one.shape[at] != 1]
            terms.append("".join(letters[at] for at in present))
            given.append(one.reshape([one.shape[at] for at in present]))
        missing = [at for at in over if all(one.shape[at] == 1 for one in parts)]
        assert not missing or depth >= 1
        out = [at for at in kept if any(letters[at] in one for one in terms)]
        found = np.einsum(",".join(terms) + "->" + "".join(letters[at] for at in out), *given, optimize=len(given) > 1)
        shape = [1] * ndim
        for at, extent in zip(out, found.shape, strict=True):
            shape[at] = extent
        return np.asarray(found).reshape(shape)

    whole = all(one.whole for one in values)
    v = summed(arrays)
    every = [np.abs(one) for one in arrays]
    e: Any = 0.0
    if not whole:
        sums = product_error(depth, model, len(values))
        e = (sums.relative + (len(values) - 1) * U32) * summed(every) + sums.absolute
    for at, error in enumerate(errors):
        if np.any(error):
            wide = np.broadcast_to(error, np.broadcast_shapes(np.shape(error), arrays[at].shape))
            e = e + (1 + 2.0**-6) * summed([*every[:at], wide, *every[at + 1 :]])
    return Val(v, e, (), whole=whole)


def _summed_directly(values: Sequence[Val], over: Sequence[int], model: Arithmetic) -> Val:
    found = values[0]
    for one in values[1:]:
        found = combined("*", found, one)
    return summed_up(found, over, model)


def summed_up(of: Val, over: Sequence[int], model: Arithmetic) -> Val:
    """The sum over axes of the array, which stay with extent 1."""
    depth = int(np.prod([of.v.shape[at] for at in over]))
    with np.errstate(all="ignore"):
        v = of.v.sum(axis=tuple(over), keepdims=True)
        wide = np.broadcast_to(of.e, of.v.shape)
        e: Any = wide.sum(axis=tuple(over), keepdims=True)
        if not of.whole:
            e = e + product_error(depth, model).relative * np.abs(of.v).sum(axis=tuple(over), keepdims=True)
    return replace(of, v=v, e=e, plain=False)


def multiplied(first: Val, second: Val, model: Arithmetic) -> Val:
    """The matrix product of own axes; of vectors that of a row or a column.

    Raises:
        FormulaError: they do not fit.
    """
    if not first.rank or not second.rank:
        raise FormulaError("no matrices")
    inner = second.dims[-2] if second.rank > 1 else second.dims[0]
    if first.dims[-1] != inner and "1" not in (first.dims[-1], inner):
        raise FormulaError(f"'{first.dims[-1]}' and '{inner}' are not contracted")
    row, column = first.rank == 1, second.rank == 1
    a, b = _matrix(first, at=-2), _matrix(second, at=-1)
    rank = max(a.rank, b.rank)
    va, vb = widened(a.v, a.rank, rank), widened(b.v, b.rank, rank)
    leading = np.broadcast_shapes(va.shape[:-2], vb.shape[:-2])
    check_size((*leading, va.shape[-2], vb.shape[-1]))
    depth = va.shape[-1]
    whole = first.whole and second.whole
    with np.errstate(all="ignore"):
        v = va @ vb
        e: Any = 0.0
        if not whole:
            sums = product_error(depth, model, 1)
            e = sums.relative * (np.abs(va) @ np.abs(vb)) + sums.absolute
        for error, other, left in ((a.e, vb, True), (b.e, va, False)):
            if np.any(error):
                own = a if left else b
                wide = widened(np.broadcast_to(error, own.v.shape), own.rank, rank)
                e = e + (1 + 2.0**-6) * (wide @ np.abs(other) if left else np.abs(other) @ wide)
    dims = (*(a.dims if a.rank >= b.rank else b.dims)[:-2], a.dims[-2], b.dims[-1])
    gone = tuple(at for at, without in ((-2, row), (-1, column)) if without)
    if gone:
        v = np.squeeze(v, axis=gone)
        e = np.squeeze(e, axis=gone) if isinstance(e, np.ndarray) else e
        dims = tuple(name for at, name in enumerate(dims, -len(dims)) if at not in gone)
    return Val(v, e, dims, whole=whole)


def _matrix(one: Val, at: int) -> Val:
    """A vector as a matrix of one row (-2) or column (-1)."""
    if one.rank > 1:
        return one
    place = one.v.ndim - 1 if at == -2 else one.v.ndim
    e = np.expand_dims(np.broadcast_to(one.e, one.v.shape), place)
    dims = ("1", *one.dims) if at == -2 else (*one.dims, "1")
    return replace(one, v=np.expand_dims(one.v, place), e=e, dims=dims)


def turned(of: Val) -> Val:
    """With its last two own axes exchanged.

    Raises:
        FormulaError: it has fewer.
    """
    if of.rank < 2:
        raise FormulaError("no matrix")
    e = np.swapaxes(np.broadcast_to(of.e, of.v.shape), -1, -2)
    return replace(of, v=np.swapaxes(of.v, -1, -2), e=e, dims=(*of.dims[:-2], of.dims[-1], of.dims[-2]))


def largest(of: Val, axes: Sequence[int], *, least: bool = False) -> Val:
    """The maximum over axes of the array, which stay with extent 1; `least`: the minimum."""
    wide = np.broadcast_to(of.e, of.v.shape)
    v = (of.v.min if least else of.v.max)(axis=tuple(axes), keepdims=True)
    return replace(of, v=v, e=wide.max(axis=tuple(axes), keepdims=True), plain=False)


def softmax(of: Val, axes: Sequence[int], model: Arithmetic) -> Val:
    """exp(x) over its sum, along axes of the array; -inf hides."""
    high = of.v.max(axis=tuple(axes), keepdims=True)
    high = np.where(np.isfinite(high), high, 0.0)
    # What the exponent is off by, the subtraction of the maximum included, is a factor of the exponential.
    powers = exp(
        replace(of, v=of.v - high, e=of.e + U32 * (np.abs(np.where(np.isfinite(of.v), of.v, 0)) + np.abs(high)))
    )
    return combined("/", powers, summed_up(powers, axes, model))
