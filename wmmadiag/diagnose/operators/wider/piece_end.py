"""The end of a piece for its beginning."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.candidates import replaceable
from wmmadiag.diagnose.operators.making import Draft, binary, replaced, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator


@operator
def piece_end(program: Program) -> Iterator[Draft]:
    """`x + s` for an `x` that was made as something times `s`, or that counts in steps of `s`."""
    known = pieces(program)
    for one in program.expressions:
        if replaceable(one) and one.type.whole and not one.assigned and not one.fixed:
            for size in known.get(one.text, ()):
                if pools(program).visible(size, one):
                    yield replaced(one, binary(text_of(one), "+", text_of(size)))


def pieces(program: Program) -> dict[str, list[Expression]]:
    """Each variable with the sizes of the pieces that it begins: `x` with `s` for `x = i * s` and `x += s`."""
    found: dict[str, list[Expression]] = defaultdict(list)
    for statement in dict.fromkeys(one.statement for one in program.all_expressions()):
        if statement.kind == "declaration" and len(statement.declares) == 1 and statement.expressions:
            made = sums.uncast(statement.expressions[-1])
            if made.kind == "binary" and made.operator == "*":
                found[statement.declares[0].name] += [one for one in made.operands if is_size(one)]
        for one in statement.expressions if statement.kind == "loop" else ():
            if one.kind == "assignment" and one.operator == "+=" and is_size(one.operands[1]):
                found[one.operands[0].text].append(one.operands[1])
    return found


def is_size(one: Expression) -> bool:
    """Whether it is a whole number with a name, or written, that all threads have alike."""
    return one.atom and one.type.whole and one.varying is False
