"""Integers of C++ in each lane: what operators make of them, exactly; what the standard leaves undefined is unknown.

(ISO C++17, [expr], [conv.integral], [conv.prom], [expr.arith.conv]; widths as in CUDA: LP64.)
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

LaneValues: TypeAlias = tuple[int, ...]
"""One per lane."""


class UnknownValue(Exception):
    """The value cannot be told, or the standard does not say it."""


@dataclass(frozen=True, slots=True)
class IntegerType:
    """`bytes`: 1, 2, 4 or 8; 0 of bool."""

    bytes: int
    signed: bool

    def holds(self, value: int) -> bool:
        """Whether it has a value."""
        bits = 8 * self.bytes
        if bits == 0:
            return value in (0, 1)
        return -(1 << bits - 1) <= value < 1 << bits - 1 if self.signed else 0 <= value < 1 << bits

    def converted(self, value: int) -> int:
        """A value of another type as one of this: modulo 2 to the number of bits."""
        if self.bytes == 0:
            return int(value != 0)
        low = value & ((1 << 8 * self.bytes) - 1)
        return low if not self.signed or self.holds(low) else low - (1 << 8 * self.bytes)

    def promoted(self) -> IntegerType:
        """The type that arithmetic sees."""
        return self if self.bytes >= INT.bytes else INT


BOOL, INT, UNSIGNED = IntegerType(0, False), IntegerType(4, True), IntegerType(4, False)


@dataclass(frozen=True, slots=True)
class Integers:
    """An integer in each lane."""

    values: LaneValues
    type: IntegerType

    def converted(self, to: IntegerType) -> Integers:
        """As another type."""
        return Integers(tuple(map(to.converted, self.values)), to)


def literal(text: str, lanes: int) -> Integers:
    """A number as written: "0x1Fu", "1'000".

    Raises:
        UnknownValue: it is no integer.
    """
    digits = text.replace("'", "").lower()
    suffix = digits[len(digits.rstrip("ul")) :]
    plain = digits.removesuffix(suffix)
    octal = plain.isdigit() and plain.startswith("0") and plain.strip("0")
    try:
        value = int(plain, 8 if octal else 0)
    except ValueError:
        raise UnknownValue from None
    decimal = plain.isdigit() and not octal
    widths = (8,) if "l" in suffix else (4, 8)
    signs = (False,) if "u" in suffix else (True,) if decimal else (True, False)
    types = (IntegerType(width, signed) for width in widths for signed in signs)
    chosen = next((one for one in types if one.holds(value)), None)
    if chosen is None:
        raise UnknownValue
    return Integers((value,) * lanes, chosen)


def unary(sign: str, operand: Integers) -> Integers:
    """`-`, `+`, `~` or `!`.

    Raises:
        UnknownValue: another operator, or signed overflow.
    """
    if sign == "!":
        return Integers(tuple(int(value == 0) for value in operand.values), BOOL)
    if sign not in _UNARY:
        raise UnknownValue
    made = operand.converted(operand.type.promoted())
    return _arithmetic(map(_UNARY[sign], made.values), made.type)


def binary(sign: str, left: Integers, right: Integers) -> Integers:
    """A binary operator that assigns nothing.

    Raises:
        UnknownValue: another operator, or what the standard leaves undefined.
    """
    if sign in ("&&", "||"):
        either = sign == "||"
        pairs = zip(left.values, right.values, strict=True)
        return Integers(tuple(int(bool((a or b) if either else (a and b))) for a, b in pairs), BOOL)
    if sign in ("<<", ">>"):
        return _shifted(sign, left.converted(left.type.promoted()), right)
    common = common_type(left.type, right.type)
    pairs = zip(left.converted(common).values, right.converted(common).values, strict=True)
    if sign in _COMPARISONS:
        return Integers(tuple(int(_COMPARISONS[sign](a, b)) for a, b in pairs), BOOL)
    if sign not in _BINARY:
        raise UnknownValue
    return _arithmetic((_BINARY[sign](a, b) for a, b in pairs), common)


def common_type(left: IntegerType, right: IntegerType) -> IntegerType:
    """The type in which two operands meet."""
    left, right = left.promoted(), right.promoted()
    if left.bytes != right.bytes:
        return left if left.bytes > right.bytes else right
    return left if not left.signed else right


def _shifted(sign: str, left: Integers, right: Integers) -> Integers:
    if not all(0 <= count < 8 * left.type.bytes for count in right.values):
        raise UnknownValue
    pairs = zip(left.values, right.values, strict=True)
    return _arithmetic((a << b if sign == "<<" else a >> b for a, b in pairs), left.type)


def _arithmetic(values: Iterable[int], kind: IntegerType) -> Integers:
    made = tuple(values)
    if kind.signed and not all(map(kind.holds, made)):
        raise UnknownValue
    return Integers(tuple(map(kind.converted, made)), kind)


def _quotient(a: int, b: int) -> int:
    """Towards zero."""
    if b == 0:
        raise UnknownValue
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_UNARY: Mapping[str, Callable[[int], int]] = {"-": operator.neg, "+": operator.pos, "~": operator.invert}
_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge,
}  # fmt: skip
_BINARY: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": _quotient,
    "%": lambda a, b: a - b * _quotient(a, b), "&": operator.and_, "|": operator.or_, "^": operator.xor,
}  # fmt: skip
