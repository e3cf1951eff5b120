"""A function of its kind for every call of one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from wmmadiag.diagnose.operators.calls.sibling import Callables, renamed_call
from wmmadiag.diagnose.operators.making import Draft, several
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator


@operator
def sibling_everywhere(program: Program) -> Iterator[Draft]:
    """A function whose name differs in one part for all calls of one in a statement, or in a whole function."""
    known = Callables(program)
    by_statement: dict[tuple[int, str], list[Expression]] = defaultdict(list)
    by_function: dict[tuple[int, str], list[Expression]] = defaultdict(list)
    for one in program.all_expressions():
        if one.kind == "call" and one.operator and not one.fixed and next(known.siblings(one), None) is not None:
            by_statement[id(one.statement), one.operator].append(one)
            by_function[id(one.statement.function), one.operator].append(one)
    for calls in [*by_statement.values(), *by_function.values()]:
        if len(calls) < 2:
            continue
        for other in known.siblings(calls[0]):
            pairs = [(one, renamed_call(one, other)) for one in calls]
            yield several(
                [(one, text) for one, text in pairs if text is not None], f"{other} for every {calls[0].operator}"
            )
