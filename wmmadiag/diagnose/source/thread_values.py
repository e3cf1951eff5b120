"""Values of expressions for all threads of a launch at once: arrays over the threads, numbers, or addresses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from wmmadiag.diagnose.source.evaluate import Reader, Unknown
from wmmadiag.diagnose.source.model import Token

_OWN = frozenset({"true", "false", "static_cast", "const_cast", "sizeof"})
_COMPARED = {
    "<": np.less, ">": np.greater, "<=": np.less_equal, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
}  # fmt: skip
_BITS = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "<<": np.left_shift, ">>": np.right_shift, "&": np.bitwise_and,
    "|": np.bitwise_or, "^": np.bitwise_xor,
}  # fmt: skip
_SIZES = {"char": 1, "half": 2, "__half": 2, "__nv_bfloat16": 2, "half2": 4, "__half2": 4, "float": 4, "int": 4}
_SIZES |= {
    "uint32_t": 4,
    "float2": 8,
    "uint2": 8,
    "float4": 16,
    "uint4": 16,
    "int4": 16,
    "unsigned": 4,
    "unsigned char": 1,
}


@dataclass(frozen=True)
class Pointer:
    """An address: the offset of the name of the array or pointer it starts from, and elements from there.

    `dims`: extents of what it points to, of an array of several dimensions. `width`: bytes that a store through it
    writes, 0 for one element.
    """

    base: int
    at: Any
    dims: tuple[int, ...] = ()
    width: int = 0


class Names(Protocol):
    """What names mean to the threads that an expression is evaluated for."""

    def builtin(self, name: str, axis: str) -> Any:
        """`threadIdx.x` and the like."""

    def named(self, name: str, offset: int) -> Any:
        """A variable at an offset of the source."""


def moved(operator: str, a: Any, b: Any) -> Any:
    """Sum or difference where one may be an address."""
    if isinstance(a, Pointer) and not isinstance(b, Pointer) and operator in ("+", "-"):
        step = int(np.prod(a.dims[1:])) if a.dims else 1
        return replace(a, at=a.at + b * step if operator == "+" else a.at - b * step)
    if isinstance(b, Pointer) and not isinstance(a, Pointer) and operator == "+":
        return moved("+", b, a)
    raise Unknown


class Lanes(Reader):
    """Expressions of all threads at once: values are arrays over the threads, numbers, or addresses."""

    def __init__(self, tokens: Sequence[Token], threads: Names) -> None:
        super().__init__(tokens, lambda _: None)
        self._threads = threads

    def place(self) -> Pointer:
        """What the left side of an assignment names."""
        value = self.unary(0, lvalue=True)
        if self.at != len(self.tokens) or not isinstance(value, Pointer):
            raise Unknown
        return value

    def operate(self, operator: str, a: Any, b: Any) -> Any:
        if isinstance(a, Pointer) or isinstance(b, Pointer):
            return moved(operator, a, b)
        if not isinstance(a, np.ndarray) and not isinstance(b, np.ndarray):
            return super().operate(operator, a, b)
        if operator in ("/", "%"):
            if np.any(np.asarray(b) == 0):
                raise Unknown
            quotient = np.where((np.asarray(a) < 0) != (np.asarray(b) < 0), -(abs(a) // abs(b)), abs(a) // abs(b))
            return quotient if operator == "/" else a - b * quotient
        if operator in ("&&", "||"):
            one, two = np.asarray(a) != 0, np.asarray(b) != 0
            return ((one & two) if operator == "&&" else (one | two)).astype(np.int64)
        if operator in _COMPARED:
            return _COMPARED[operator](a, b).astype(np.int64)
        if operator in ("<<", ">>") and not np.all((np.asarray(b) >= 0) & (np.asarray(b) < 63)):
            raise Unknown
        return _BITS[operator](a, b)

    def signed(self, operator: str, value: Any) -> Any:
        if isinstance(value, Pointer):
            raise Unknown
        if not isinstance(value, np.ndarray):
            return super().signed(operator, value)
        return {"-": -value, "~": ~value, "!": (value == 0).astype(np.int64)}.get(operator, value)

    def chosen(self, condition: Any, yes: Any, no: Any) -> Any:
        if any(isinstance(one, Pointer) for one in (condition, yes, no)):
            raise Unknown
        return (
            np.where(np.asarray(condition) != 0, yes, no)
            if isinstance(condition, np.ndarray)
            else yes
            if condition
            else no
        )

    def whole(self, value: Any) -> Any:
        return value if isinstance(value, (np.ndarray, Pointer)) else int(value)

    def applied(self, name: str, arguments: Sequence[Any]) -> Any:
        if name in ("min", "max") and not any(isinstance(one, Pointer) for one in arguments):
            found = (np.minimum if name == "min" else np.maximum)(*arguments)
            return found if isinstance(found, np.ndarray) else int(found)
        raise Unknown

    def unary(self, depth: int, lvalue: bool = False) -> Any:
        text = self.peek()
        if text == "&":
            self.at += 1
            return self.unary(depth + 1, lvalue=True)
        if text == "*" and lvalue:
            self.at += 1
            return self.unary(depth + 1)
        if text in ("-", "+", "!", "~"):
            return super().unary(depth)
        return self._element(depth, lvalue)

    def _element(self, depth: int, lvalue: bool) -> Any:
        value = self.primary(depth)
        while self.peek() == "[":
            if not isinstance(value, Pointer):
                raise Unknown
            self.at += 1
            index = self.ternary(depth + 1)
            self.take("]")
            value = replace(moved("+", value, index), dims=value.dims[1:])
            if not value.dims and not lvalue:
                raise Unknown  # what memory holds
        return value

    def primary(self, depth: int) -> Any:
        token = self.tokens[self.at] if self.at < len(self.tokens) else None
        if token is None:
            raise Unknown
        if token.text == "reinterpret_cast":
            return self._recast(depth)
        following = self.tokens[self.at + 1].text if self.at + 1 < len(self.tokens) else ""
        if token.kind != "id" or following in ("(", "::") or token.text in _OWN:
            return super().primary(depth)
        self.at += 1
        if following == ".":
            axis = self.tokens[self.at + 1].text if self.at + 1 < len(self.tokens) else ""
            self.at += 2
            return self._threads.builtin(token.text, axis)
        return self._threads.named(token.text, token.offset)

    def _recast(self, depth: int) -> Any:
        self.at += 1
        self.take("<")
        words = []
        while self.peek() not in (">", ""):
            words.append(self.peek())
            self.at += 1
        self.take(">")
        self.take("(")
        value = self.ternary(depth + 1)
        self.take(")")
        size = _SIZES.get(" ".join(word for word in words if word not in ("*", "const")))
        if not isinstance(value, Pointer) or size is None or value.dims:
            raise Unknown
        return replace(value, width=size)
