"""Numbers of host code that depend on sizes: expressions over symbols, as C++ computes them.

A symbol is an integer that host code names (a parameter, `int M = 4096;`); it may have a usual value. Terms are made
by `combined`, which folds what is known and gives the idioms of host code one form: `(n + 63) / 64` is a `ceil_div`.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

Number: TypeAlias = int | float | bool
SymbolValues: TypeAlias = Mapping[str, Number]


@dataclass(frozen=True, slots=True)
class Term:
    """A number: `op` is "number", "symbol" (its name in `args`), an operator, or the name of a function."""

    op: str
    args: tuple[Any, ...]
    real: bool = False  # whether it is a floating-point number in C++: `/` is then no integer division


def number(value: Number) -> Term:
    """A known number."""
    return Term("number", (value,), isinstance(value, float))


def symbol(name: str) -> Term:
    """An integer that host code names."""
    return Term("symbol", (name,))


_WIDEST = 1024  # bits of a number
ZERO, ONE = number(0), number(1)


def _quotient(a: Number, b: Number) -> Number:
    """C's integer division."""
    found = abs(int(a)) // abs(int(b))
    return found if (a >= 0) == (b > 0) else -found


def _remainder(a: Number, b: Number) -> Number:
    return a - _quotient(a, b) * b if isinstance(a, int) and isinstance(b, int) else math.fmod(a, b)


def _shifted(a: Number, b: Number) -> Number:
    if not 0 <= b < _WIDEST:
        raise OverflowError
    return int(a) << int(b)


_BINARY: Mapping[str, Callable[[Any, Any], Number]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": _quotient, "%": _remainder,
    "<<": _shifted, ">>": operator.rshift, "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "and": lambda a, b: bool(a and b), "or": lambda a, b: bool(a or b), "min": min, "max": max,
    "ceil_div": lambda a, b: -(-a // b), "pow": lambda a, b: float(a) ** b, "gcd": math.gcd, "lcm": math.lcm,
}  # fmt: skip
_UNARY: Mapping[str, Callable[[Any], Number]] = {
    "neg": operator.neg, "not": operator.not_, "~": operator.invert, "ceil": lambda a: float(math.ceil(a)),
    "floor": lambda a: float(math.floor(a)), "sqrt": math.sqrt, "rsqrt": lambda a: 1.0 / math.sqrt(a),
    "exp": math.exp, "log": math.log, "log2": math.log2, "abs": abs, "float": float, "int": int, "bool": bool,
}  # fmt: skip
_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
_TRUTH = frozenset({*_COMPARISONS, "and", "or", "not", "bool"})
_REAL = frozenset({"ceil", "floor", "sqrt", "rsqrt", "exp", "log", "log2", "float", "pow"})


def combined(op: str, *args: Term) -> Term:
    """An operation on terms: an operator of C (`/` as its operands' types say), "min", "ceil_div", "if", …."""
    real = op in _REAL or (op not in _TRUTH and op not in ("int", "~") and any(one.real for one in args[op == "if" :]))
    if op == "/" and not real:
        op = "//"
    values = [one.args[0] for one in args if one.op == "number"]
    if len(values) == len(args):
        found = _applied(op, values)
        if found is not None:
            return number(float(found) if real else found)
    if op == "if" and args[0].op == "number":
        return args[1] if args[0].args[0] else args[2]
    return _plain(op, args, real)


def _plain(op: str, args: tuple[Term, ...], real: bool) -> Term:
    """What is not known, in its usual form."""
    if len(args) == 2:
        a, b = args
        if op == "*" and number(0) in (a, b) and not real:
            return ZERO
        if op in ("*", "//", "/") and b == ONE and a.real == real:
            return a
        if (op == "*" and a == ONE and b.real == real) or (op == "+" and a == ZERO and b.real == real):
            return b
        if op in ("+", "-") and b == ZERO:
            return a
        if op == "//":
            rounded = _rounded_up(a, b)
            if rounded is not None:
                return rounded
            # (a * b) // b and the like: sizes in bytes divided by the size of an element.
            factors = _factors(a)
            if b in factors and b.op != "number":
                factors.remove(b)
                return product(factors)
            if b.op == "number" and b.args[0] and factors[0].op == "number" and factors[0].args[0] % b.args[0] == 0:
                return combined("*", number(factors[0].args[0] // b.args[0]), product(factors[1:]))
        if op in ("+", "*") and a.op != "number" and b.op == "number" and op == "*":
            return _plain(op, (b, a), real)
        if op == "*" and a.op == "number" and b.op == "*" and b.args[0].op == "number":
            return combined("*", combined("*", a, b.args[0]), b.args[1])
        if op in ("+", "-") and b.op == "number" and a.op in ("+", "-") and a.args[1].op == "number" and not real:
            inner = a.args[1].args[0] * (1 if a.op == "+" else -1)
            total = inner + b.args[0] * (1 if op == "+" else -1)
            return combined("+" if total >= 0 else "-", a.args[0], number(abs(total)))
    if op == "if" and (rounded := _rounded_by_test(*args)) is not None:
        return rounded
    if op == "float" and args[0].real:
        return args[0]
    return Term(op, args, real)


def _factors(term: Term) -> list[Term]:
    """The factors of a product, its number first."""
    if term.op != "*" or term.real:
        return [term]
    found = [*_factors(term.args[0]), *_factors(term.args[1])]
    return sorted(found, key=lambda one: one.op != "number")


def product(factors: Iterable[Term], first: Term = ONE) -> Term:
    """`first` times all of them."""
    found = first
    for one in factors:
        found = combined("*", found, one)
    return found


def _rounded_up(a: Term, b: Term) -> Term | None:
    """`(n + b - 1) / b`, however it is written, as a `ceil_div`."""
    if a.op not in ("+", "-"):
        return None
    for parts in _sums(a):
        if b.op == "number":
            known = sum(sign * one.args[0] for sign, one in parts if one.op == "number")
            rest = [(sign, one) for sign, one in parts if one.op != "number"]
            if known == b.args[0] - 1 and known > 0 and rest and rest[0][0] == 1:
                return Term("ceil_div", (_sum(rest), b))
        elif (1, b) in parts and (-1, ONE) in parts:
            rest = [one for one in parts if one not in ((1, b), (-1, ONE))]
            if rest and rest[0][0] == 1:
                return Term("ceil_div", (_sum(rest), b))
    return None


def _rounded_by_test(test: Term, then: Term, other: Term) -> Term | None:
    """`n % b != 0 ? n / b + 1 : n / b` as a `ceil_div`."""
    if test.op == "==" and test.args[1] == ZERO:
        test, then, other = test.args[0], other, then
    elif test.op == "!=" and test.args[1] == ZERO:
        test = test.args[0]
    if test.op == "%" and other == combined("/", *test.args) and then == combined("+", other, ONE):
        return Term("ceil_div", test.args)
    return None


def _sums(term: Term) -> Iterator[list[tuple[int, Term]]]:
    def parts(one: Term, sign: int) -> list[tuple[int, Term]]:
        if one.op in ("+", "-") and not one.real:
            return parts(one.args[0], sign) + parts(one.args[1], sign if one.op == "+" else -sign)
        if one.op == "number" and one.args[0] < 0:
            return [(-sign, number(-one.args[0]))]
        return [(sign, one)]

    yield parts(term, 1)


def _sum(parts: list[tuple[int, Term]]) -> Term:
    found = parts[0][1]
    for sign, one in parts[1:]:
        found = combined("+" if sign > 0 else "-", found, one)
    return found


def _applied(op: str, values: list[Any]) -> Number | None:
    try:
        if op == "if":
            return values[1] if values[0] else values[2]  # type: ignore[no-any-return]
        found = _UNARY[op](values[0]) if len(values) == 1 else _BINARY[op](values[0], values[1])
    except (ArithmeticError, KeyError, TypeError, ValueError):
        return None
    return None if isinstance(found, complex) or (isinstance(found, int) and found.bit_length() > _WIDEST) else found


def value(term: Term, values: SymbolValues) -> Number | None:
    """The number that a term is where its symbols have these values; None where one has none, or nothing comes out."""
    if term.op == "number":
        return term.args[0]  # type: ignore[no-any-return]
    if term.op == "symbol":
        return values.get(term.args[0])
    if term.op not in _UNARY and term.op not in _BINARY and term.op != "if":
        return None
    if term.op == "if":
        condition = value(term.args[0], values)
        return None if condition is None else value(term.args[1 if condition else 2], values)
    found = [value(one, values) for one in term.args]
    if term.op in ("and", "or"):  # one side may settle it
        settled = term.op == "or"
        if any(one is not None and bool(one) is settled for one in found):
            return settled
    if any(one is None for one in found):
        return None
    answer = _applied(term.op, found)
    return float(answer) if answer is not None and term.real else answer


def symbols(term: Term) -> frozenset[str]:
    """The names of a term's symbols."""
    if term.op == "symbol":
        return frozenset((term.args[0],))
    return frozenset().union(*(symbols(one) for one in term.args if isinstance(one, Term)))


def replaced(term: Term, by: Mapping[str, Term]) -> Term:
    """The term with other terms in the place of symbols."""
    if term.op == "symbol":
        return by.get(term.args[0], term)
    return _rebuilt(term, lambda one: replaced(one, by))


def rewritten(term: Term, rules: Sequence[tuple[Term, Term]]) -> Term:
    """The term with other terms in the place of whole parts: by (part, what stands for it), the first that is equal."""
    for part, other in rules:
        if same(term, part):
            return other
    return _rebuilt(term, lambda one: rewritten(one, rules))


def _rebuilt(term: Term, change: Callable[[Term], Term]) -> Term:
    """The term with its parts changed; as it is where some are no terms."""
    parts = [change(one) for one in term.args if isinstance(one, Term)]
    return combined(term.op, *parts) if parts and len(parts) == len(term.args) else term


_PYTHON: Mapping[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Div: "/", ast.Mod: "%", ast.Eq: "==",
    ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip


def parsed(text: str) -> Term:
    """A card's expression as a term.

    Raises:
        NotWritten: it has something that no term can say.
    """
    try:
        return _parsed(ast.parse(text.strip(), mode="eval").body)
    except SyntaxError:
        raise NotWritten(f"`{text}` is no expression") from None


def _parsed(node: ast.expr) -> Term:
    match node:
        case ast.Constant(value=int() | float() as constant):
            return number(constant)
        case ast.Name(id=name):
            return symbol(name)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _PYTHON:
            a, b = _parsed(left), _parsed(right)
            return Term("/", (a, b), True) if isinstance(op, ast.Div) else combined(_PYTHON[type(op)], a, b)
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _PYTHON:
            return combined(_PYTHON[type(op)], _parsed(left), _parsed(right))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return combined("neg", _parsed(operand))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return combined("if", _parsed(test), _parsed(body), _parsed(orelse))
        case ast.Call(func=ast.Name(id=name), args=args) if name in _UNARY or name in _BINARY:
            return combined(name, *map(_parsed, args))
    raise NotWritten(f"`{ast.unparse(node)}` is not known")


def same(one: Term, other: Term) -> bool:
    """Whether two terms are equal for whatever their symbols are, as far as a few values tell."""
    return one == other or _same(one, other)


@lru_cache(maxsize=1 << 14)  # a source is drafted in hundreds of ways, with the same terms of its host code
def _same(one: Term, other: Term) -> bool:
    names = sorted(symbols(one) | symbols(other))
    turned = [names[index:] + names[:index] for index in range(len(names))]
    for start, order in zip((7, 11, 13, 17, 19, 23), [*turned[-4:], names, names[::-1]], strict=False):
        # Each is larger than all before it multiplied, in every order: no quotient is always zero.
        chosen = {name: (start + 6 * at) * (start + at) * 64 ** (2 ** (at + 1) - 1) for at, name in enumerate(order)}
        first, second = value(one, chosen), value(other, chosen)
        if first is None or second is None:
            return False
        exact = isinstance(first, int) and isinstance(second, int)
        if first != second and (exact or not math.isclose(first, second, rel_tol=1e-12)):
            return False
    return True


_PRECEDENCE: Mapping[str, int] = {
    "if": 0, "or": 1, "and": 2, "not": 3, **dict.fromkeys(_COMPARISONS, 4), "|": 5, "^": 6, "&": 7, "<<": 8, ">>": 8,
    "+": 9, "-": 9, "*": 10, "/": 10, "//": 10, "%": 10, "neg": 11, "~": 11,
}  # fmt: skip
_SPELT = {"neg": "-", "not": "not "}
# Integers of a card are exact, and so are its quotients: these change nothing there.
_TRANSPARENT = frozenset({"float", "bool"})


class NotWritten(ValueError):
    """A term has no expression in a card."""


def text(term: Term) -> str:
    """The term as a card's expression.

    Raises:
        NotWritten: it contains what no card can say.
    """
    return _text(term)[0]


def _bare(term: Term) -> Term:
    while term.op in _TRANSPARENT:
        term = term.args[0]
    return term


def _product(term: Term) -> bool:
    """Whether it is a product that needs no parentheses behind a factor: 2 * (n // 2 * n) is no 2 * n // 2 * n."""
    while term.op == "*":
        term = _bare(term.args[0])
        if term.op != "*":
            return _PRECEDENCE.get(term.op, 12) > _PRECEDENCE["*"]
    return False


def _text(term: Term) -> tuple[str, int]:
    if term.op == "number":
        shown = term.args[0]
        if isinstance(shown, float):
            if not math.isfinite(shown):
                return ("inf", 12) if shown > 0 else ("-inf", 11)
            return (str(int(shown)), 12) if shown.is_integer() and 0 <= shown < 1e15 else (repr(shown), 11)
        return (str(int(shown)), 12 if shown >= 0 else 11)
    if term.op == "symbol":
        return term.args[0], 12
    if term.op in _TRANSPARENT:
        return _text(term.args[0])
    if term.op == "if":
        test, then, otherwise = (_held(one, 1) for one in term.args)
        return f"{then} if {test} else {otherwise}", 0
    own = _PRECEDENCE.get(term.op)
    if own is None:
        if term.op not in _UNARY and term.op not in _BINARY:
            raise NotWritten(f"`{term.op}` of it is not known")
        if term.op == "pow":
            return f"{_held(term.args[0], 12)} ** {_held(term.args[1], 12)}", 11
        return f"{term.op}({', '.join(_text(one)[0] for one in term.args)})", 12
    if len(term.args) == 1:
        return _SPELT.get(term.op, term.op) + _held(term.args[0], own), own
    chained = term.op in _COMPARISONS  # Python reads a < b < c otherwise
    follower = _bare(term.args[1])
    alike = term.op in ("+", "and", "or") or (term.op == "*" and _product(follower))
    left, right = _held(term.args[0], own + chained), _held(follower, own + (not alike))
    return f"{left} {term.op} {right}", own


def _held(term: Term, least: int) -> str:
    shown, own = _text(term)
    return shown if own >= least else f"({shown})"
