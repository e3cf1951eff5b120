"""Another way to assign."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.making import Draft, Text, replaced, statement_replaced, text_of, wrapped
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator

_OTHERS: Mapping[str, tuple[str, ...]] = {
    "=": ("+=", "*="), "+=": ("=", "-="), "-=": ("+=", "="), "*=": ("=", "/=", "+="), "/=": ("*=", "="),
    "|=": ("&=", "="), "&=": ("|=", "="), "^=": ("=", "+="),
}  # fmt: skip
_MOST_FACTORS = 8


@operator
def assignment(program: Program) -> Iterator[Draft]:
    """`+=` for `=`, `*=` for `/=`, and so on."""
    steps = [
        (one.statement, one)
        for one in program.expressions
        if one.kind == "assignment" and one.statement.kind == "loop" and one.role == "loop step"
    ]
    for statement, one in [*_assignments(program), *steps]:
        left, right = one.operands
        # Of what a macro stands for, the compiler knows the type.
        if left.type.kind not in ("integer", "float", "half", "bool", "byte") and left.operator not in program.macros:
            continue
        for symbol in _OTHERS.get(one.operator, ()):
            text = f"{left.text} {symbol} {right.text}"
            if statement.kind == "loop":
                yield replaced(one, Text(text, precedence.ASSIGNMENT), f"{symbol} for {one.operator}")
            else:
                yield statement_replaced(statement, f"{text};", f"{symbol} for {one.operator}")


@operator
def rescaled(program: Program) -> Iterator[Draft]:
    """`x = x * f + e` for `x += e` or `x = x + e`, with a real `f` that is in scope."""
    pool = pools(program)
    for statement, one in _assignments(program):
        left, right = one.operands
        added = right if one.operator == "+=" else _added(left, right)
        if left.type.kind != "float" or added is None:
            continue
        made = 0
        for atom in pool.at(one):
            if atom.type.kind == "float" and atom.text not in one.text and made < _MOST_FACTORS:
                made += 1
                first = f"{left.text} * {atom.text}"
                value = f"{first} + {wrapped(text_of(added), precedence.BINARY['+'])}"
                yield statement_replaced(statement, f"{left.text} = {value};", f"{left.text} times {atom.text} first")


@operator
def atomic(program: Program) -> Iterator[Draft]:
    """An addition or a store to memory made atomic, so that no other one is lost."""
    for statement, one in _assignments(program):
        left, right = one.operands
        in_memory = left.kind == "subscript" or (left.kind == "unary" and left.operator == "*")
        if not in_memory or left.type.kind not in ("float", "half", "integer"):
            continue
        added = _added(left, right) if one.operator == "=" else None
        if one.operator in ("+=", "="):
            value = right if added is None else added
            place = left.operands[0].text if left.kind == "unary" else f"&{left.text}"
            yield statement_replaced(statement, f"atomicAdd({place}, {value.text});", "added atomically")


def _assignments(program: Program) -> Iterator[tuple[Statement, Expression]]:
    for statement in program.statements:
        if statement.kind == "expression" and statement.expressions and statement.expressions[0].kind == "assignment":
            one = statement.expressions[0]
            if len(one.operands) == 2:
                yield statement, one


def _added(left: Expression, right: Expression) -> Expression | None:
    """What is added to `left` in `left + e`."""
    if right.kind != "binary" or right.operator != "+":
        return None
    first, second = right.operands
    return second if first.text == left.text else first if second.text == left.text else None
