"""What is summed up begun anew."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators.conditions.guard import stored
from wmmadiag.diagnose.operators.cuda_names import FILL, MULTIPLY, STORE
from wmmadiag.diagnose.operators.making import Draft, inserted_after, inserted_before, put_after
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator
from wmmadiag.diagnose.operators.statements.brought_up import root_of
from wmmadiag.diagnose.operators.zeros import zero_of

_ELEMENTS = frozenset({"name", "subscript", "member"})


@operator
def anew(program: Program) -> Iterator[Draft]:
    """A running value or fragment set before a loop that adds to it, as it is set elsewhere, or to nought; a fragment
    set after it was stored, in a loop that adds to it."""
    setters: dict[str, Statement] = {}
    for body in program.bodies:
        for one in body.statements:
            name = _set(one)
            if name is not None:
                setters.setdefault(name, one)
    for statement in program.statements:
        for loop in statement.loops:
            setter = setters.get(_stored(statement))
            if setter is not None and statement.braced and _stored(statement) in set(_added_to(loop)):
                after = statement.block[statement.index + 1] if statement.index + 1 < len(statement.block) else None
                if after is None or after.text != setter.text:
                    yield inserted_after(statement, setter.text, f"{setter.text[:-1]} once stored", "initial value")
    for loop in program.statements:
        if loop.kind != "loop" or not loop.braced or loop.unit.macro:
            continue
        for name in dict.fromkeys(_added_to(loop)):
            scope = program.names_at(loop.unit, loop.start)
            if name not in scope:
                continue
            setter = setters.get(name)
            if setter is not None:
                text = setter.text
            else:
                used = next(part for part in loop.all_parts() if part.text == name)
                nought = zero_of(program, used) if used.type.kind == "float" else None
                if nought is None:
                    continue
                text = f"{name} = {nought};"
            if loop.index == 0 or loop.block[loop.index - 1].text != text:
                yield inserted_before(loop, text, f"{text[:-1]} before the loop", "initial value")


@operator
def anew_once_stored(program: Program) -> Iterator[Draft]:
    """Sums set to what they begin with at the end of a branch that stores them, in a loop that adds to them."""
    values = {variable.name: value for one in program.statements for variable, value in one.initial_values()}
    for branch in program.statements:
        if branch.kind != "if" or not branch.loops or branch.unit.macro:
            continue
        block = branch.children[0]
        if block.kind != "block" or not block.children:
            continue
        inner = {variable.name for loop in branch.loops[-1:] for one in loop.under() for variable in one.declares}
        sums = dict.fromkeys(name for name in _added_to(branch.loops[-1]) if name not in inner and name in values)
        kept = {_set(one) for one in block.under()}
        out = {
            name for one in block.under() if stored(one) is not None for name in one.expressions[0].operands[1].names
        }
        wanted = [name for name in sums if name in out and name not in kept and values[name].varying is False]
        if wanted:
            text = " ".join(f"{name} = {values[name].text};" for name in wanted)
            yield inserted_after(block.children[-1], text, f"{text[:-1]} once stored", "initial value")


@operator
def anew_once_read(program: Program) -> Iterator[Draft]:
    """`x[i] = 0;` after what adds an `x[i]` to something else, in a loop that adds to `x` or gives it to a function,
    and sets no `x` anew."""
    for loop in program.statements:
        if loop.kind != "loop" or loop.unit.macro or loop.loops:
            continue
        inner = {variable.name for one in loop.under() for variable in one.declares}
        parts = list(loop.all_parts())
        grown = {root_of(part) for part in parts if part.number == 0 and _grows(part)}
        anew = {root_of(part) for part in parts if part.number == 0 and _begins(part)}
        for one in loop.under():
            whole = one.expressions[0] if one.kind == "expression" and len(one.expressions) == 1 else None
            if whole is None or not _grows(whole.operands[0] if whole.operands else whole):
                continue
            own = root_of(whole.operands[0])
            for part in (part for operand in whole.operands[1:] for part in operand.under()):
                name = root_of(part)
                if (
                    name == own
                    or name not in grown - anew - inner
                    or part.type.kind not in ("float", "half", "integer")
                ):
                    continue
                if part.kind in ("name", "subscript", "member") and (nought := zero_of(program, part)) is not None:
                    yield put_after(one, f"{part.text} = {nought};", f"{part.text} = {nought} once read")


def _grows(one: Expression) -> bool:
    """Whether it is what something is added to, or what a function may add to."""
    around = one.parent
    if around is None or one.kind == "literal":
        return False
    if around.kind == "assignment":
        return one.number == 0 and (around.operator == "+=" or any(one.text == part.text for part in _added(around)))
    return around.kind == "call" and around.operator != FILL and one.type.kind in ("array", "record", "pointer")


def _added(whole: Expression) -> Iterator[Expression]:
    return whole.operands[1].under() if len(whole.operands) == 2 else iter(())


def _begins(one: Expression) -> bool:
    """Whether it is set to what it is no part of."""
    around = one.parent
    if around is None:
        return False
    filled = around.kind == "call" and around.operator == FILL
    return filled or (around.kind == "assignment" and around.operator == "=" and not _grows(one))


def _stored(one: Statement) -> str:
    """The fragment that a statement stores."""
    whole = one.expression
    stores = whole is not None and whole.operator == STORE and len(whole.operands) > 1
    return whole.operands[1].text if whole is not None and stores else ""


def _set(one: Statement) -> str | None:
    """What a statement sets to a value of its own: a name, or a fragment that it fills."""
    whole = one.expression
    if whole is None or not whole.operands or not whole.operands[0].atom:
        return None
    if whole.kind == "call" and whole.operator == FILL:
        return whole.operands[0].text
    literal = whole.kind == "assignment" and whole.operator == "=" and whole.operands[1].varying is False
    return whole.operands[0].text if literal else None


def _added_to(loop: Statement) -> Iterator[str]:
    for whole in loop.whole_expressions():
        adds = (whole.kind == "assignment" and whole.operator == "+=") or whole.operator == MULTIPLY
        if adds and whole.operands and whole.operands[0].kind == "name":
            yield whole.operands[0].text
