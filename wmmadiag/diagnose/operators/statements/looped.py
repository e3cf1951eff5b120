"""A block or branch that is run once made a loop."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.changes import Kind
from wmmadiag.diagnose.operators.making import Draft
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator


@operator
def looped(program: Program) -> Iterator[Draft]:
    """`for (int i = a; i < n; i += s)` for a block that begins with `int i = a`, or for `if (int i = a; i < n)`."""
    heads = list(_heads(program))
    for statement in program.statements:
        if statement.kind == "block" and statement.parent is not None and statement.braced and statement.children:
            yield from _block(program, statement, heads)
        elif statement.kind == "if" and statement.condition is not None and len(statement.children) == 1:
            yield from _branch(program, statement, heads)


def _block(program: Program, block: Statement, heads: list[tuple[Expression, Expression]]) -> Iterator[Draft]:
    first = block.children[0]
    if first.kind != "declaration" or len(first.declares) != 1 or len(first.expressions) != 1:
        return
    name, start = first.declares[0].name, first.expressions[0]
    if start.type.kind != "integer":
        return
    source = block.unit.source
    rest = source.slice(first.end, block.end)
    for bound, step in _visible(program, start, heads):
        text = f"for (int {name} = {start.text}; {name} < {bound.text}; {name} += {step.text}) {{{rest}"
        yield _made(block, text, f"for every {name} up to {bound.text} in steps of {step.text}")


def _branch(program: Program, branch: Statement, heads: list[tuple[Expression, Expression]]) -> Iterator[Draft]:
    condition = branch.condition
    assert condition is not None
    if condition.kind != "binary" or condition.operator != "<" or not condition.operands[0].atom:
        return
    counted, bound = condition.operands
    body = branch.unit.source.slice(branch.children[0].start, branch.children[0].end)
    if branch.declares:
        head = branch.unit.source.slice(branch.declares[0].node.start_byte, branch.declares[0].node.end_byte).rstrip(
            "; "
        )
        uses: list[Expression] = []
    else:
        head = f"int {_fresh(counted.text)} = {counted.text}"
        uses = [
            one for whole in branch.children[0].whole_expressions() for one in whole.under() if one.text == counted.text
        ]
    name = branch.declares[0].name if branch.declares else _fresh(counted.text)
    base = branch.children[0].start
    for one in reversed(uses):
        body = f"{body[: one.start - base]}{name}{body[one.end - base :]}"
    for step in {step.text: step for _, step in _visible(program, counted, heads)}.values():
        text = f"for ({head}; {name} < {bound.text}; {name} += {step.text}) {body}"
        yield _made(branch, text, f"for every {name} in steps of {step.text}")


def _made(one: Statement, text: str, note: str) -> Draft:
    kind: Kind = "static" if one.fixed else "statement"
    return Draft((one.unit.edit(one.start, one.end, text),), kind, "loop", note)


def _fresh(text: str) -> str:
    return f"{text.rpartition('.')[2].rpartition('::')[2]}_"


def _heads(program: Program) -> Iterator[tuple[Expression, Expression]]:
    """The bounds and steps of the loops whose steps are no single ones."""
    seen = set()
    for body in program.bodies:
        for one in body.statements:
            if one.kind != "loop" or one.condition is None or one.condition.kind != "binary":
                continue
            last = one.expressions[-1]
            if last.kind == "assignment" and last.operator == "+=" and one.condition.operator in ("<", "<="):
                bound, step = one.condition.operands[1], last.operands[1]
                if (bound.text, step.text) not in seen:
                    seen.add((bound.text, step.text))
                    yield bound, step


def _visible(
    program: Program, at: Expression, heads: list[tuple[Expression, Expression]]
) -> Iterator[tuple[Expression, Expression]]:
    pool = pools(program)
    return (one for one in heads if pool.visible(one[0], at) and pool.visible(one[1], at))
