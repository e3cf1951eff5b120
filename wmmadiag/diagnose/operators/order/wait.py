"""Waits, commits and fences more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wmmadiag.diagnose.operators.boundaries import boundaries
from wmmadiag.diagnose.operators.cuda_names import (
    COMMIT_AND_WAIT,
    COPIES,
    COPY_IN_ASSEMBLY,
    ORDER,
    WAIT_FOR_ALL,
)
from wmmadiag.diagnose.operators.making import Draft, inserted_after, inserted_before
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.ordering import unused
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

# cuda::pipeline, CUDA C++ Programming Guide.
_PIPELINE = ("producer_acquire", "producer_commit", "consumer_wait", "consumer_release")
_COPIED = frozenset({"wait", "commit", "arrive", "fence"})
_MOST_UNUSED = 4

_Known = tuple[str, str, frozenset[str]]
"""A statement, what it does to the order of accesses, and the variables that it names."""


@operator
def wait_more(program: Program) -> Iterator[Draft]:
    """A wait, commit or fence of the program's at another place, or one that nothing calls; a wait for everything."""
    known = dict.fromkeys((*_texts(program), *_unused(program)))
    if not known:
        return
    around = list(_ordering_places(program))
    for place in around:
        for text, order in _visible(program, known, place):
            if place.order == order and place.text == text:
                continue
            if place.braced:
                yield inserted_before(place, text, f"{text} before {place.text[:50]}", order)
                yield inserted_after(place, text, f"{text} after {place.text[:50]}", order)
    for boundary in boundaries(program):
        if boundary.after is not None and boundary.after.kind in ("loop", "if"):
            for text, order in _visible(program, known, boundary.after):
                yield inserted_after(boundary.after, text, f"{text} after the {boundary.after.kind}", order)
        elif boundary.before is not None and boundary.after is None and boundary.before.parent is not None:
            for text, order in _visible(program, known, boundary.before):
                yield inserted_before(boundary.before, text, f"{text} first in the block", order)


def _visible(program: Program, known: Iterable[_Known], place: Statement) -> Iterator[tuple[str, str]]:
    """What can be named at a place."""
    scope = program.names_at(place.unit, place.start)
    yield from ((text, order) for text, order, names in known if names <= scope.keys())


def _locals(program: Program, one: Expression) -> frozenset[str]:
    """The variables of a function that an expression names."""
    scope = program.names_at(one.unit, one.start)
    return frozenset(name for name in one.names if name in scope and scope[name].kind in ("local", "parameter"))


def _texts(program: Program) -> Iterator[_Known]:
    for body in program.bodies:
        if body.function is None or not body.statements:
            continue
        for one in body.statements:
            if one.order in _COPIED and one.expressions[0].receiver is not None:
                yield from _methods(program, one)
            if one.order in _COPIED and one.parent is not None and not _is_whole(one):
                call = one.expressions[0]
                names = _locals(program, call)
                yield one.text, one.order, names
                yield from _unmet(program, one)
                if one.order == "wait" and len(call.operands) == 1 and call.operands[0].text != "0":
                    yield one.text.replace(f"({call.operands[0].text})", "(0)"), one.order, frozenset()


def _unmet(program: Program, one: Statement) -> Iterator[_Known]:
    """An arrival as a statement makes it, at what somebody waits for and nobody arrives at."""
    call = one.expressions[0]
    if one.order == "arrive" and call.kind == "call" and len(call.operands) == 1:
        calls = (other.expressions[0] for other in program.statements if other.order == "arrive")
        met = {other.operands[0].text for other in calls if other.operator == call.operator and other.operands}
        for text, names in _given(program).items():
            if text not in met:
                yield f"{call.operator}({text});", "arrive", names


def _unused(program: Program) -> Iterator[_Known]:
    """What the program has to order accesses by and nothing calls; where copies are made and nothing waits for them,
    and it has nothing that would, what waits for all."""
    copies = {_copies(one) for one in program.all_expressions()} - {""}
    reached = {body.name for body in program.bodies}
    done = {one.order for one in program.statements} - {None}
    for number, (name, count, order) in enumerate(unused(program.functions, program.macros, reached)):
        if number < _MOST_UNUSED and (copies if order in ("wait", "commit") else done):
            done.add(order)
            plain = {"0" if count else "": frozenset[str]()}
            given = _given(program) if count and order == "arrive" else plain
            yield from ((f"{name}({text});", order, names) for text, names in given.items() if count < 2)
    if "wait" not in done:
        yield from ((text, "wait", frozenset()) for text in copies)


def _copies(one: Expression) -> str:
    """What would wait for the copy that an expression begins; "" where it begins none."""
    if one.kind == "assembly":
        return WAIT_FOR_ALL if COPY_IN_ASSEMBLY.search(one.text) else ""
    return COMMIT_AND_WAIT if one.kind == "call" and one.operator in COPIES else ""


def _given(program: Program) -> dict[str, frozenset[str]]:
    """What barriers and waits of the program are given alone, each with the variables in it."""
    calls = [one.expressions[0] for one in program.statements if one.order in ("barrier", "wait") and one.expressions]
    alone = [one.operands[0] for one in calls if one.kind == "call" and len(one.operands) == 1]
    return {one.text: _locals(program, one) for one in alone}


def _methods(program: Program, one: Statement) -> Iterator[_Known]:
    """What else may be done with what a statement waits for or commits to."""
    call = one.expressions[0]
    receiver = call.receiver
    for method in _PIPELINE if receiver is not None and call.operator in _PIPELINE else ():
        if receiver is not None:
            yield f"{receiver.text}.{method}();", ORDER[method], _locals(program, receiver)


def _is_whole(one: Statement) -> bool:
    """Whether it is all that a function does: what calls of it stand for."""
    root = one.function.root
    return root is not None and not one.function.kernel and len(root.children) == 1


def _ordering_places(program: Program) -> Iterator[Statement]:
    return (one for one in program.statements if one.order is not None and not _is_whole(one))
