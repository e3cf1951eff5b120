"""Arguments that a function has a value for where a call gives none."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.making import Draft, Text, replaced
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator


@operator
def arguments_left_out(program: Program) -> Iterator[Draft]:
    """The last arguments given that a call leaves out, as another call of the function gives them, or by the names of
    its parameters; and none where the function has values for them."""
    calls: dict[str, list[Expression]] = defaultdict(list)
    for one in program.expressions:
        if one.kind == "call" and one.operands and one.receiver is None and one.operator in program.functions:
            calls[one.operator].append(one)
    for name, held in calls.items():
        for one in held:
            for more in dict.fromkeys((*_as_elsewhere(program, one, held), *_by_name(program, one, name))):
                yield _ending(one, one.operands[-1], "".join(f", {text}" for text in more), f"with {', '.join(more)}")
            for count in sorted(_values(program, name) & set(range(1, len(one.operands)))):
                yield _ending(one, one.operands[count - 1], "", f"without {one.operands[count].text}")


def _as_elsewhere(program: Program, one: Expression, calls: Sequence[Expression]) -> Iterator[tuple[str, ...]]:
    given = len(one.operands)
    for other in calls:
        more = other.operands[given:]
        if more and all(pools(program).visible(part, one) for part in more):
            yield tuple(part.text for part in more)


def _by_name(program: Program, one: Expression, name: str) -> Iterator[tuple[str, ...]]:
    here = program.names_at(one.unit, one.start)
    for function in program.functions[name]:
        more = [parameter.name for parameter in function.parameters[len(one.operands) :]]
        if known := tuple(itertools.takewhile(lambda parameter: parameter in here, more)):
            yield known


def _values(program: Program, name: str) -> set[int]:
    """How many arguments a function may be given fewer than it has."""
    parameters = [enumerate(function.parameters) for function in program.functions[name]]
    return {number for some in parameters for number, parameter in some if parameter.value is not None}


def _ending(one: Expression, last: Expression, more: str, note: str) -> Draft:
    """A call that ends with one of its arguments, and others behind it."""
    source = one.unit.source
    return replaced(one, Text(f"{source.slice(one.start, last.whole[1])}{more})", precedence.POSTFIX), note)
