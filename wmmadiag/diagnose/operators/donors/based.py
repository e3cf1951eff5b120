"""Where the part begins that a block is about, left out of a thread's coordinate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.making import Draft, Text, binary, replaced, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator

_ROLES = frozenset({"index", "offset", "coordinate", "argument", "loop start", "compared"})
_MOST = 3
_NUMBERS = frozenset({"threadIdx", "blockIdx"})
_OF_THREAD, _OF_BLOCK = frozenset({"threadIdx"}), frozenset({"blockIdx"})


@operator
def based(program: Program) -> Iterator[Draft]:
    """`b + a` for a coordinate `a` that is made of a thread's number alone, with a `b` made of a block's alone."""
    made_of = _made_of(program)
    pool = pools(program)
    for one in program.expressions:
        if one.role not in _ROLES or not one.type.whole or one.assigned or one.fixed or not sums.top(one):
            continue
        if one.kind == "literal" or _origins(one, made_of) != _OF_THREAD:
            continue
        bases = [atom.text for atom in pool.at(one) if atom.type.whole and made_of.get(atom.text) == _OF_BLOCK]
        for base in bases[-_MOST:]:
            yield replaced(one, binary(Text(base), "+", text_of(one)), f"{base} + {one.text}")


def _made_of(program: Program) -> Mapping[str, frozenset[str]]:
    """Of each whole number that a function declares: whether a thread's number or a block's goes into it."""
    made: dict[str, frozenset[str]] = {}
    for statement in program.statements:
        if statement.kind != "declaration":
            continue
        for variable in statement.declares:
            value = variable.value
            held = [one for one in statement.expressions if value is not None
                    and value.start_byte <= one.start and one.end <= value.end_byte]  # fmt: skip
            found: frozenset[str] = frozenset()
            for one in held:
                found |= _origins(one, made)
            made[variable.name] = made.get(variable.name, frozenset()) | found
    return made


def _origins(one: Expression, made_of: Mapping[str, frozenset[str]]) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    for name in one.names:
        found |= {name} if name in _NUMBERS else made_of.get(name, frozenset())
    return found
