"""Arithmetic expressions of a card: parsed with `ast`, evaluated over named symbols, never executed as Python.

Integers stay exact, and so does a quotient of integers: `S/64` is an integer when 64 divides S, a fraction when not,
and an integer field then says so instead of rounding. Everything else is float.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

from wmmadiag.errors import ConfigurationError
from wmmadiag.place import Place

Number: TypeAlias = int | float | Fraction

MAX_LENGTH = 1000
MAX_NODES = 300
MAX_BITS = 128


class ExpressionError(ValueError):
    """What is wrong with an expression, without its place."""


def ceil_div(a: Number, b: Number) -> int:
    """⌈a / b⌉, exact for integers."""
    if b == 0:
        raise ExpressionError("division by zero in ceil_div")
    return -int(-a // b)


def _align(a: Number, b: Number) -> Number:
    return ceil_div(a, b) * b


def _log2(a: Number) -> Number:
    if isinstance(a, int) and a > 0 and a & (a - 1) == 0:
        return a.bit_length() - 1
    return math.log2(a)


FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    "abs": abs,
    "align": _align,
    "ceil": lambda a: math.ceil(a),
    "ceil_div": ceil_div,
    "exp": math.exp,
    "float": float,
    "floor": lambda a: math.floor(a),
    "gcd": math.gcd,
    "int": int,
    "lcm": math.lcm,
    "log": math.log,
    "log2": _log2,
    "max": max,
    "min": min,
    "rsqrt": lambda a: 1.0 / math.sqrt(a),
    "sqrt": math.sqrt,
}

CONSTANTS: Mapping[str, Number] = {"pi": math.pi, "e": math.e, "log2e": math.log2(math.e), "inf": math.inf}


def _divide(a: Number, b: Number) -> Number:
    if isinstance(a, float) or isinstance(b, float):
        return float(a) / float(b)
    quotient = Fraction(a) / Fraction(b)
    return quotient.numerator if quotient.denominator == 1 else quotient


def _power(a: Number, b: Number) -> Number:
    if isinstance(a, int) and isinstance(b, int) and b >= 0:
        if a.bit_length() * b > MAX_BITS:
            raise ExpressionError("the power is too large")
        return int(a**b)
    return math.pow(a, b)  # a ValueError for a root of a negative number


def _shift_left(a: Number, b: Number) -> Number:
    left, right = _integer_operand(a), _integer_operand(b)
    if not 0 <= right <= MAX_BITS:
        raise ExpressionError("the shift count is out of range")
    return left << right


def _shift_right(a: Number, b: Number) -> Number:
    left, right = _integer_operand(a), _integer_operand(b)
    if not 0 <= right <= MAX_BITS:
        raise ExpressionError("the shift count is out of range")
    return left >> right


def _integer_operand(value: Number) -> int:
    if not isinstance(value, int):
        raise ExpressionError("a bit operation needs integers")
    return value


_BINARY: Mapping[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _divide,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
    ast.LShift: _shift_left,
    ast.RShift: _shift_right,
    ast.BitAnd: lambda a, b: _integer_operand(a) & _integer_operand(b),
    ast.BitOr: lambda a, b: _integer_operand(a) | _integer_operand(b),
    ast.BitXor: lambda a, b: _integer_operand(a) ^ _integer_operand(b),
}
_COMPARE: Mapping[type[ast.cmpop], Callable[[Number, Number], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


@lru_cache(maxsize=4096)
def parse(text: str) -> ast.expr:
    """The expression's tree, with only what the evaluator knows in it.

    Raises:
        ExpressionError: not an expression, too long, or a construct that is not allowed.
    """
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"the expression is longer than {MAX_LENGTH} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExpressionError("this is not an arithmetic expression") from None
    for count, node in enumerate(ast.walk(tree)):
        if count > MAX_NODES:
            raise ExpressionError("the expression is too complicated")
        _allow(node)
    return tree


def _allow(node: ast.AST) -> None:
    plain = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Name, ast.Load)
    marks = (ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
    if isinstance(node, ast.Call):
        if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS or node.keywords:
            known = ", ".join(sorted(FUNCTIONS))
            raise ExpressionError(f"only these functions can be called: {known}")
    elif isinstance(node, ast.Constant):
        if not isinstance(node.value, int | float):
            raise ExpressionError(f"{node.value!r} is not a number")
        if isinstance(node.value, int) and node.value.bit_length() > MAX_BITS:
            raise ExpressionError("the number is too large")
    elif isinstance(node, ast.BinOp) and type(node.op) not in _BINARY:
        raise ExpressionError(f"the operator {type(node.op).__name__} is not allowed here")
    elif isinstance(node, ast.Compare) and any(type(op) not in _COMPARE for op in node.ops):
        raise ExpressionError("only ==, !=, <, <=, > and >= compare here")
    elif not isinstance(node, (*plain, *marks)):
        raise ExpressionError(f"{type(node).__name__} is not allowed in an expression")


@lru_cache(maxsize=4096)
def names_in(text: str) -> frozenset[str]:
    """The symbols that an expression uses; empty if it cannot be parsed."""
    try:
        tree = parse(text)
    except ExpressionError:
        return frozenset()
    return frozenset(_names(tree))


def _names(tree: ast.AST) -> Iterator[str]:
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and id(node) not in called:
            yield node.id


def evaluate(text: str, lookup: Callable[[str], Number]) -> Number:
    """The expression's value.

    Args:
        text: the expression.
        lookup: gives a symbol's value, or raises KeyError.

    Raises:
        ExpressionError: malformed, an unknown symbol, division by zero, or a result out of range.
    """
    tree = parse(text)
    try:
        return _bounded(_evaluate(tree, lookup))
    except ZeroDivisionError:
        raise ExpressionError("division by zero") from None
    except OverflowError:
        raise ExpressionError("the result is too large") from None
    except RecursionError:
        raise ExpressionError("the expression is nested too deeply") from None
    except (TypeError, ValueError) as error:
        if isinstance(error, ExpressionError):
            raise
        raise ExpressionError(str(error)) from None


def _bounded(value: Number) -> Number:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, Fraction) and value.denominator == 1:
        value = value.numerator
    large = value.numerator if isinstance(value, Fraction) else value
    if isinstance(large, int) and large.bit_length() > MAX_BITS:
        raise ExpressionError("the result is too large")
    return value


def _evaluate(node: ast.expr, lookup: Callable[[str], Number]) -> Number:
    match node:
        case ast.Constant(value=value):
            assert isinstance(value, int | float)
            return int(value) if isinstance(value, bool) else value
        case ast.Name(id=name):
            try:
                return lookup(name)
            except KeyError:
                if name in CONSTANTS:
                    return CONSTANTS[name]
                raise ExpressionError(f"the symbol '{name}' is not defined") from None
        case ast.BinOp(left=left, op=op, right=right):
            return _bounded(_BINARY[type(op)](_evaluate(left, lookup), _evaluate(right, lookup)))
        case ast.UnaryOp(op=op, operand=operand):
            inner = _evaluate(operand, lookup)
            match op:
                case ast.USub():
                    return -inner
                case ast.UAdd():
                    return inner
                case ast.Not():
                    return int(not inner)
                case _:
                    return ~_integer_operand(inner)
        case ast.BoolOp(op=op, values=values):
            wanted = isinstance(op, ast.Or)
            return int(wanted if any(bool(_evaluate(v, lookup)) is wanted for v in values) else not wanted)
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            terms = [_evaluate(left, lookup), *(_evaluate(c, lookup) for c in comparators)]
            return int(all(_COMPARE[type(op)](a, b) for op, a, b in zip(ops, terms, terms[1:], strict=False)))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _evaluate(body if _evaluate(test, lookup) else orelse, lookup)
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _bounded(FUNCTIONS[name](*(_evaluate(a, lookup) for a in arguments)))
        case _:  # pragma: no cover  (`parse` let nothing else through)
            raise ExpressionError(f"{type(node).__name__} is not allowed in an expression")


class SymbolScope:
    """Symbols, each a number or an expression over the others; evaluated when asked for, cycles refused.

    Args:
        layers: tables of symbols; an earlier one hides a later one.
    """

    def __init__(self, *layers: Mapping[str, Number | str]) -> None:
        self._layers = layers
        self._values: dict[str, Number] = {}
        self._active: list[str] = []

    def __contains__(self, name: str) -> bool:
        return any(name in layer for layer in self._layers)

    def within(self, symbols: Mapping[str, Number | str]) -> SymbolScope:
        """The same symbols and a few more, which hide those of the same name."""
        return SymbolScope(symbols, *self._layers)

    def names(self) -> list[str]:
        """All symbols, those of earlier layers first."""
        return list(dict.fromkeys(name for layer in self._layers for name in layer))

    def definitions(self) -> tuple[tuple[str, Number | str], ...]:
        """Every symbol with its number or expression: two scopes with the same ones give the same values."""
        return tuple((name, next(layer[name] for layer in self._layers if name in layer)) for name in self.names())

    def lookup(self, name: str) -> Number:
        """The value of one symbol.

        Raises:
            KeyError: there is no such symbol.
            ExpressionError: its expression cannot be evaluated.
        """
        if name in self._values:
            return self._values[name]
        definition = next((layer[name] for layer in self._layers if name in layer), None)
        if definition is None:
            raise KeyError(name)
        if name in self._active:
            raise ExpressionError("the symbols " + " → ".join([*self._active, name]) + " depend on each other")
        self._active.append(name)
        try:
            value = evaluate(definition, self.lookup) if isinstance(definition, str) else definition
        finally:
            self._active.pop()
        self._values[name] = value
        return value

    def number(self, text: str | Number, *, place: Place, what: str) -> Number:
        """The value of an expression in a card's field.

        Args:
            text: the expression, or a number already.
            place: the field's place, for the error.
            what: the field in words, for the error: "grid.x", "the shape of q".

        Raises:
            ConfigurationError: with the place, the expression and what is wrong with it.
        """
        if not isinstance(text, str):
            return text
        try:
            return evaluate(text, self.lookup)
        except ExpressionError as error:
            raise ConfigurationError(
                f'{what} = "{_shown(text)}": {error}',
                place=place,
                hint="symbols here: " + (", ".join(self.names()) or "none"),
            ) from None

    def integer(self, text: str | Number, *, place: Place, what: str, minimum: int | None = None) -> int:
        """Like `number`, for a field that is an integer of at least `minimum`."""
        value = self.number(text, place=place, what=what)
        shown = f'{what} = "{_shown(str(text))}"'
        if isinstance(value, Fraction) or (isinstance(value, float) and not value.is_integer()):
            near = float(value)
            raise ConfigurationError(
                f"{shown} is {near:g}, not an integer",
                place=place,
                hint="use ceil_div(a, b) or a // b where the quotient is to be rounded",
            )
        if minimum is not None and value < minimum:
            raise ConfigurationError(
                f"{shown} is {int(value)}; it must be at least {minimum}",
                place=place,
                hint="mend the expression, or the symbols of the case",
            )
        return int(value)

    def real(self, text: str | Number, *, place: Place, what: str) -> float:
        """Like `number`, for a field that is a real number."""
        value = self.number(text, place=place, what=what)
        try:
            return float(value)
        except OverflowError:
            raise ConfigurationError(
                f'{what} = "{_shown(str(text))}" is too large',
                place=place,
                hint="mend the expression, or the symbols of the case",
            ) from None


def _shown(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."
