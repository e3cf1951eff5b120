"""An expression of integers at every value of one symbol at once, as `expressions` evaluates it at one."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag.ops.expressions import Number, parse

Whole: TypeAlias = NDArray[np.int64]
_LIMIT = 1 << 62
"""What no value reaches in between, so that int64 is exact."""
_EXACT = 1 << 53
"""Up to here float64 holds every integer, and a quotient of two is the rounded one."""
_OPERATIONS: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.FloorDiv: np.floor_divide, ast.Mod: np.mod,
    ast.LShift: np.left_shift, ast.RShift: np.right_shift, ast.BitAnd: np.bitwise_and, ast.BitOr: np.bitwise_or,
    ast.BitXor: np.bitwise_xor, ast.Eq: np.equal, ast.NotEq: np.not_equal, ast.Lt: np.less, ast.LtE: np.less_equal,
    ast.Gt: np.greater, ast.GtE: np.greater_equal,
}  # fmt: skip
_FUNCTIONS: Mapping[str, Callable[[Any, Any], Any]] = {"min": np.minimum, "max": np.maximum}


class _Other(Exception):
    """The expression needs more than integers of 64 bits, or cannot be evaluated."""


def each_whole(text: str, symbol: str, count: int, lookup: Callable[[str], Number]) -> NDArray[Any] | None:
    """The expression's values for 0, 1, … `count` - 1 in place of a symbol.

    Args:
        lookup: gives another symbol's value, or raises KeyError.

    Returns:
        int64, or float64 where the whole is one quotient, [count]; None where it is not all of integers below 2⁶²:
        `expressions.evaluate` does that one by one, and says what is wrong.
    """
    tree = parse(text)
    index = np.arange(count, dtype=np.int64)

    def value(node: ast.expr) -> Whole:
        match node:
            case ast.Constant(value=int(number)):
                return _whole(number)
            case ast.Name(id=name):
                return index if name == symbol else _whole(_looked_up(name, lookup))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -value(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
                return _of_two(op, value(left), value(right))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return _of_two(op, value(left), value(right))
            case ast.IfExp(test=test, body=body, orelse=other):
                return np.where(value(test) != 0, value(body), value(other))
            case ast.Call(func=ast.Name(id=name), args=[first, second]) if name in _FUNCTIONS:
                return np.asarray(_FUNCTIONS[name](value(first), value(second)))
        raise _Other

    try:
        if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Div):
            above, below = value(tree.left), value(tree.right)
            if not below.all() or max(_largest(above), _largest(below)) > _EXACT:
                return None
            return np.broadcast_to(above / below, (count,))
        return np.broadcast_to(value(tree), (count,))
    except _Other:
        return None


def _looked_up(name: str, lookup: Callable[[str], Number]) -> Number:
    try:
        return lookup(name)
    except (KeyError, ValueError):  # an expression of its own that hangs on the symbol, or one of the constants
        raise _Other from None


def _whole(number: Number) -> Whole:
    if not isinstance(number, int) or abs(number) >= _LIMIT:
        raise _Other
    return np.asarray(int(number), np.int64)


def _of_two(op: ast.AST, left: Whole, right: Whole) -> Whole:
    by, size = int(right.min(initial=0)), _largest(right)
    if isinstance(op, ast.FloorDiv | ast.Mod) and not right.all():
        raise _Other
    if isinstance(op, ast.LShift | ast.RShift) and (by < 0 or size > 62):
        raise _Other
    before = _largest(left)
    if isinstance(op, ast.Mult):
        most = before * size
    elif isinstance(op, ast.LShift):
        most = before << size
    else:
        most = before + size
    if most >= _LIMIT:
        raise _Other
    return np.asarray(_OPERATIONS[type(op)](left, right)).astype(np.int64)


def _largest(values: Whole) -> int:
    return int(np.abs(values).max(initial=0))
