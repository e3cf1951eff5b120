"""Literals and constant expressions. Source: PTX ISA 9.x, "Constants" and "Constant Expressions"."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Mapping

from wmmadiag.ptx.cursor import Cursor
from wmmadiag.ptx.ir import Immediate
from wmmadiag.ptx.lexer import parse_integer

_MASK = (1 << 64) - 1
_MAX_DEPTH = 64


def parse_number(token: str) -> Immediate | None:
    """A numeric token as an immediate, or None if it is not a valid number."""
    prefix = token[:2]
    if prefix in ("0f", "0F"):
        return Immediate(int(token[2:], 16), "f32")
    if prefix in ("0d", "0D"):
        return Immediate(int(token[2:], 16), "f64")
    value = parse_integer(token)
    if value is not None:
        return Immediate(value, "int")
    if prefix not in ("0x", "0X") and ("." in token or "e" in token or "E" in token):
        return Immediate(_double_bits(float(token)), "f64")
    return None


def _double_bits(value: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


def double_value(immediate: Immediate) -> float:
    """The value of a float immediate, or of an integer one as a float."""
    if immediate.type == "f32":
        return float(struct.unpack("<f", struct.pack("<I", immediate.value))[0])
    if immediate.type == "f64":
        return float(struct.unpack("<d", struct.pack("<Q", immediate.value))[0])
    return float(immediate.value)


# Binding strength as in C. Integer expressions are evaluated in 64 bits.
_BINARY: Mapping[str, tuple[int, Callable[[int, int], int]]] = {
    "||": (1, lambda a, b: int(bool(a) or bool(b))),
    "&&": (2, lambda a, b: int(bool(a) and bool(b))),
    "|": (3, operator.or_),
    "^": (4, operator.xor),
    "&": (5, operator.and_),
    "==": (6, lambda a, b: int(a == b)),
    "!=": (6, lambda a, b: int(a != b)),
    "<": (7, lambda a, b: int(a < b)),
    "<=": (7, lambda a, b: int(a <= b)),
    ">": (7, lambda a, b: int(a > b)),
    ">=": (7, lambda a, b: int(a >= b)),
    "<<": (8, lambda a, b: a << b if 0 <= b < 64 else 0),
    ">>": (8, lambda a, b: a >> b if 0 <= b < 64 else (-1 if a < 0 else 0)),
    "+": (9, operator.add),
    "-": (9, operator.sub),
    "*": (10, operator.mul),
    "/": (10, lambda a, b: (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)),
    "%": (10, lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1)),
}
_FLOAT_BINARY: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def constant(cursor: Cursor) -> Immediate:
    """Parse a constant expression.

    Raises:
        PtxSyntaxError: malformed, out of range, or a division by zero.
    """
    return _ternary(cursor, 0)


def constant_integer(cursor: Cursor) -> int:
    """Parse an integer constant expression."""
    start = cursor.index
    value = constant(cursor)
    if value.type != "int":
        raise cursor.error("expected an integer constant", index=start)
    return value.value


def _ternary(cursor: Cursor, depth: int) -> Immediate:
    condition = _binary(cursor, 0, depth)
    if not cursor.accept("?"):
        return condition
    yes = _ternary(cursor, depth + 1)
    cursor.expect(":")
    no = _ternary(cursor, depth + 1)
    return yes if double_value(condition) else no


def _binary(cursor: Cursor, strength: int, depth: int) -> Immediate:
    left = _unary(cursor, depth)
    while True:
        symbol = cursor.token
        found = _BINARY.get(symbol)
        if found is None or found[0] <= strength:
            return left
        at = cursor.index
        cursor.index += 1
        right = _binary(cursor, found[0], depth + 1)
        left = _apply(cursor, at, symbol, left, right)


def _apply(cursor: Cursor, at: int, symbol: str, left: Immediate, right: Immediate) -> Immediate:
    try:
        if left.type == right.type == "int":
            return _integer(_BINARY[symbol][1](left.value, right.value))
        if symbol in _FLOAT_BINARY:
            return Immediate(_double_bits(_FLOAT_BINARY[symbol](double_value(left), double_value(right))), "f64")
    except (ZeroDivisionError, OverflowError):
        raise cursor.error("a constant expression divides by zero or overflows", index=at) from None
    raise cursor.error(f"{symbol!r} needs integer constants", index=at)


def _integer(value: int) -> Immediate:
    """Wrap to what 64 bits hold: signed when negative, else unsigned."""
    if not -(1 << 63) <= value <= _MASK:
        value &= _MASK
    return Immediate(value, "int")


def _unary(cursor: Cursor, depth: int) -> Immediate:
    if depth > _MAX_DEPTH:
        raise cursor.error("the constant expression is nested too deeply")
    at = cursor.index
    token = cursor.take()
    if token == "WARP_SZ":
        return Immediate(32, "int")
    if token in ("-", "+", "!", "~"):
        value = _unary(cursor, depth + 1)
        if value.type != "int":
            if token == "+":
                return value
            if token == "-":
                return Immediate(value.value ^ (1 << (31 if value.type == "f32" else 63)), value.type)
            raise cursor.error(f"{token!r} needs an integer constant", index=at)
        number = {"-": -value.value, "+": value.value, "!": int(not value.value), "~": ~value.value}[token]
        return _integer(number)
    if token == "(":
        if cursor.token in (".s64", ".u64"):  # a cast
            unsigned = cursor.take() == ".u64"
            cursor.expect(")")
            value = _unary(cursor, depth + 1)
            if value.type != "int":
                raise cursor.error("a cast needs an integer constant", index=at)
            number = value.value & _MASK
            return Immediate(number if unsigned or number < 1 << 63 else number - (1 << 64), "int")
        value = _ternary(cursor, depth + 1)
        cursor.expect(")")
        return value
    number_found = parse_number(token) if token[0].isdigit() else None
    if number_found is None:
        raise cursor.error(f"expected a constant, found {token!r}", index=at)
    return number_found
