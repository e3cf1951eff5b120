"""Whether the shapes of an operation's tensors fit each other: each symbol of the roles' shapes has one value.

A role's shape names its extents by symbols: q has (B, H, Sq, D), k has (B, Hkv, Skv, D). What is D in one is D in the
other; an extent that is an expression is what it is of the others' symbols.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from wmmadiag.ops.expressions import ExpressionError, Number, evaluate
from wmmadiag.ops.model import Operation, Role, Values

Shape = tuple[int, ...]


class ShapeMismatch(ValueError):
    """A role whose shape does not fit.

    Attributes:
        role: which one.
    """

    def __init__(self, role: str, message: str) -> None:
        super().__init__(message)
        self.role = role


@dataclass(slots=True)
class _Extents:
    """Values of symbols, each with the (role, axis from the end) that it was first seen at."""

    operation: Operation
    shapes: Mapping[str, Shape]
    values: dict[str, int] = field(default_factory=dict)
    seen: dict[str, tuple[str, int]] = field(default_factory=dict)

    def unify(self, name: str, axis: int, symbol: str, extent: int) -> None:
        """Take or compare the value of a symbol."""
        if self.values.setdefault(symbol, extent) != extent:
            raise ShapeMismatch(name, f"{self.axis(name, axis)} differs from {self.axis(*self.seen[symbol])}")
        self.seen.setdefault(symbol, (name, axis))

    def axis(self, name: str, axis: int) -> str:
        """An axis in words."""
        axes = self.operation.roles[name].axes
        letter = f" ({axes[axis]})" if -axis <= len(axes) else ""
        lacks = "the missing axis" if -axis > len(self.shapes[name]) else "axis"
        return f"{lacks} {axis}{letter} of '{name}' {list(self.shapes[name])}"


def extents_of(operation: Operation, shapes: Mapping[str, Shape], parameters: Values | None = None) -> dict[str, int]:
    """The values of symbols that shapes tell.

    Args:
        shapes: logical shape by role. Leading axes that a role has not are 1; there may also be more than it lists.
        parameters: evaluated; without them an extent that depends on one tells nothing.

    Raises:
        ShapeMismatch: shapes that the operation cannot combine.
    """
    found = _Extents(operation, shapes)
    roles = {name: role for name, role in operation.roles.items() if name in shapes}
    plain = {name: role for name, role in roles.items() if not role.usual}
    lead = next((role.axes[0] for role in plain.values()), "")
    surplus = max((len(shapes[name]) - len(role.axes) for name, role in plain.items()), default=0)
    later: list[tuple[str, int, str]] = []
    for name, role in plain.items():
        outer = max(surplus, 0) if role.axes[0] == lead else 0
        wide = (1,) * (len(role.axes) + outer - len(shapes[name])) + shapes[name]
        if len(wide) > len(role.axes) + outer:
            raise ShapeMismatch(name, f"'{name}' {list(shapes[name])} has more axes than {', '.join(role.axes)}")
        for axis, extent in enumerate(wide, -len(wide)):
            beyond = -axis - len(role.axes)
            text = f"_{beyond}" if beyond > 0 else chosen(role.shape[axis], parameters)
            if role.shared and beyond >= 0 and extent == 1:
                continue  # one for all matrices
            if text.isidentifier():
                found.unify(name, axis, text, extent)
            elif text:
                later.append((name, axis, text))
    _check_divisors(found)
    if parameters is not None:
        for name, axis, text in later:
            _check_expression(found, name, axis, text, parameters)
        for name, role in roles.items():
            if role.usual:
                _check_spread(found, name, role, parameters)
    return {symbol: value for symbol, value in found.values.items() if not symbol.startswith("_")}


def chosen(text: str, parameters: Values | None) -> str:
    """An extent's expression with its conditions decided: "K if transpose_b else N" → "K"; "" where they cannot be."""
    test, then, otherwise = _condition(text)
    while test:
        if parameters is None:
            return ""
        text = then if evaluate(test, numbers_of(parameters).__getitem__) else otherwise
        test, then, otherwise = _condition(text)
    return then


@lru_cache(maxsize=4096)
def _condition(text: str) -> tuple[str, str, str]:
    """An expression's condition, what it is then and otherwise; "", the expression, "" where it has none."""
    tree = ast.parse(text, mode="eval").body
    if isinstance(tree, ast.IfExp):
        return ast.unparse(tree.test), ast.unparse(tree.body), ast.unparse(tree.orelse)
    return "", ast.unparse(tree), ""


def numbers_of(parameters: Values) -> dict[str, Number]:
    """The parameters that expressions may use: all but words."""
    return {name: value for name, value in parameters.items() if not isinstance(value, str)}


def _check_divisors(found: _Extents) -> None:
    for part, whole in found.operation.divisors.items():
        if part not in found.values or whole not in found.values:
            continue
        if not found.values[part] or found.values[whole] % found.values[part]:
            raise ShapeMismatch(
                found.seen[part][0],
                f"{found.axis(*found.seen[part])} does not fit {found.axis(*found.seen[whole])}: "
                f"{found.values[part]} is no divisor of {found.values[whole]}",
            )


def _check_expression(found: _Extents, name: str, axis: int, text: str, parameters: Values) -> None:
    try:
        wanted = evaluate(text, {**numbers_of(parameters), **found.values}.__getitem__)
    except (ExpressionError, KeyError):
        return  # of a symbol that no shape tells
    extent = (*((1,) * len(found.operation.roles[name].axes)), *found.shapes[name])[axis]
    if extent != wanted:
        raise ShapeMismatch(name, f"{found.axis(name, axis)} differs from {text} = {wanted}, as all others say")


def _extent(text: str, known: Mapping[str, Number]) -> int:
    """An extent of symbols that shapes tell; 1 where they tell none, as it is left out then."""
    try:
        return int(evaluate(text, known.__getitem__))
    except (ExpressionError, KeyError):
        return 1


def _check_spread(found: _Extents, name: str, role: Role, parameters: Values) -> None:
    """Whether every axis of a role that is spread has the extent of the result's axis, or 1."""
    known = {**numbers_of(parameters), **found.values}
    over = [_extent(chosen(text, parameters), known) for text in role.shape]
    own = found.shapes[name]
    wide = [1] * (len(own) - len(over)) + over
    if any(mine not in (1, extent) for mine, extent in zip(own, wide[len(wide) - len(own) :], strict=True)):
        while len(over) > 1 and over[0] == 1:
            over.pop(0)
        extents = "×".join(map(str, over))
        raise ShapeMismatch(name, f"'{name}' {list(own)} cannot be spread over {extents}, its axes {role.axes}")


def floating_operations(operation: Operation, shapes: Mapping[str, Shape], parameters: Values) -> float:
    """Multiplications and additions of the matrix products; 0.0 for what has none or is not known.

    Args:
        shapes: logical shape by role.
        parameters: evaluated.
    """
    if not operation.work:
        return 0.0
    try:
        extents = extents_of(operation, shapes, parameters)
        return float(evaluate(operation.work, {**numbers_of(parameters), **extents}.__getitem__))
    except (ShapeMismatch, ExpressionError, KeyError):
        return 0.0
