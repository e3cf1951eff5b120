"""A thread's place in its warp, or its warp's number, in place of its place in the block."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators.making import Draft, Text, binary, replaced, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_THREAD = "threadIdx.x"
_WARP = "32"
"""Threads of a warp (CUDA C++ Programming Guide, "Hardware Multithreading")."""
_SPLITS = frozenset({"%", "/", "&", ">>"})


@operator
def within_warp(program: Program) -> Iterator[Draft]:
    """`threadIdx.x % 32` and `threadIdx.x / 32` for `threadIdx.x`, or for what is declared as it."""
    threads = {_THREAD} | {
        variable.name
        for statement in program.statements
        for variable in (statement.declares if statement.kind == "declaration" else ())
        if variable.value is not None and statement.unit.source.words(variable.value) == _THREAD
    }
    for one in program.expressions:
        if one.text in threads and one.atom and not one.fixed and not one.assigned and not _split(one):
            for symbol in ("%", "/"):
                yield replaced(one, binary(text_of(one), symbol, Text(_WARP)))


def _split(one: Expression) -> bool:
    """Whether it is divided already, or given a name."""
    around = one.parent
    if around is None:
        return one.statement.kind == "declaration"
    return around.kind == "binary" and around.operator in _SPLITS and one.number == 0
