"""How tightly C++ operators bind: when an expression that is put into another one needs parentheses."""

from __future__ import annotations

from collections.abc import Mapping

# ISO C++17, [expr]; higher binds tighter.
COMMA, ASSIGNMENT, CONDITIONAL, UNARY, POSTFIX, PRIMARY = 1, 2, 3, 14, 16, 17
BINARY: Mapping[str, int] = {
    "||": 4, "&&": 5, "|": 6, "^": 7, "&": 8, "==": 9, "!=": 9, "<": 10, ">": 10, "<=": 10, ">=": 10, "<<": 11,
    ">>": 11, "+": 12, "-": 12, "*": 13, "/": 13, "%": 13,
}  # fmt: skip
# Operators for which a op (b op c) is (a op b) op c, at least up to rounding.
_ASSOCIATIVE = frozenset({"+", "*", "&", "|", "^", "&&", "||"})


def operand(operator: str, *, right: bool, of: str = "") -> int:
    """How tightly the operand of a binary operator must bind; `of`: the operator of the operand, if it has one."""
    level = BINARY[operator]
    return level + 1 if right and not (of == operator and operator in _ASSOCIATIVE) else level
