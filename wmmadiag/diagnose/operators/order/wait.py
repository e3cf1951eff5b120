"""Waits, commits and fences more."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators.boundaries import boundaries
from wmmadiag.diagnose.operators.cuda_names import ORDER
from wmmadiag.diagnose.operators.making import Draft, inserted_after, inserted_before
from wmmadiag.diagnose.operators.model import Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

# cuda::pipeline, CUDA C++ Programming Guide.
_PIPELINE = ("producer_acquire", "producer_commit", "consumer_wait", "consumer_release")
_COPIED = frozenset({"wait", "commit", "arrive", "fence"})


@operator
def wait_more(program: Program) -> Iterator[Draft]:
    """A wait, commit or fence of the program's at another place; a wait for everything."""
    texts = dict.fromkeys(_texts(program))
    if not texts:
        return
    around = list(_ordering_places(program))
    for place in around:
        for text, order in texts:
            if place.order == order and place.text == text:
                continue
            if place.braced:
                yield inserted_before(place, text, f"{text} before {place.text[:50]}", order)
                yield inserted_after(place, text, f"{text} after {place.text[:50]}", order)
    for boundary in boundaries(program):
        if boundary.after is not None and boundary.after.kind in ("loop", "if"):
            for text, order in texts:
                yield inserted_after(boundary.after, text, f"{text} after the {boundary.after.kind}", order)
        elif boundary.before is not None and boundary.after is None and boundary.before.parent is not None:
            for text, order in texts:
                yield inserted_before(boundary.before, text, f"{text} first in the block", order)


def _texts(program: Program) -> Iterator[tuple[str, str]]:
    for body in program.bodies:
        if body.function is None or not body.statements:
            continue
        for one in body.statements:
            if one.order in _COPIED and one.expressions[0].receiver is not None:
                yield from _methods(one)
            if one.order in _COPIED and one.parent is not None and not _is_whole(one):
                yield one.text, one.order
                call = one.expressions[0]
                if one.order == "wait" and len(call.operands) == 1 and call.operands[0].text != "0":
                    yield one.text.replace(f"({call.operands[0].text})", "(0)"), one.order


def _methods(one: Statement) -> Iterator[tuple[str, str]]:
    """What else may be done with what a statement waits for or commits to."""
    call = one.expressions[0]
    receiver = call.receiver
    for method in _PIPELINE if receiver is not None and call.operator in _PIPELINE else ():
        if receiver is not None:
            yield f"{receiver.text}.{method}();", ORDER[method]


def _is_whole(one: Statement) -> bool:
    """Whether it is all that a function does: what calls of it stand for."""
    root = one.function.root
    return root is not None and not one.function.kernel and len(root.children) == 1


def _ordering_places(program: Program) -> Iterator[Statement]:
    return (one for one in program.statements if one.order is not None and not _is_whole(one))
