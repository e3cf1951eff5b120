"""What is set where something else begins."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from wmmadiag.diagnose.operators.cuda_names import ARGUMENTS
from wmmadiag.diagnose.operators.expressions.identity import begun_with
from wmmadiag.diagnose.operators.making import Draft, put_after
from wmmadiag.diagnose.operators.model import Body, Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator
from wmmadiag.diagnose.operators.zeros import zero_of

_MOST = 4
"""Places of one array that are tried beside one statement."""
_MEMBER = 0
"""Stands for the body of what every function may name: members of records, and what is declared outside of all."""
_Key = tuple[int, str]
"""The body that a variable belongs to, and its name."""


@operator
def set_beside(program: Program) -> Iterator[Draft]:
    """`x[i] = 0;` after `y[i] = c;` with a constant `c`, for an `x` that nothing sets but from itself, and `x[j] = 0;`
    after what sets any element, with a `j` at which it is used; for a least or greatest one what it begins with."""
    begun = begun_with(program)
    targets = [(one, _set(one)) for one in program.statements if not one.unit.macro]
    for key, elements in _never_set(program).items():
        own = [(one, target) for one, target in targets if target is not None and _reaches(key, one, target)]
        beside = [(one, text) for one, target in own for text in _beside(program, one, target, key[1], elements)]
        used = {each.text for each in elements}
        if not any(text in used for _, text in beside):  # set to a constant together, where an element of both is used
            beside += [(one, text) for one, target in own for text in _named_there(program, one, target, elements)]
        nought = zero_of(program, elements[0])
        values = dict.fromkeys((*begun.get(key[1], ()), *([nought] if nought else ())))
        for one, text in dict.fromkeys(beside):
            note = f"beside {one.text[:50]}"
            yield from (put_after(one, f"{text} = {value};", f"{text} = {value} {note}") for value in values)


def _reaches(key: _Key, one: Statement, target: Expression) -> bool:
    """Whether a statement may name a variable, and sets another one."""
    return key[0] in (id(one.function), _MEMBER) and _name(_base(target)) != key[1]


def _beside(
    program: Program, one: Statement, target: Expression, name: str, elements: Sequence[Expression]
) -> Iterator[str]:
    """Of what is never set, the element that belongs to what a statement sets to a constant."""
    base = _base(target)
    alike = any(each.type.same(target.type) and _depth(each) == _depth(target) for each in elements)
    if not alike or one.expressions[0].operands[1].varying is not False:
        return
    if base.kind == "member" or name in program.names_at(one.unit, one.end):
        of = base.text[: len(base.text) - len(base.operator)] if base.kind == "member" else ""
        yield f"{of}{name}{one.unit.source.slice(base.end, target.end)}"


def _named_there(program: Program, one: Statement, target: Expression, elements: Sequence[Expression]) -> Iterator[str]:
    """Elements of what is never set that can be named where a statement sets an element of something else."""
    if target.kind == "subscript":
        pool, whole = pools(program), one.expressions[0]
        known = dict.fromkeys(each.text for each in elements if _depth(each) and pool.visible(each, whole))
        yield from list(known)[:_MOST]


def _set(one: Statement) -> Expression | None:
    """What a statement sets anew."""
    whole = one.expressions[0] if one.kind == "expression" and len(one.expressions) == 1 else None
    if whole is None or whole.kind != "assignment" or whole.operator != "=" or len(whole.operands) != 2:
        return None
    target, value = whole.operands
    return (
        target if target.type.arithmetic and _base(target).text not in {part.text for part in value.under()} else None
    )


def _never_set(program: Program) -> Mapping[_Key, list[Expression]]:
    """What is accumulated and nothing sets anew, each with its elements as they are named."""
    used: dict[_Key, list[Expression]] = defaultdict(list)
    kept: set[_Key] = set()
    anew: set[_Key] = set()
    for body in program.bodies:
        for statement in body.statements:
            anew |= {(id(body), one.name) for one in statement.declares if one.value is not None and not one.pointers}
            for one in statement.own_parts():
                if one.kind == "assignment" and one.operands:
                    target, name = one.operands[0], _base(one.operands[0]).text
                    itself = one.operator != "=" or any(name == part.text for part in one.operands[-1].under())
                    (kept if itself else anew).add(_key(program, body, target))
                elif one.kind == "call" and one.operator.startswith("atomic") and one.operands:
                    of = (part for part in one.operands[0].under() if part.type.address and part.atom)
                    kept |= {_key(program, body, part) for part in of}
                elif one.kind == "call" and one.operator not in ARGUMENTS:
                    given = (part for part in one.operands if part.type.address or part.operator == "&")
                    anew |= {_key(program, body, part) for part in given}
                if one.type.arithmetic and one.kind in ("name", "subscript", "member"):
                    used[_key(program, body, one)].append(one)
    return {key: listed for key, listed in used.items() if key in kept and key not in anew}


def _key(program: Program, body: Body, one: Expression) -> _Key:
    base = _base(one)
    variable = program.names_at(base.unit, base.start).get(base.text) if base.kind == "name" else None
    shared = base.kind == "member" or (variable is not None and variable.kind in ("member", "namespace"))
    return (_MEMBER if shared else id(body)), _name(base)


def _name(base: Expression) -> str:
    """A variable's name, a member's without what it is a member of."""
    return base.operator if base.kind == "member" else base.text


def _base(one: Expression) -> Expression:
    while one.kind == "subscript" or (one.kind == "unary" and one.operator in ("&", "*")):
        one = one.operands[0]
    return one


def _depth(one: Expression) -> int:
    return 1 + _depth(one.operands[0]) if one.kind == "subscript" else 0
