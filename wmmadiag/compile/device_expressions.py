"""Values of integer and pointer expressions of device code, where the source says them plainly.

Integers, names, arithmetic, comparisons, `?:`, casts, `sizeof`, and pointers made of one: `smem + 64 * 72`,
`reinterpret_cast<float*>(&smem[n])`. What is not that has no value; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from wmmadiag.compile.lexer import Token


@dataclass(frozen=True, slots=True)
class Pointer:
    """`offset` bytes after the start of the array `base`, to elements of `size` bytes (0: not known)."""

    base: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class _Place:
    """What `*p` and `p[i]` name."""

    at: Pointer


Value: TypeAlias = "int | Pointer | _Place"
TypeBytes: TypeAlias = Callable[[str], "int | None"]


class NoValue(Exception):
    """The expression has no value that the source alone tells."""


_LEVELS: tuple[tuple[str, ...], ...] = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"),
)  # fmt: skip
_TWO = frozenset({"||", "&&", "==", "!=", "<=", ">=", "<<", ">>"})
_CASTS = frozenset({"reinterpret_cast", "static_cast", "const_cast"})
_PLAIN: Mapping[str, Callable[[int, int], int]] = {
    "|": int.__or__, "^": int.__xor__, "&": int.__and__, "+": int.__add__, "-": int.__sub__, "*": int.__mul__,
    "||": lambda a, b: int(bool(a) or bool(b)), "&&": lambda a, b: int(bool(a) and bool(b)),
    "==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b), "<": lambda a, b: int(a < b),
    ">": lambda a, b: int(a > b), "<=": lambda a, b: int(a <= b), ">=": lambda a, b: int(a >= b),
}  # fmt: skip
_MOST_SHIFT = 63
_DEPTH = 40


def evaluate(tokens: Sequence[Token], names: Callable[[str], int | Pointer], type_bytes: TypeBytes) -> int | Pointer:
    """The value of an expression.

    Args:
        names: the value of a name; raises `NoValue`.
        type_bytes: the size of a type's text ("half", "float4"), None for what is no known type.

    Raises:
        NoValue: the tokens are anything else.
    """
    parser = _Parser([token for token in tokens if token.kind != "directive"], names, type_bytes)
    try:
        value = parser.value(parser.ternary())
    except RecursionError:
        raise NoValue from None
    if parser.at != len(parser.words):
        raise NoValue
    return value


class _Parser:
    def __init__(self, words: list[Token], names: Callable[[str], int | Pointer], type_bytes: TypeBytes) -> None:
        self.words, self.names, self.type_bytes = words, names, type_bytes
        self.at = 0
        self.depth = 0

    def next(self, ahead: int = 0) -> str:
        index = self.at + ahead
        return self.words[index].text if index < len(self.words) else ""

    def take(self, text: str) -> None:
        if self.next() != text:
            raise NoValue
        self.at += 1

    def ternary(self) -> Value:
        self.depth += 1
        if self.depth > _DEPTH:
            raise NoValue
        condition = self.binary(0)
        if self.next() == "?":
            self.at += 1
            yes = self.ternary()
            self.take(":")
            no = self.ternary()
            condition = yes if self.integer(condition) else no
        self.depth -= 1
        return condition

    def binary(self, level: int) -> Value:
        if level == len(_LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while (operator := self.operator(level)) != "":
            left = self.combine(operator, left, self.binary(level + 1))
        return left

    def operator(self, level: int) -> str:
        """The operator of this level that comes next, taken; one of two characters is two tokens."""
        word, length = self.next(), 1
        if word + self.next(1) in _TWO and self.words[self.at].end == self.words[self.at + 1].start:
            word, length = word + self.next(1), 2
        if word not in _LEVELS[level]:
            return ""
        self.at += length
        return word

    def combine(self, operator: str, left: Value, right: Value) -> Value:
        a, b = self.value(left), self.value(right)
        if isinstance(b, Pointer) and operator == "+" and not isinstance(a, Pointer):
            a, b = b, a
        if isinstance(a, Pointer):
            if isinstance(b, Pointer) or operator not in ("+", "-") or a.size == 0:
                raise NoValue
            return replace(a, offset=a.offset + (b if operator == "+" else -b) * a.size)
        if isinstance(b, Pointer):
            raise NoValue
        if operator in ("/", "%"):
            if b == 0:
                raise NoValue
            quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            return quotient if operator == "/" else a - quotient * b
        if operator in ("<<", ">>"):
            if not 0 <= b <= _MOST_SHIFT:
                raise NoValue
            return a << b if operator == "<<" else a >> b
        return _PLAIN[operator](a, b)

    def unary(self) -> Value:
        word = self.next()
        if word in ("-", "+", "~", "!"):
            self.at += 1
            number = self.integer(self.unary())
            return {"-": -number, "+": number, "~": ~number, "!": int(not number)}[word]
        if word in ("&", "*"):
            self.at += 1
            inner = self.unary()
            if word == "&":
                if not isinstance(inner, _Place):
                    raise NoValue
                return inner.at
            pointed = self.value(inner)
            if not isinstance(pointed, Pointer):
                raise NoValue
            return _Place(pointed)
        if word == "(":
            type_end = self.type_end(self.at + 1, ")")
            if type_end is not None:
                words = self.words[self.at + 1 : type_end]
                self.at = type_end + 1
                return self.cast([token.text for token in words], self.unary())
        return self.postfix()

    def type_end(self, start: int, closer: str) -> int | None:
        """Index of `closer` if only a known type stands before it."""
        end = start
        while end < len(self.words) and self.words[end].text != closer:
            if not (self.words[end].kind == "id" or self.words[end].text in ("*", "::", "<", ">")):
                return None
            end += 1
        words = [token.text for token in self.words[start:end]]
        if end >= len(self.words) or not words:
            return None
        return end if _is_pointer(words) or self.type_bytes(_core(words)) is not None else None

    def cast(self, words: list[str], value: Value) -> Value:
        inner = self.value(value)
        if _is_pointer(words):
            if not isinstance(inner, Pointer):
                raise NoValue
            return replace(inner, size=self.type_bytes(_core(words)) or 0)
        return inner if isinstance(inner, Pointer) else int(inner)

    def postfix(self) -> Value:
        value = self.primary()
        while self.next() == "[":
            self.at += 1
            index = self.integer(self.ternary())
            self.take("]")
            base = self.value(value)
            if not isinstance(base, Pointer) or base.size == 0:
                raise NoValue
            value = _Place(replace(base, offset=base.offset + index * base.size))
        return value

    def primary(self) -> Value:
        if self.at >= len(self.words):
            raise NoValue
        token = self.words[self.at]
        self.at += 1
        if token.text == "(":
            value = self.ternary()
            self.take(")")
            return value
        if token.kind == "num":
            return _number(token.text)
        if token.text in _CASTS and self.next() == "<":
            end = next((i for i in range(self.at, len(self.words)) if self.words[i].text == ">"), None)
            if end is None:
                raise NoValue
            words = [word.text for word in self.words[self.at + 1 : end]]
            self.at = end + 1
            self.take("(")
            value = self.ternary()
            self.take(")")
            return self.cast(words, value)
        if token.text == "sizeof" and self.next() == "(":
            end = self.type_end(self.at + 1, ")")
            if end is None:
                raise NoValue
            words = [word.text for word in self.words[self.at + 1 : end]]
            size = 8 if _is_pointer(words) else self.type_bytes(_core(words))
            self.at = end + 1
            if size is None:
                raise NoValue
            return size
        if token.kind == "id" and self.next() not in ("(", "<", "::", ".", "->"):
            return self.names(token.text)
        if token.text in ("min", "max") and self.next() == "(":
            self.at += 1
            left = self.integer(self.ternary())
            self.take(",")
            right = self.integer(self.ternary())
            self.take(")")
            return min(left, right) if token.text == "min" else max(left, right)
        raise NoValue

    def value(self, value: Value) -> int | Pointer:
        if isinstance(value, _Place):
            raise NoValue
        return value

    def integer(self, value: Value) -> int:
        number = self.value(value)
        if isinstance(number, Pointer):
            raise NoValue
        return number


def _is_pointer(words: Sequence[str]) -> bool:
    return bool(words) and words[-1] == "*" and "*" not in words[:-1]


_QUALIFIERS = frozenset({"const", "volatile", "__restrict__", "__restrict", "typename", "static", "struct"})


def _core(words: Sequence[str]) -> str:
    """A type without qualifiers and `*`, blanks normalised as in `unsigned int`."""
    kept = [word for word in words if word not in _QUALIFIERS and word != "*"]
    return " ".join(kept).replace(" :: ", "::").replace(":: ", "::")


def _number(text: str) -> int:
    try:
        return int(text.rstrip("uUlL").replace("'", ""), 0)
    except ValueError:
        raise NoValue from None
