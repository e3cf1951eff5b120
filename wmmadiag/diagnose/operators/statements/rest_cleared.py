"""What lies behind the end of a loop that fills memory set to nought."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators.candidates import names_for
from wmmadiag.diagnose.operators.conditions.guard import stored
from wmmadiag.diagnose.operators.making import Draft, binary, inserted_after, text_of
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator
from wmmadiag.diagnose.operators.zeros import zero_of

_MOST = 3


@operator
def rest_cleared(program: Program) -> Iterator[Draft]:
    """`for (i = n + t; i < m; i += s) x[i] = 0;` after a loop that stores `x[i]` from `t` up to `n`, for the sizes `m`
    that may stand for `n`: what reads a row in whole pieces reads on behind its end."""
    for loop in program.statements:
        if loop.kind != "loop" or not loop.braced or loop.unit.macro or len(loop.declares) != 1 or not loop.children:
            continue
        bound = _bound(loop)
        begin = _begin(loop)
        if bound is None or begin is None:
            continue
        counter = loop.declares[0].name
        known = program.names_at(loop.unit, loop.end)
        for target in _filled(loop, counter):
            zero = zero_of(program, target)
            if zero is None or not all(name == counter or name in known for name in target.names):
                continue
            for end in dict.fromkeys(_ends(program, bound)):
                text = f"{_head(loop, begin, bound, end)}{target.text} = {zero};"
                yield inserted_after(loop, text, f"{target.text} set to {zero} from there to {end}", "initial value")


def _begin(loop: Statement) -> Expression | None:
    """What the counter of a loop begins with."""
    value = loop.declares[0].value
    begins = (one for one in loop.expressions if value is not None and one.whole[0] == value.start_byte)
    return next(begins, None)


def _bound(loop: Statement) -> Expression | None:
    """What the counter of a loop stays below."""
    condition = loop.condition
    plain = condition is not None and condition.kind == "binary" and condition.operator == "<"
    if condition is None or not plain or condition.operands[0].text != loop.declares[0].name:
        return None
    return condition.operands[1]


def _filled(loop: Statement, counter: str) -> list[Expression]:
    """The elements that a loop stores, by its counter."""
    found: dict[str, Expression] = {}
    for one in loop.under():
        target = stored(one) if one.loops[-1:] == (loop,) else None
        if target is None or target.kind != "subscript" or one.expressions[0].operator != "=":
            continue
        if counter in target.operands[-1].names:
            found[target.text] = target
    return list(found.values())


def _ends(program: Program, bound: Expression) -> Iterator[str]:
    """A bound with another size for one that it names."""
    for part in bound.under():
        if part.kind in ("name", "member") and part.type.whole:
            for atom in names_for(program, part)[:_MOST]:
                before, after = bound.text, part.text
                at = part.start - bound.start
                if before[at : at + len(after)] == after and atom.varying is False:
                    yield f"{before[:at]}{atom.text}{before[at + len(after) :]}"


def _head(loop: Statement, begin: Expression, bound: Expression, end: str) -> str:
    """A loop's head that begins where the loop ends, and goes on as it does."""
    source = loop.unit.source
    first = text_of(bound) if begin.text == "0" else binary(text_of(bound), "+", text_of(begin))
    head = [source.slice(loop.start, begin.whole[0]), first.text, source.slice(begin.whole[1], bound.whole[0]),
            end, source.slice(bound.whole[1], loop.children[0].start)]  # fmt: skip
    return " ".join("".join(head).split()) + " "
