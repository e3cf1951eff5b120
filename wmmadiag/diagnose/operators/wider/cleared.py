"""Shared memory that nobody sets before it is read."""

from __future__ import annotations

from collections.abc import Iterator, Set

from wmmadiag.csource.types import Type
from wmmadiag.diagnose.operators.making import Draft, inserted_before
from wmmadiag.diagnose.operators.model import Body, Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_THREAD = "threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)"
_THREADS = "blockDim.x * blockDim.y * blockDim.z"
_MOST_PLACES = 3
_LANES = {"/": "32", ">>": "5"}


@operator
def cleared(program: Program) -> Iterator[Draft]:
    """All threads set an array in shared memory to nought before the statement of the kernel that uses it first, or one
    of those before it, and wait for each other; in each round of a loop before what uses it first there; or the lanes
    of each warp the part that it has."""
    warps = _numbers_of_warps(program)
    for body in program.bodies:
        if not body.kernel or body.root is None or body.unit.macro:
            continue
        for text, first in _arrays(body).items():
            loop = (
                f"for (unsigned at_ = {_THREAD}; at_ < sizeof({text}) / 4; at_ += {_THREADS}) "
                f"reinterpret_cast<unsigned*>(&({text}))[at_] = 0; __syncthreads();"
            )
            places = [one for one in body.root.children[: first.index + 1] if one.kind != "declaration"]
            for place in places[-_MOST_PLACES:]:
                yield inserted_before(place, loop, f"{text} set to 0 before it is used", "initial value")
            yield from _in_rounds(body, {text}, f"__syncthreads(); {loop}")
        for text, names in _rows(body, warps).items():
            loop = (
                f"for (unsigned at_ = threadIdx.x % 32; at_ < sizeof({text}) / 4; at_ += 32) "
                f"reinterpret_cast<unsigned*>(&({text}))[at_] = 0; __syncwarp();"
            )
            yield from _in_rounds(body, names, loop)


def _in_rounds(body: Body, names: set[str], text: str) -> Iterator[Draft]:
    """A statement put before the first one of each loop of a kernel that has one of some names."""
    for loop in body.root.children if body.root is not None else ():
        inner = loop.children[0].children if loop.kind == "loop" and loop.children else ()
        for place in inner:
            if any(part.text in names for part in place.all_parts()):
                yield inserted_before(place, text, f"{min(names)} set to 0 in each round", "initial value")
                break


def _rows(body: Body, warps: set[str]) -> dict[str, set[str]]:
    """The parts of arrays in shared memory that are a warp's own, each with the pointers to it."""
    shared = {variable.name for one in body.statements for variable in one.declares if variable.shared}
    found: dict[str, set[str]] = {}
    for statement in body.statements:
        values = {id(value): variable.name for variable, value in statement.initial_values()}
        for one in statement.own_parts():
            if (
                one.kind == "subscript"
                and one.operands[1].text in warps
                and _array(one.type)
                and one.base("subscript", "member").text in shared
            ):
                found.setdefault(one.text, {one.text}).update({values[id(one)]} if id(one) in values else ())
    return found


def _arrays(body: Body) -> dict[str, Statement]:
    """Arrays in shared memory, members of records there included, with the kernel's statement that uses each first."""
    assert body.root is not None
    shared = {variable.name for one in body.statements for variable in one.declares if variable.shared}
    found: dict[str, Statement] = {}
    for statement in body.root.children:
        for one in statement.all_parts():
            if _array(one.type) and one.base("subscript", "member").text in shared and one.kind in ("name", "member"):
                found.setdefault(one.text, statement)
    return found


def _array(kind: Type) -> bool:
    while kind.kind == "array" and kind.of is not None:
        kind = kind.of
        if kind.kind != "array":
            return kind.arithmetic
    return False


def _numbers_of_warps(program: Program) -> set[str]:
    """The names of whole numbers that are declared as those of warps."""
    warps: set[str] = set()
    for statement in program.statements:
        warps |= set(_numbers(statement, warps))
    return warps


def _numbers(statement: Statement, known: Set[str]) -> Iterator[str]:
    """The whole numbers that a statement declares as those of warps: a thread's over 32, not one of these over another.

    Args:
        known: those that were declared before.
    """
    for variable in statement.declares if statement.kind == "declaration" else ():
        if variable.value is not None:
            start = variable.value.start_byte
            if any(one.whole[0] == start and _of_warp(one) and not one.names & known for one in statement.expressions):
                yield variable.name


def _of_warp(one: Expression) -> bool:
    if one.kind != "binary" or one.operator not in _LANES or one.operands[0].varying is False:
        return False
    by = one.operands[1]
    return by.text == _LANES[one.operator] or (one.operator == "/" and by.kind == "name" and by.varying is False)
