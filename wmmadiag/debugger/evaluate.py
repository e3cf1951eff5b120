"""Expressions of the source's scope: `wn * 32 + k0`, `acc[0][0]`, `row < n`, `B + k * N`, for the selected lane.

C's arithmetic on what `Session.variable` knows by name: integers divide towards zero, comparisons give 0 or 1, arrays
in global memory are pointers, in elements. What is
more than that (casts, calls, members) the compiler computes, where variables are kept (`kept.py`).
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from wmmadiag.debugger.fragment_view import FragmentView
from wmmadiag.debugger.local_variables import Local, UncopiedError
from wmmadiag.debugger.session import Session
from wmmadiag.errors import ConfigurationError


def _divided(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return a / b


def _remainder(a: Any, b: Any) -> Any:
    return a - b * _divided(a, b) if isinstance(a, int) and isinstance(b, int) else np.fmod(a, b)


_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: _divided, ast.Mod: _remainder,
    ast.LShift: operator.lshift, ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
_UNARY: dict[type, Callable[[Any], Any]] = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.inv}


@dataclass(frozen=True, slots=True, order=True)
class _PointerValue:
    """A pointer into global memory; arithmetic on it counts elements, as the source's does."""

    address: int
    item: int

    def __add__(self, count: object) -> _PointerValue:
        return _PointerValue(self.address + count * self.item, self.item) if isinstance(count, int) else NotImplemented

    __radd__ = __add__

    def __sub__(self, other: object) -> _PointerValue | int:
        if isinstance(other, _PointerValue) and other.item == self.item:
            return int(_divided(self.address - other.address, self.item))
        return self + -other if isinstance(other, int) else NotImplemented


_PointerValue.__name__ = "pointer"  # as Python's own messages say it


class _Compiled(Exception):
    """An expression that only the compiler understands."""


def is_expression(text: str) -> bool:
    """Whether a text is more than a name, an element or a register."""
    return re.search(r"[-+*/%<>=&|^~()!]", text) is not None and not text.startswith("%")


def evaluate(session: Session, text: str) -> int | float:
    """The value of an expression for the selected lane.

    Raises:
        ConfigurationError: it is none, or names what is not known here.
    """
    python = re.sub(r"!(?!=)", " not ", text.replace("&&", " and ").replace("||", " or ")).strip()
    python = re.sub(r"\b(\d+\.?\d*|\.\d+|0[xX][0-9a-fA-F]+)([uUlL]+|f)\b", r"\1", python)
    try:
        tree = ast.parse(python, mode="eval").body
    except SyntaxError:
        return _compiled(session, text)
    try:
        value = _value(session, tree, text)
    except _Compiled:
        return _compiled(session, text)
    except ZeroDivisionError:
        raise ConfigurationError(f"'{text}' divides by zero", hint="`info variables` shows the values") from None
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        raise ConfigurationError(
            f"'{text}' cannot be computed: {error}", hint="`info variables` shows the values"
        ) from None
    if isinstance(value, _PointerValue):
        return value.address
    return int(value) if isinstance(value, bool | np.bool_) else value


def element_at(session: Session, value: float) -> str:
    """The element of a named array in global memory whose address this number is; "" where it is none."""
    if isinstance(value, int) and any(
        one.space == "global" and one.start <= value < one.start + one.size for one in session.arrays.extents
    ):
        return session.arrays.name("global", value)
    return ""


def _compiled(session: Session, text: str) -> int | float:
    from wmmadiag.debugger.kept import evaluated

    value = evaluated(session, text)
    return int(value) if value.dtype.kind in "biu" else float(value)


def _value(session: Session, node: ast.expr, text: str) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        return _named(session, node, text)
    if isinstance(node, ast.UnaryOp):
        value = _value(session, node.operand, text)
        return not value if isinstance(node.op, ast.Not) else _UNARY[type(node.op)](value)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](_value(session, node.left, text), _value(session, node.right, text))
    if isinstance(node, ast.BoolOp):
        values = [bool(_value(session, one, text)) for one in node.values]
        return all(values) if isinstance(node.op, ast.And) else any(values)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _BINARY:
        return _BINARY[type(node.ops[0])](_value(session, node.left, text), _value(session, node.comparators[0], text))
    raise _Compiled


def _named(session: Session, node: ast.expr, text: str) -> int | float | _PointerValue:
    """A variable, a component such as threadIdx.x, or an element of an array or fragment."""
    indices: list[int] = []
    while isinstance(node, ast.Subscript):
        wanted = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        indices = [*(int(_value(session, one, text)) for one in wanted), *indices]
        node = node.value
    name = ast.unparse(node)
    if not isinstance(node, ast.Name) and not session.knows(name):
        raise _Compiled
    if name in session.fragment_names and len(indices) > 2:
        value: Any = session.fragment(name + "".join(f"[{one}]" for one in indices[:-2]))
        indices = indices[-2:]
    else:
        try:
            value = session.variable(name)
        except UncopiedError:  # the compiler reads it where the source could
            raise _Compiled from None
    if isinstance(value, FragmentView):
        if len(indices) != 2:
            raise ConfigurationError(f"'{name}' is a fragment", hint=f"an element of it: {name}[0][0], row and column")
        value = value.values
    if isinstance(value, Local):
        value = value.values[session.lane]
    array = np.asarray(value)
    if array.ndim != len(indices):
        if session.target.kept:  # a pointer, as the source has it
            raise _Compiled
        known, part = session.arrays.parts.get(name, (None, None))
        if known is not None and part is not None and known.space == "global" and not indices:
            return _PointerValue(known.start + part.offset, max(part.item, 1))
        raise ConfigurationError(
            f"'{name}' has {array.ndim} dimension{'s' * (array.ndim != 1)}", hint="give that many indices"
        )
    for axis, (index, extent) in enumerate(zip(indices, array.shape, strict=True)):
        if not 0 <= index < extent:
            raise ConfigurationError(f"index {index} of axis {axis} is outside of '{name}'", hint=f"it has {extent}")
    item = array[tuple(indices)]
    return int(item) if item.dtype.kind in "biu" else float(item)
