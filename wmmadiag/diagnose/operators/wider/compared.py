"""Guards that are put together: two coordinates held against each other, or one against any size."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.comparisons import guarded_by, leaves
from wmmadiag.diagnose.operators.composed import bounds
from wmmadiag.diagnose.operators.making import Draft, Text, binary, inserted_after, replaced, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator
from wmmadiag.diagnose.operators.zeros import fallbacks

_MOST_NAMES = 5
_NEGATED = {"<": ">=", "<=": ">"}
_VALUES = frozenset({"float", "half", "byte"})


@operator
def value_compared(program: Program) -> Iterator[Draft]:
    """`i <= j ? x : 0` for a value `x`, with two whole numbers that its statement names, or one and a size."""
    for one in program.expressions:
        if one.type.kind not in _VALUES or one.fixed or not _fresh(one):
            continue
        noughts = fallbacks(program, one)
        for condition in _conditions(program, one, _names(program, one, one.statement.expressions)):
            for nought in noughts:
                text = f"{condition.text} ? {one.text} : {nought}"
                yield replaced(one, Text(text, precedence.CONDITIONAL), f"{nought} where not {condition.text}")


@operator
def condition_compared(program: Program) -> Iterator[Draft]:
    """`c && i < j` for a condition `c`, with two whole numbers that it or what it guards names, or one and a size;
    `c || i >= j` of what leaves."""
    for one in program.expressions:
        around = one.parent
        whole = around is None or (around.kind == "conditional" and one.number == 0)
        if one.role != "condition" or one.type.kind not in ("bool", "integer") or one.fixed or not whole:
            continue
        names = _names(program, one, [one, *guarded_by(one)])
        symbol = "||" if leaves(one.statement) else "&&"
        for condition in _conditions(program, one, names, away=symbol == "||"):
            yield replaced(one, binary(text_of(one), symbol, condition), f"{symbol} {condition.text}")


@operator
def left_early(program: Program) -> Iterator[Draft]:
    """`if (i >= n) break;` and the same with `continue` after the declaration of a coordinate in a loop."""
    for statement in program.statements:
        value = statement.expressions[-1] if statement.expressions else None
        if statement.kind != "declaration" or not statement.loops or not statement.braced or value is None:
            continue
        for variable in statement.declares:
            if program.reader.type_of(variable).whole and program.reader.varies(variable) and not variable.dimensions:
                for bound in bounds(program, value):
                    for way in ("break", "continue"):
                        text = f"if ({variable.name} >= {bound.text}) {way};"
                        yield inserted_after(statement, text, text[:-1], "branch")


def _conditions(program: Program, one: Expression, names: list[str], away: bool = False) -> Iterator[Text]:
    for symbol in ("<", "<="):
        made = _NEGATED[symbol] if away else symbol
        for first, second in itertools.permutations(names, 2):
            yield Text(f"{first} {made} {second}", precedence.BINARY[made], made)
        for bound in bounds(program, one) if symbol == "<" else ():
            for name in names:
                yield Text(f"{name} {made} {bound.text}", precedence.BINARY[made], made)


def _names(program: Program, at: Expression, wholes: list[Expression]) -> list[str]:
    """The whole numbers in some expressions that differ between threads and are visible where one stands."""
    found = dict.fromkeys(
        part.text
        for whole in wholes
        for part in whole.under()
        if part.kind == "name" and part.type.whole and part.varying is not False and pools(program).visible(part, at)
    )
    return list(found)[:_MOST_NAMES]


def _fresh(one: Expression) -> bool:
    """Whether it is a whole value: what is stored, added up, or given to a function of one argument."""
    if one.kind in ("literal", "conditional", "list", "assignment") or one.assigned:
        return False
    around = one.parent
    if around is None:
        return one.statement.kind in ("declaration", "return")
    return (around.kind == "assignment" and one.number == 1) or (around.kind == "call" and len(around.operands) == 1)
