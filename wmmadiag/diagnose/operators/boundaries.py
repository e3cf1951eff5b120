"""Where a barrier, a wait or a copy of a statement may be put: between statements that touch memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from wmmadiag.diagnose.operators.cuda_names import ARGUMENTS
from wmmadiag.diagnose.operators.model import Body, Expression, Statement
from wmmadiag.diagnose.operators.places import Program

# CUDA C++ Programming Guide, cooperative groups: what differs between the threads of a block.
_PER_THREAD = frozenset({"thread_rank", "meta_group_rank", "thread_index", "elect_one"})


@dataclass(frozen=True, slots=True, eq=False)
class Boundary:
    """A place between two statements."""

    after: Statement | None  # the statement before it; None at the beginning of a block
    before: Statement | None  # the statement after it; None at the end of a block
    divergent: bool  # whether threads of one block may come here without the others


def boundaries(program: Program) -> Iterator[Boundary]:
    """The boundaries in functions where a statement beside them touches memory and none orders accesses yet."""
    touching: dict[int, bool] = {}
    known: dict[int, frozenset[str]] = {}
    for statement in program.statements:
        if statement.kind != "block" or not statement.children or statement.unit.macro:
            continue
        body = statement.function
        if id(body) not in known:
            known[id(body)] = _per_thread_names(body)
        divergent = _divergent(statement, known[id(body)])
        held: list[Statement | None] = [None, *statement.children, None]
        loops = statement.parent is not None and statement.parent.kind == "loop"
        for after, before in itertools.pairwise(held):
            beside = [one for one in (after, before) if one is not None]
            if any(one.order in ("barrier", "warp barrier") for one in beside):
                continue
            if after is not None and after.kind in ("return", "jump"):
                continue
            # Where a loop begins anew, all of it is beside.
            if loops and len(beside) == 1:
                beside = statement.children
            if any(_touches(one, touching) for one in beside):
                yield Boundary(after, before, divergent)


def _touches(one: Statement, known: dict[int, bool]) -> bool:
    found = known.get(id(one))
    if found is None:
        found = one.order in ("wait", "commit") or _calls(one) or any(_access(part) for part in one.all_parts())
        known[id(one)] = found
    return found


def _calls(one: Statement) -> bool:
    """Whether it is a call of something of the user's, which may do anything."""
    whole = one.expression
    return whole is not None and whole.kind == "call" and whole.operator not in ARGUMENTS and whole.type.kind != "float"


def _access(one: Expression) -> bool:
    """Whether it reads or writes what other threads may see: through a pointer, or in an array that is shared."""
    if one.kind == "subscript":
        return _elsewhere(one.operands[0])
    if one.kind == "unary" and one.operator == "*":
        return True
    if one.kind == "call":
        listed = ARGUMENTS.get(one.operator)
        if listed is not None:
            return "pointer" in listed
        return any(part.type.address and _elsewhere(part) for part in one.operands)
    return one.kind == "assembly" and ("[" in one.text)


def _elsewhere(base: Expression) -> bool:
    while base.kind in ("subscript", "cast", "unary") or (base.kind == "binary" and base.type.address):
        base = next((part for part in base.operands if part.type.address), base.operands[0])
    if base.type.kind == "pointer" or base.kind != "name":
        return base.type.kind != "fragment" and not (base.kind == "member" and base.operands[0].type.kind == "fragment")
    variable = base.unit.scopes.at(base.start).get(base.text)
    return variable is None or variable.shared or variable.kind == "namespace"


def _divergent(block: Statement, per_thread: frozenset[str]) -> bool:
    """Whether a block is run by some threads only: in a branch, or a loop of which each thread has its own rounds.

    Where all threads meet at a barrier that stands there, they all come there.
    """
    one: Statement | None = block
    while one is not None:
        if any(child.order == "barrier" for child in one.children):
            return False
        if one.kind == "if" and one.condition is not None and _differs(one.condition, per_thread):
            return True
        if one.kind == "loop" and any(_differs(part, per_thread) for part in one.expressions):
            return True
        one = one.parent
    return False


def _per_thread_names(body: Body) -> frozenset[str]:
    """The variables of a function that differ between the threads of a block, as far as assignments tell."""
    made: list[tuple[str, Expression]] = []
    for statement in body.statements:
        for variable in statement.declares:
            value = variable.value
            made += [
                (variable.name, one)
                for one in statement.expressions
                if value is not None and value.start_byte <= one.start < value.end_byte
            ]
        for whole in statement.expressions:
            made += [
                (one.operands[0].text, one.operands[1])
                for one in whole.under()
                if one.kind == "assignment" and len(one.operands) == 2
            ]
    found: set[str] = set()
    while True:
        more = {name for name, value in made if name not in found and _differs(value, frozenset(found))}
        if not more:
            return frozenset(found)
        found |= more


def _differs(one: Expression, per_thread: frozenset[str]) -> bool:
    """Whether a value differs between the threads of a block."""
    return any(
        (part.kind == "name" and (part.text in per_thread or part.text == "threadIdx"))
        or (part.kind == "call" and part.operator in _PER_THREAD)
        for part in one.under()
    )
