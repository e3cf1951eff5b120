"""A statement less."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators.making import Draft, statement_replaced
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_REMOVABLE = frozenset({"expression", "if", "loop", "return", "jump"})


@operator
def removal(program: Program) -> Iterator[Draft]:
    """A statement removed; one part of a comma expression."""
    for one in program.statements:
        if one.kind in _REMOVABLE and one.parent is not None and not (one.kind == "return" and one.expressions):
            yield statement_replaced(one, "" if one.braced else ";", f"without {_short(one.text)}")
        if one.kind == "expression" and one.expressions and one.expressions[0].kind == "comma":
            for kept in one.expressions[0].operands:
                yield statement_replaced(one, f"{kept.text};", f"only {_short(kept.text)}")


def _short(text: str) -> str:
    return text if len(text) < 60 else f"{text[:57]}..."
