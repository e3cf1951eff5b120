"""A loop the other way round."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.making import Draft, Text, binary, several, text_of
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_ONE = Text("1")
_UP, _DOWN = frozenset({"<", "<="}), frozenset({">", ">="})


@operator
def turned_round(program: Program) -> Iterator[Draft]:
    """`for (int i = n - 1; i >= a; --i)` for `for (int i = a; i < n; ++i)`, and back."""
    for loop in program.statements:
        head = _head(loop)
        if head is None:
            continue
        first, condition, step = head
        name, bound = text_of(condition.operands[0]), condition.operands[1]
        if step.operator == "++" and condition.operator in _UP:
            last = text_of(bound) if condition.operator == "<=" else binary(text_of(bound), "-", _ONE)
            held, turned = binary(name, ">=", text_of(first)), f"--{name.text}"
        elif step.operator == "--" and condition.operator in _DOWN:
            last = text_of(bound) if condition.operator == ">=" else binary(text_of(bound), "+", _ONE)
            held, turned = _below(name, first), f"++{name.text}"
        else:
            continue
        pairs = [(first, last), (condition, held), (step, Text(turned, precedence.UNARY))]
        yield several(pairs, f"{name.text} the other way round", static=True)


def _below(name: Text, first: Expression) -> Text:
    """`i < n` for what began at `n - 1`, `i <= x` for anything else."""
    if first.kind == "binary" and first.operator == "-" and first.operands[1].text == "1":
        return binary(name, "<", text_of(first.operands[0]))
    return binary(name, "<=", text_of(first))


def _head(loop: Statement) -> tuple[Expression, Expression, Expression] | None:
    """Start, condition and step of a loop that counts one variable by one."""
    if loop.kind != "loop" or len(loop.declares) != 1 or len(loop.expressions) != 3:
        return None
    first, condition, step = loop.expressions
    name = loop.declares[0].name
    counts = step.kind == "unary" and step.operator in ("++", "--") and step.operands[0].text == name
    held = condition.kind == "binary" and len(condition.operands) == 2 and condition.operands[0].text == name
    return (first, condition, step) if counts and held else None
