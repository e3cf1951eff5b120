"""The value of a local variable that is defined once, from its definition: in integers, for each lane of a warp.

Index arithmetic (`const int row = blockIdx.x * 16 + threadIdx.x / 32`) is made of built-in variables, constants, kernel
arguments and other such variables. What a variable holds follows from that even where the compiler kept no register of
it. Anything else (memory, calls, loop counters, a value that unsigned arithmetic would wrap) is not evaluated:
`diagnose.source.evaluate` is for constants, and needs no such care.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from wmmadiag.diagnose.source.model import SourceModel, Span, Token, Variable

Lanes: TypeAlias = NDArray[np.int64]
Known: TypeAlias = Callable[[str], "Lanes | None"]

_BINARY: Sequence[Mapping[str, Callable[[Lanes, Lanes], Any]]] = (
    {"||": lambda a, b: (a != 0) | (b != 0)},
    {"&&": lambda a, b: (a != 0) & (b != 0)},
    {"|": np.bitwise_or},
    {"^": np.bitwise_xor},
    {"&": np.bitwise_and},
    {"==": np.equal, "!=": np.not_equal},
    {"<": np.less, ">": np.greater, "<=": np.less_equal, ">=": np.greater_equal},
    {"<<": np.left_shift, ">>": np.right_shift},
    {"+": np.add, "-": np.subtract},
    {"*": np.multiply, "/": np.floor_divide, "%": np.remainder},
)
"""Binary operators of C++, the loosest first. (ISO C++ 2017, [expr])"""
_WRAPS = frozenset({"+", "-", "*", "&", "|", "^"})
"""Operators whose low bits do not depend on whether the operands are signed."""
_INTEGERS = frozenset({"int", "unsigned", "long", "size_t", "uint32_t", "int32_t", "uint64_t", "int64_t", "short"})
_LARGEST = 1 << 62


class _Unknown(Exception):
    """The expression has something that is not evaluated."""


@dataclass(slots=True)
class _Reader:
    """Evaluates tokens from left to right by precedence."""

    tokens: Sequence[Token]
    known: Callable[[Token, str], Lanes]
    at: int = 0

    @property
    def text(self) -> str:
        if self.at >= len(self.tokens):
            return ""
        return self.tokens[self.at].text * (2 if self._shift else 1)

    @property
    def _shift(self) -> bool:
        """Whether two angle brackets here are one operator; the model keeps them apart for the sake of templates."""
        pair = self.tokens[self.at : self.at + 2]
        return (
            len(pair) == 2 and pair[0].text in "<>" and pair[0].text == pair[1].text and pair[0].end == pair[1].offset
        )

    def take(self, text: str) -> None:
        if self.text != text:
            raise _Unknown
        self.at += 1

    def ternary(self) -> Lanes:
        condition = self.binary(0)
        if self.text != "?":
            return condition
        self.at += 1
        yes = self.ternary()
        self.take(":")
        no = self.ternary()
        return np.where(condition != 0, yes, no)

    def binary(self, level: int) -> Lanes:
        if level == len(_BINARY):
            return self.unary()
        left = self.binary(level + 1)
        while self.text in _BINARY[level]:
            operator = self.text
            self.at += 2 if self._shift else 1
            right = self.binary(level + 1)
            if operator not in _WRAPS and ((left < 0).any() or (right < 0).any()):
                raise _Unknown  # signed and unsigned operands differ here
            if operator in ("/", "%") and (right == 0).any():
                raise _Unknown
            left = np.asarray(_BINARY[level][operator](left, right)).astype(np.int64)
            if (np.abs(left) > _LARGEST).any():
                raise _Unknown
        return left

    def unary(self) -> Lanes:
        if self.text in ("-", "+", "!"):
            sign = self.text
            self.at += 1
            value = self.unary()
            return -value if sign == "-" else value if sign == "+" else (value == 0).astype(np.int64)
        if self.text == "(":
            self.at += 1
            if self._cast(")"):
                return self.unary()
            value = self.ternary()
            self.take(")")
            return value
        return self.primary()

    def _cast(self, end: str) -> bool:
        """Skip the name of an integer type that is all there is up to the end."""
        last = self.at
        while last < len(self.tokens) and self.tokens[last].text in _INTEGERS | {"const", "std", "::"}:
            last += 1
        if last == self.at or last >= len(self.tokens) or self.tokens[last].text != end:
            return False
        self.at = last + 1
        return True

    def primary(self) -> Lanes:
        token = self.tokens[self.at] if self.at < len(self.tokens) else None
        if token is None:
            raise _Unknown
        self.at += 1
        if token.kind == "num":
            try:
                return np.full(32, int(token.text.rstrip("uUlL").replace("'", ""), 0), np.int64)
            except ValueError:
                raise _Unknown from None
        if token.kind != "id":
            raise _Unknown
        if token.text == "static_cast":
            self.take("<")
            if not self._cast(">"):
                raise _Unknown
            self.take("(")
            value = self.ternary()
            self.take(")")
            return value
        if token.text in ("min", "max") and self.text == "(":
            self.at += 1
            first = self.ternary()
            self.take(",")
            second = self.ternary()
            self.take(")")
            return np.minimum(first, second) if token.text == "min" else np.maximum(first, second)
        name = token.text
        if self.text == "." and self.at + 1 < len(self.tokens):
            name += "." + self.tokens[self.at + 1].text
            self.at += 2
        if self.text in ("(", "[", ".", "->", "::"):
            raise _Unknown
        return self.known(token, name)


def defined_value(model: SourceModel, variable: Variable, outside: Known, depth: int = 16) -> Lanes | None:
    """What a variable holds in each of 32 lanes by its definition; None where that does not tell.

    Args:
        outside: what built-in variables ("threadIdx.x") and arguments of the kernel hold.
    """
    initial = variable.initial
    if initial is None or depth == 0 or variable.dims or variable.pointer or variable.reference:
        return None
    if variable.kind != "local" or _size(variable) is None or not _set_once(model, variable):
        return None

    def known(token: Token, name: str) -> Lanes:
        other = model.variable(name, token.offset)
        value: Lanes | None = None
        if other is not None and other.kind == "local":
            value = defined_value(model, other, outside, depth - 1)
        elif other is None or other.kind in ("parameter", "global"):
            constant = model.constants.get(name)
            if isinstance(constant, int) and (other is None or other.kind == "global"):
                value = np.full(32, constant, np.int64)
            elif other is None or _of_kernel(model, other):
                value = outside(name)
        if value is None:
            raise _Unknown
        return value

    try:
        reader = _Reader(_tokens(model, initial), known)
        value = reader.ternary()
        if reader.at != len(reader.tokens):
            return None
    except _Unknown:
        return None
    size = _size(variable)
    if size == 0:
        return np.asarray(value != 0, np.int64)
    words = variable.type.split()
    if "unsigned" in words or any(word.startswith(("uint", "size_t")) for word in words):
        return None if (value < 0).any() else value
    return value if size == 8 else np.asarray(value.astype(np.int32), np.int64)


def _tokens(model: SourceModel, span: Span) -> Sequence[Token]:
    tokens = model.tokens[span.first : span.last]
    return tokens[1:-1] if tokens and tokens[0].text == "{" else tokens


def _size(variable: Variable) -> int | None:
    """Bytes of an integer, 0 for bool, None for what is no integer."""
    words = [word.rpartition("::")[2] for word in variable.type.split()]
    words = [word for word in words if word not in ("const", "constexpr", "volatile")]
    if words == ["bool"]:
        return 0
    if not words or not set(words) <= _INTEGERS | {"signed"} or "short" in words:
        return None
    return 8 if {"long", "size_t", "uint64_t", "int64_t"} & set(words) else 4


def _of_kernel(model: SourceModel, parameter: Variable) -> bool:
    function = model.function_at(parameter.visible[0])
    return function is not None and function.kernel and parameter.kind == "parameter" and _set_once(model, parameter)


def _set_once(model: SourceModel, variable: Variable) -> bool:
    """Whether nothing but its definition can change it."""
    if variable.const:
        return True
    first, last = variable.visible
    names = [i for i, t in enumerate(model.tokens) if t.text == variable.name and first <= t.offset < last]
    for at in names:
        before = model.tokens[at - 1].text if at else ""
        after = model.tokens[at + 1].text if at + 1 < len(model.tokens) else ""
        changed = after in ("=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "|=", "^=", "++", "--")
        if (changed and model.tokens[at].offset != variable.name_at) or before in ("++", "--", "&", "&&"):
            return False
    # A function may take it by reference.
    own = {function.name: function for function in model.functions}
    for call in model.calls:
        for position, argument in enumerate(call.arguments):
            if argument.text.strip() == variable.name and first <= call.start < last:
                function = own.get(call.name)
                parameters = () if function is None else function.parameters[position : position + 1]
                if any(one.reference and not one.const for one in parameters):
                    return False
    return True
