"""What stands for nought of a type in a program, and for a value that is left out."""

from __future__ import annotations

from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools

_PLAIN = {"float": "0.0f", "integer": "0", "byte": "0"}
_ZERO = frozenset({"0", "0.0f", "0.f", "0.0", "0.", "0f", "0u"})
_MOST = 3


class _Noughts:
    def __init__(self, program: Program) -> None:
        self.zeros: dict[tuple[str, str], list[Expression]] = {}
        self.others: dict[str, dict[str, Expression]] = {}
        named: dict[str, Expression] = {}
        for one in program.all_expressions():
            key = one.type.kind, one.type.name if one.type.kind in ("half", "record") else ""
            if _nought(one):
                self.zeros.setdefault(key, []).append(one)
                for variable in one.statement.declares if one.parent is None else ():
                    if "const" in variable.type.split() or variable.constant:
                        named[variable.name] = one
            elif one.kind == "name" and one.text in named:
                self.zeros.setdefault(key, []).append(one)
            other = one.parent is not None and one.parent.kind == "conditional" and one.number > 0
            if one.varying is False and (other or one.role == "initial value") and _told(one):
                self.others.setdefault(one.type.kind, {}).setdefault(one.text, one)


def zero_of(program: Program, one: Expression) -> str | None:
    """How nought of an expression's type is written where it stands; None where nothing says so."""
    held = _noughts(program)
    key = one.type.kind, one.type.name if one.type.kind in ("half", "record") else ""
    pool = pools(program)
    listed = sorted(held.zeros.get(key, ()), key=lambda other: other.kind != "name")
    found = next((other.text for other in listed if pool.visible(other, one)), None)
    if found is None and one.type.kind == "half":
        return f"{one.type.name if one.type.name == 'half' else '__nv_bfloat16'}(0.0f)"
    if found is None and one.type.kind == "record" and one.type.of is not None:  # a vector of CUDA
        return f"{one.type.name}{{}}"
    return found or _PLAIN.get(one.type.kind)


def fallbacks(program: Program, one: Expression) -> list[str]:
    """What a value of this type is where it is left out: nought, and what conditionals elsewhere say."""
    zero = zero_of(program, one)
    pool = pools(program)
    listed = _noughts(program).others.get(one.type.kind, {})
    others = [text for text, other in listed.items() if pool.visible(other, one) and text not in _ZERO]
    return [text for text in [zero, *others] if text is not None][:_MOST]


def _told(one: Expression) -> bool:
    """Whether it is a number or a constant, as written with its sign."""
    if one.parent is not None and one.parent.kind == "unary":
        return False
    return one.atom or (one.kind == "unary" and one.operands[0].atom)


def _nought(one: Expression) -> bool:
    if one.kind == "literal":
        return one.text in _ZERO
    return one.kind in ("cast", "call") and bool(one.operands) and all(part.text in _ZERO for part in one.operands)


def _noughts(program: Program) -> _Noughts:
    return program.once(_Noughts)
