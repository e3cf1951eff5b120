"""Values that a card itself gives its arguments, as their storage holds them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.numerics.element_types import storage_dtype
from wmmadiag.ops.expressions import SymbolScope, names_in
from wmmadiag.ops.whole_numbers import each_whole
from wmmadiag.subject.card import Argument, Expression
from wmmadiag.subject.inputs import kept, rounded


def given_values(argument: Argument, shape: tuple[int, ...], scope: SymbolScope) -> NDArray[Any]:
    """The values that the card gives an input, as its storage holds them; shaped `shape`."""
    count, storage = math.prod(shape), storage_dtype(argument.element)
    held = argument.values
    each = storage.itemsize if isinstance(held, bytes) else 1
    if isinstance(held, bytes | tuple) and len(held) != count * each:
        raise argument.error(
            f"'{argument.name}' has {count} elements, but {len(held) / each:g} values",
            "give one for each element, or one expression of the element's index i in quotes",
        )
    if isinstance(held, bytes):
        return np.frombuffer(held, storage).reshape(shape)
    if isinstance(held, int | float) or (isinstance(held, str) and not names_in(held)):
        return np.full(shape, _number(argument, held, scope, "a"), storage_dtype(argument.element))
    return kept(
        ("values", held, argument.element, shape, scope.definitions()), lambda: _each(argument, held, shape, scope)
    )


def _each(
    argument: Argument, held: Expression | tuple[Expression, ...] | None, shape: tuple[int, ...], scope: SymbolScope
) -> NDArray[Any]:
    """The values of a list, or of an expression of the element's index."""
    count, storage = math.prod(shape), storage_dtype(argument.element)
    whole = each_whole(held, "i", count, scope.lookup) if isinstance(held, str) else None
    if whole is not None and argument.element.is_float:
        return rounded(whole.astype(np.float64), argument.element).reshape(shape)
    if whole is not None and whole.dtype == np.int64 and _fit(whole, storage):
        return whole.astype(storage).reshape(shape)
    numbers = [
        _number(argument, held[i] if isinstance(held, tuple) else held, scope.within({"i": i}), "a")
        for i in range(count)
    ]
    return np.asarray(numbers, storage).reshape(shape)


def _fit(whole: NDArray[np.int64], storage: np.dtype[Any]) -> bool:
    limits = np.iinfo(storage)
    return not whole.size or bool(int(limits.min) <= whole.min() and int(whole.max()) <= int(limits.max))


def scalar(argument: Argument, scope: SymbolScope) -> np.generic:
    """The value of a scalar argument."""
    return _number(argument, argument.value, scope, "the")


def _number(argument: Argument, text: Expression | None, scope: SymbolScope, article: str) -> np.generic:
    """An expression as a number of the argument's type; `article`: "the" for its only value, else "a"."""
    assert text is not None
    element = argument.element
    what = f"{article} value of '{argument.name}'"
    if element.is_float:
        real = np.asarray([scope.real(text, place=argument.place, what=what)], np.float64)
        number: np.generic = rounded(real, element)[0]
        return number
    whole = scope.integer(text, place=argument.place, what=what)
    limits = np.iinfo(storage_dtype(element))
    if not int(limits.min) <= whole <= int(limits.max):
        raise argument.error(
            f"{what} is {whole}, which {element.name} cannot hold", "give a smaller value, or a wider dtype"
        )
    exact: np.generic = storage_dtype(element).type(whole)
    return exact
