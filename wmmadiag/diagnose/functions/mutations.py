"""What a node of a function's text may become: one change each, as mistakes in kernels are made.

Functions here take a node of a copy of the tree and give what stands in its place.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

Make: TypeAlias = Callable[[Any], "ast.AST | None"]

_COMPARISONS: Mapping[type[ast.cmpop], tuple[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
}  # fmt: skip
"""Of a comparison: the one that differs where both sides are equal, and the opposite."""
_SIBLINGS: Mapping[str, tuple[str, ...]] = {
    "exp": ("exp2",), "exp2": ("exp",), "maximum": ("minimum",), "minimum": ("maximum",), "max": ("min",),
    "tanh": ("sinh",), "log": ("log2",), "log2": ("log",),
}  # fmt: skip
_TRIANGLES = frozenset({"tri", "tril", "triu"})
"""Functions of NumPy with a diagonal `k` from which they begin, or at which they end."""
_MADE = frozenset({"zeros", "ones", "empty", "full", "arange", "zeros_like", "empty_like", "ones_like", "full_like"})
"""Functions whose arguments say how much is made, not of what."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One change of a node.

    Attributes:
        hypothesis: id of what would cause it.
        model: stable name of the change.
        make: gives what stands in the node's place; None: the statement is left out.
        strict: whether < is taken for <=, or the reverse.
        sign: whether + is taken for -, or the reverse.
    """

    hypothesis: str
    model: str
    make: Make
    strict: bool = False
    sign: bool = False


def rewrites(node: ast.AST, function: ast.FunctionDef) -> Iterator[tuple[int, Rewrite]]:
    """(how late it is tried, change) of one node."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield from _of_comparison(node, function)
    elif isinstance(node, ast.BoolOp):
        for number in range(len(node.values)):
            yield 0, Rewrite("guard-condition", "left-out", partial(_without, number=number))
    elif isinstance(node, ast.BinOp):
        yield from _of_operation(node)
    elif isinstance(node, ast.AugAssign):
        yield 2, Rewrite("guard-condition" if _logical(node.op) else "card-mismatch", "left-out", _nothing)
        yield 2, Rewrite("tile-overwritten", "overwritten", _assigned)
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        yield 1, Rewrite("guard-condition", "left-out", _nothing)
    elif isinstance(node, ast.Slice):
        yield from _of_slice(node)
    elif isinstance(node, (ast.If, ast.IfExp)):
        for value in (True, False):
            yield 2, Rewrite("guard-condition", "always", partial(_with_test, value=value))
    elif isinstance(node, ast.Call):
        yield from _of_call(node)
    elif isinstance(node, ast.Attribute) and node.attr == "T":
        yield 1, Rewrite("operand-layout", "transposed", _value)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        counters = _counters(function)
        others: tuple[str | int, ...] = (*sorted(counters - {node.id}), 0, 1, -1) if node.id in counters else ()
        for index in others:
            yield 1, Rewrite("index-arithmetic", "other-index", partial(_other_index, other=index))
    elif isinstance(node, ast.Constant):
        for number_ in _other_numbers(node.value):
            yield 3, Rewrite("card-mismatch", "number", partial(_number, value=number_))


def _of_comparison(node: ast.Compare, function: ast.FunctionDef) -> Iterator[tuple[int, Rewrite]]:
    known = _COMPARISONS.get(type(node.ops[0]))
    if known is not None:
        for op, strict in zip(known, (True, False), strict=True):
            yield 0, Rewrite("guard-condition", "compared", partial(_comparing, op=op), strict)
    for step in (1, -1):
        yield 1, Rewrite("guard-condition", "compared", partial(_compared_with, more=step))
    for name in sorted(_counters(function)):
        yield 2, Rewrite("index-arithmetic", "compared", partial(_compared_with, more=name))


def _of_operation(node: ast.BinOp) -> Iterator[tuple[int, Rewrite]]:
    op = type(node.op)
    if _logical(node.op):
        yield 0, Rewrite("guard-condition", "left-out", _left)
        yield 0, Rewrite("guard-condition", "left-out", _right)
    elif op in (ast.FloorDiv, ast.Mod):
        other = ast.Mod if op is ast.FloorDiv else ast.FloorDiv
        yield 0, Rewrite("index-arithmetic", "divided", partial(_operating, op=other))
        yield 0, Rewrite("index-arithmetic", "divided", _left)
    elif op in (ast.Add, ast.Sub):
        yield 1, Rewrite("index-arithmetic", "term", _left)
        if op is ast.Add:
            yield 1, Rewrite("index-arithmetic", "term", _right)
        opposite = partial(_operating, op=ast.Sub if op is ast.Add else ast.Add)
        yield 2, Rewrite("card-mismatch", "sign", opposite, sign=True)
    elif op is ast.Mult:
        yield 1, Rewrite("card-mismatch", "factor", _left)
        yield 1, Rewrite("card-mismatch", "factor", _right)
        yield 2, Rewrite("card-mismatch", "factor", partial(_operating, op=ast.Div))
    elif op is ast.Div:
        yield 1, Rewrite("normalisation", "divisor", _left)
        yield 2, Rewrite("card-mismatch", "divisor", partial(_operating, op=ast.Mult))
    elif op is ast.MatMult:
        yield 3, Rewrite("operand-layout", "transposed", _right_transposed)
        yield 3, Rewrite("operand-layout", "transposed", _left_transposed)


def _of_slice(node: ast.Slice) -> Iterator[tuple[int, Rewrite]]:
    if node.upper is not None:
        yield 0, Rewrite("tail-masking", "end", partial(_sliced, lower=0, upper=None))
        for step in (1, -1):
            yield 1, Rewrite("loop-extent", "end", partial(_sliced, lower=0, upper=step))
    if node.lower is not None:
        yield 1, Rewrite("index-arithmetic", "start", partial(_sliced, lower=None, upper=0))
        for step in (1, -1):
            yield 2, Rewrite("loop-extent", "start", partial(_sliced, lower=step, upper=0))
    if node.upper is not None and node.lower is not None:
        yield 2, Rewrite("tail-masking", "end", partial(_sliced, lower=None, upper=None))


def _of_call(node: ast.Call) -> Iterator[tuple[int, Rewrite]]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    for other in _SIBLINGS.get(name, ()):
        hypothesis = "exp-base" if name.startswith("exp") else "card-mismatch"
        yield 1, Rewrite(hypothesis, "other-function", partial(_calling_other, name=other))
    if node.args and name not in _MADE and not any(isinstance(one, ast.Starred) for one in node.args):
        yield 2, Rewrite("card-mismatch", "no-function", partial(_argument, number=0))
    if name in _TRIANGLES:
        for step in (-1, 1):
            yield 0, Rewrite("guard-condition", "diagonal", partial(_other_diagonal, step=step), strict=True)
    if len(node.args) == 3 and name == "where":
        yield 0, Rewrite("guard-condition", "no-condition", partial(_argument, number=1))
        yield 0, Rewrite("guard-condition", "no-condition", partial(_argument, number=2))


def _other_numbers(value: object) -> tuple[int | float, ...]:
    if type(value) is int:
        return value + 1, value - 1
    if type(value) is float:
        return tuple(other for other in (2 * value, value / 2, 1.0) if other != value)
    return ()


def _counters(function: ast.FunctionDef) -> frozenset[str]:
    """Names that a function's loops count with."""
    found: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, (ast.For, ast.comprehension)):
            found |= {one.id for one in ast.walk(node.target) if isinstance(one, ast.Name)}
    return frozenset(found)


def _logical(op: ast.operator) -> bool:
    return isinstance(op, (ast.BitAnd, ast.BitOr))


def _nothing(node: Any) -> None:
    del node


def _left(node: Any) -> ast.expr:
    return node.left  # type: ignore[no-any-return]


def _right(node: Any) -> ast.expr:
    return node.right  # type: ignore[no-any-return]


def _value(node: Any) -> ast.expr:
    return node.value  # type: ignore[no-any-return]


def _argument(node: Any, number: int) -> ast.expr:
    return node.args[number]  # type: ignore[no-any-return]


def _number(node: Any, value: float) -> ast.expr:
    del node
    return ast.Constant(value)


def _assigned(node: Any) -> ast.stmt:
    return ast.Assign([node.target], node.value)


def _operating(node: Any, op: type[ast.operator]) -> ast.expr:
    return ast.BinOp(node.left, op(), node.right)


def _comparing(node: Any, op: type[ast.cmpop]) -> ast.expr:
    return ast.Compare(node.left, [op()], node.comparators)


def _compared_with(node: Any, more: int | str) -> ast.expr:
    return ast.Compare(node.left, node.ops, [_plus(node.comparators[0], more)])


def _plus(node: ast.expr, more: int | str) -> ast.expr:
    if isinstance(node, ast.Constant) and type(node.value) is int and isinstance(more, int):
        return ast.Constant(node.value + more)
    if isinstance(more, str):
        return ast.BinOp(node, ast.Add(), ast.Name(more, ast.Load()))
    return ast.BinOp(node, ast.Add() if more > 0 else ast.Sub(), ast.Constant(abs(more)))


def _sliced(node: Any, lower: int | None, upper: int | None) -> ast.expr:
    """Ends that lie so much further on; None: no end."""
    first, last = (
        None if more is None or end is None else _plus(end, more) if more else end
        for end, more in ((node.lower, lower), (node.upper, upper))
    )
    return ast.Slice(first, last, node.step)


def _without(node: Any, number: int) -> ast.expr:
    values = [one for at, one in enumerate(node.values) if at != number]
    return values[0] if len(values) == 1 else ast.BoolOp(node.op, values)


def _with_test(node: Any, value: bool) -> ast.AST:
    if isinstance(node, ast.IfExp):
        return node.body if value else node.orelse
    return ast.If(ast.Constant(value), node.body, node.orelse)


def _transposed(node: ast.expr) -> ast.expr:
    return ast.Attribute(node, "T", ast.Load())


def _right_transposed(node: Any) -> ast.expr:
    return ast.BinOp(node.left, node.op, _transposed(node.right))


def _left_transposed(node: Any) -> ast.expr:
    return ast.BinOp(_transposed(node.left), node.op, node.right)


def _calling_other(node: Any, name: str) -> ast.expr:
    return ast.Call(ast.Attribute(node.func.value, name, ast.Load()), node.args, node.keywords)


def _other_diagonal(node: Any, step: int) -> ast.expr:
    known = next((one.value for one in node.keywords if one.arg == "k"), ast.Constant(0))
    others = [one for one in node.keywords if one.arg != "k"]
    return ast.Call(node.func, node.args, [*others, ast.keyword("k", _plus(known, step))])


def _other_index(node: Any, other: str | int) -> ast.expr:
    if isinstance(other, str):
        return ast.Name(other, ast.Load())
    return ast.Constant(0) if other == 0 else _plus(node, other)
