"""The value of a constant C++ expression, from its tokens. What it does not understand has none."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from wmmadiag.diagnose.source.model import Number, Token

_NUMBER = re.compile(r"(0[xX][0-9a-fA-F']+|0[bB][01']+|\d[\d']*)[uUlLzZ]*")
# C++ [expr]: binary operators and how tightly they bind.
_BINDS = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7,
    "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}  # fmt: skip
_SIZES = {"char": 1, "half": 2, "__half": 2, "__nv_bfloat16": 2, "nv_bfloat16": 2, "short": 2, "int": 4, "float": 4}
_SIZES |= {"unsigned": 4, "double": 8, "int8_t": 1, "uint8_t": 1, "uint32_t": 4, "int32_t": 4, "uint4": 16, "int4": 16}
_CASTS = frozenset({"static_cast", "const_cast"})
_TYPES = frozenset({"int", "unsigned", "long", "size_t", "float", "double", "short", "char", "bool", "const"})
_FUNCTIONS: dict[str, Callable[..., Number]] = {
    "min": min,
    "max": max,
    "sqrtf": math.sqrt,
    "sqrt": math.sqrt,
    "rsqrtf": lambda x: 1 / math.sqrt(x),
}
_DEEP = 60


class Unknown(Exception):
    """A name without a value, or a construct that is not understood."""


def literal(text: str) -> Number | None:
    """The value of a numeric literal."""
    match = _NUMBER.fullmatch(text)
    if match is not None:
        digits = match[1].replace("'", "")
        octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
        try:
            return int(digits, 8 if octal else 0)
        except ValueError:
            return None
    try:
        return float(text.rstrip("fFlL").replace("'", "")) if text[:2] not in ("0x", "0X") else None
    except ValueError:
        return None


def evaluate(tokens: Sequence[Token], lookup: Callable[[str], Number | None]) -> Number | None:
    """The value of an expression, None where a name has none (`lookup` says) or a construct is not understood."""
    if not tokens or len(tokens) > 200:
        return None
    if len(tokens) == 1:
        return literal(tokens[0].text) if tokens[0].kind == "num" else lookup(tokens[0].text)
    reader = Reader(tokens, lookup)
    try:
        value: Number = reader.ternary(0)
    except (Unknown, ArithmeticError, ValueError, TypeError):
        return None
    return value if reader.at == len(tokens) else None


class Reader:
    """Reads an expression from its tokens. What values are, and what operators make of them, a subclass may change."""

    def __init__(self, tokens: Sequence[Token], lookup: Callable[[str], Number | None]) -> None:
        self.tokens = tokens
        self.lookup = lookup
        self.at = 0

    def operate(self, operator: str, a: Any, b: Any) -> Any:
        """The value of a binary operator."""
        return _apply(operator, a, b)

    def signed(self, operator: str, value: Any) -> Any:
        """The value of a unary operator."""
        if operator == "~":
            return ~int(value)
        return -value if operator == "-" else int(not value) if operator == "!" else value

    def chosen(self, condition: Any, yes: Any, no: Any) -> Any:
        """`condition ? yes : no`."""
        return yes if condition else no

    def whole(self, value: Any) -> Any:
        """The value as an integer."""
        return int(value)

    def applied(self, name: str, arguments: Sequence[Any]) -> Any:
        """The value of a call."""
        function = _FUNCTIONS.get(name)
        if function is None:
            raise Unknown
        return function(*arguments)

    def peek(self) -> str:
        return self.tokens[self.at].text if self.at < len(self.tokens) else ""

    def take(self, text: str) -> None:
        if self.peek() != text:
            raise Unknown
        self.at += 1

    def ternary(self, depth: int) -> Any:
        if depth > _DEEP:
            raise Unknown
        value = self.binary(1, depth + 1)
        if self.peek() != "?":
            return value
        self.at += 1
        yes = self.ternary(depth + 1)
        self.take(":")
        no = self.ternary(depth + 1)
        return self.chosen(value, yes, no)

    def binary(self, least: int, depth: int) -> Any:
        if depth > _DEEP:
            raise Unknown
        left = self.unary(depth + 1)
        while True:
            operator = self.peek()
            if operator == ">" and self.at + 1 < len(self.tokens) and self.tokens[self.at + 1].text == ">":
                operator = ">>"
            binds = _BINDS.get(operator, 0)
            if binds < least:
                return left
            self.at += 2 if operator == ">>" else 1
            left = self.operate(operator, left, self.binary(binds + 1, depth + 1))

    def unary(self, depth: int) -> Any:
        if depth > _DEEP:
            raise Unknown
        text = self.peek()
        if text in ("-", "+", "!", "~"):
            self.at += 1
            return self.signed(text, self.unary(depth + 1))
        return self.primary(depth)

    def primary(self, depth: int) -> Any:
        if self.at >= len(self.tokens):
            raise Unknown
        token = self.tokens[self.at]
        self.at += 1
        if token.kind == "num":
            return _known(literal(token.text))
        if token.text == "(":
            inside = self.at
            while self.peek() in _TYPES:
                self.at += 1
            if self.at > inside and self.peek() == ")":  # a cast
                whole = "float" not in self._words(inside) and "double" not in self._words(inside)
                self.at += 1
                value = self.unary(depth + 1)
                return self.whole(value) if whole else value
            self.at = inside
            value = self.ternary(depth + 1)
            self.take(")")
            return value
        if token.kind != "id":
            raise Unknown
        if token.text in ("true", "false"):
            return int(token.text == "true")
        if token.text in _CASTS:
            self.take("<")
            inside = self.at
            while self.peek() not in (">", ""):
                self.at += 1
            whole = "float" not in self._words(inside) and "double" not in self._words(inside)
            self.take(">")
            self.take("(")
            value = self.ternary(depth + 1)
            self.take(")")
            return self.whole(value) if whole else value
        if token.text == "sizeof":
            self.take("(")
            inside = self.at
            while self.peek() not in (")", ""):
                self.at += 1
            words = self._words(inside)
            self.take(")")
            return _known(_SIZES.get(words[-1]) if words else None)
        name = token.text
        while self.peek() == "::":
            self.at += 1
            name = self.peek()
            self.at += 1
        if self.peek() == "(":
            return self.call(name, depth)
        while self.peek() in (".", "->"):  # a member is one name to `lookup`: `p.seq`
            self.at += 1
            name = f"{name}.{self.peek()}"
            self.at += 1
        return _known(self.lookup(name))

    def call(self, name: str, depth: int) -> Any:
        self.take("(")
        arguments = [self.ternary(depth + 1)]
        while self.peek() == ",":
            self.at += 1
            arguments.append(self.ternary(depth + 1))
        self.take(")")
        return self.applied(name, arguments)

    def _words(self, start: int) -> list[str]:
        return [token.text for token in self.tokens[start : self.at]]


def _known(value: Number | None) -> Number:
    if value is None:
        raise Unknown
    return value


def _apply(operator: str, a: Number, b: Number) -> Number:
    """C's arithmetic; quotient and remainder of integers are truncated toward zero."""
    whole = isinstance(a, int) and isinstance(b, int)
    if operator == "+":
        return a + b
    if operator == "-":
        return a - b
    if operator == "*":
        return a * b
    if operator in ("/", "%"):
        if not whole:
            if operator == "%":
                raise Unknown
            return a / b
        quotient = abs(int(a)) // abs(int(b)) * (1 if (a < 0) == (b < 0) else -1)
        return quotient if operator == "/" else a - b * quotient
    if operator in ("<<", ">>", "&", "|", "^"):
        x, y = int(a), int(b)
        if operator in ("<<", ">>"):
            if not 0 <= y < 64:
                raise Unknown
            return x << y if operator == "<<" else x >> y
        return x & y if operator == "&" else x | y if operator == "|" else x ^ y
    return int(_COMPARISONS[operator](a, b))


_COMPARISONS: dict[str, Callable[[Number, Number], bool]] = {
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "&&": lambda a, b: bool(a) and bool(b),
    "||": lambda a, b: bool(a) or bool(b),
}
