"""What is set where something else begins."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from wmmadiag.diagnose.operators.cuda_names import ARGUMENTS
from wmmadiag.diagnose.operators.expressions.identity import begun_with
from wmmadiag.diagnose.operators.making import Draft, inserted_after, statement_replaced
from wmmadiag.diagnose.operators.model import Body, Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator
from wmmadiag.diagnose.operators.zeros import zero_of

_MOST = 4


@operator
def set_beside(program: Program) -> Iterator[Draft]:
    """`x[i] = 0;` after `y[i] = c;` with a constant `c`, for an `x` that nothing sets but from itself, and `x[j] = 0;`
    after what sets any element, with a `j` at which it is used; for a least or greatest one what it begins with."""
    begun = begun_with(program)
    for body in program.bodies:
        idle = list(_never_set(body).items())[:_MOST]
        for one in body.statements if idle and not body.unit.macro else ():
            target = _set(one)
            if target is None:
                continue
            for name, elements in idle:
                for element in _elements(program, one, target, name, elements):
                    nought = zero_of(program, elements[0])
                    for value in dict.fromkeys((*begun.get(name, ()), *([nought] if nought else ()))):
                        yield _after(one, f"{element} = {value};")


def _elements(
    program: Program, one: Statement, target: Expression, name: str, elements: Sequence[Expression]
) -> Iterator[str]:
    """Of what is never set, the element that belongs to what a statement sets, and those that can be named there."""
    base, whole, pool = _base(target), one.expressions[0], pools(program)
    if name == base.text:
        return
    first = elements[0]
    constant = whole.operands[1].varying is False
    alike = first.type.same(target.type) and _depth(first) == _depth(target)
    if constant and alike and _root(first) in program.names_at(one.unit, one.end):
        yield f"{name}{one.unit.source.slice(base.end, target.end)}"
    if target.kind == "subscript":
        known = dict.fromkeys(each.text for each in elements if _depth(each) and pool.visible(each, whole))
        yield from list(known)[:_MOST]


def _after(one: Statement, text: str) -> Draft:
    note = f"{text[:-1]} beside {one.text[:50]}"
    if one.braced:
        return inserted_after(one, text, note, "initial value")
    source = one.unit.source.slice(one.start, one.end)
    return statement_replaced(one, f"{{ {source} {text} }}", note, "initial value")


def _set(one: Statement) -> Expression | None:
    """What a statement sets anew."""
    whole = one.expressions[0] if one.kind == "expression" and len(one.expressions) == 1 else None
    if whole is None or whole.kind != "assignment" or whole.operator != "=" or len(whole.operands) != 2:
        return None
    target, value = whole.operands
    return (
        target if target.type.arithmetic and _base(target).text not in {part.text for part in value.under()} else None
    )


def _never_set(body: Body) -> Mapping[str, list[Expression]]:
    """What is accumulated and nothing sets anew, each with its elements as they are named."""
    used: dict[str, list[Expression]] = defaultdict(list)
    kept: dict[str, int] = defaultdict(int)
    anew = {variable.name for statement in body.statements for variable in statement.declares
            if variable.value is not None and not variable.pointers}  # fmt: skip
    for statement in body.statements:
        for whole in statement.expressions:
            for one in whole.under():
                if one.kind == "assignment" and one.operands:
                    target = one.operands[0]
                    name = _base(target).text
                    itself = one.operator != "=" or any(name == part.text for part in one.operands[-1].under())
                    kept[name] += itself
                    anew |= set() if itself else {name}
                elif one.kind == "call" and one.operator.startswith("atomic") and one.operands:
                    kept[
                        next((part.text for part in one.operands[0].under() if part.type.address and part.atom), "")
                    ] += 1
                elif one.kind == "call" and one.operator not in ARGUMENTS:
                    anew |= {_base(part).text for part in one.operands if part.type.address or part.operator == "&"}
                if one.type.arithmetic and one.kind in ("name", "subscript", "member"):
                    used[_base(one).text].append(one)
    return {name: listed for name, listed in used.items() if kept[name] and name not in anew}


def _base(one: Expression) -> Expression:
    while one.kind == "subscript" or (one.kind == "unary" and one.operator in ("&", "*")):
        one = one.operands[0]
    return one


def _depth(one: Expression) -> int:
    return 1 + _depth(one.operands[0]) if one.kind == "subscript" else 0


def _root(one: Expression) -> str:
    one = _base(one)
    while one.kind == "member":
        one = _base(one.operands[0])
    return one.text
