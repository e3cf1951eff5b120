"""What nothing reads, used: somebody made it for something."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.candidates import in_own_array
from wmmadiag.diagnose.operators.making import Draft, Text, binary, replaced, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import MOST_UNREAD, Atom, pools
from wmmadiag.diagnose.operators.registry import operator

_WHOLE, _REAL = ("/", "*", "%", "+", "-"), ("*", "/", "+", "-")
_NO_VALUES = frozenset({"literal", "list", "assignment", "conditional"})


@operator
def first_use(program: Program) -> Iterator[Draft]:
    """`e / u`, `e * u`, `e % u`, `e + u`, `e - u` and `min(e, u)` for a number `e`, with a parameter, a variable or a
    member of a parameter `u` of its kind that nothing reads."""
    read = {one.text for one in program.all_expressions() if one.atom and not one.assigned}
    idle: dict[int, Sequence[Atom]] = {}  # by where they are visible
    for one in program.expressions:
        if one.kind in _NO_VALUES or one.assigned or one.fixed or _constant(program, one) or in_own_array(one):
            continue
        visible = pools(program).at(one)
        if id(visible) not in idle:
            scope = program.names_at(one.unit, one.start)
            local = {name for name, variable in scope.items() if variable.kind == "local"}
            idle[id(visible)] = _idle(visible, read, local)
        for atom in idle[id(visible)]:
            used = Text(atom.text, precedence.POSTFIX)
            if one.type.kind == "integer" and atom.type.whole:
                for sign in _WHOLE:
                    yield replaced(one, binary(text_of(one), sign, used), f"{sign} {atom.text}")
                yield replaced(one, Text(f"min({one.text}, {atom.text})", precedence.POSTFIX), f"at most {atom.text}")
            elif one.type.kind == atom.type.kind == "float":
                for sign in _REAL:
                    yield replaced(one, binary(text_of(one), sign, used), f"{sign} {atom.text}")


def _idle(visible: Sequence[Atom], read: Set[str], local: Set[str]) -> Sequence[Atom]:
    """The names in sight that nothing reads, but for constants, which host code may; of too many, those that are no
    members, and of these those of `local` variables."""
    unread = [atom for atom in visible if atom.text not in read]
    numbers = [atom for atom in unread if atom.type.whole or atom.type.kind == "float"]
    found = [atom for atom in numbers if atom.text in local or (atom.root and not atom.varying and not atom.constant)]
    own = [atom for atom in found if atom.root == atom.text]
    for few in (found, own, [atom for atom in own if atom.text in local]):
        if len(few) <= MOST_UNREAD:
            return few
    return ()


def _constant(program: Program, one: Expression) -> bool:
    """Whether it is the name of a constant, or true or false."""
    if one.type.kind == "bool" or "::" in one.text:
        return True
    known = program.names_at(one.unit, one.start).get(one.text) if one.kind == "name" else None
    return one.text in program.reader.constants or (known is not None and known.constant)
