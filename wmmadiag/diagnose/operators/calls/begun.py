"""What a fragment begins with."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.cuda_names import FILL, LOAD, STORE
from wmmadiag.diagnose.operators.making import Draft, Text, replaced
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator


@operator
def begun(program: Program) -> Iterator[Draft]:
    """A fragment loaded from where it is stored, in place of being filled; or filled with nought, not loaded."""
    pool = pools(program)
    calls = [one for one in program.all_expressions() if one.kind == "call" and one.operands]
    stores = [one for one in calls if one.operator == STORE and len(one.operands) == 4]
    for one in program.expressions:
        if one.kind != "call" or one.operator not in (FILL, LOAD) or len(one.operands) < 2:
            continue
        scope = one.text[: one.text.index(one.operator)]
        held = one.operands[0]
        if one.operator == LOAD:
            if len(one.operands) == 4:
                yield _for(one, f"{scope}{FILL}({held.text}, 0.0f)")
            continue
        for store in stores:
            to, stored, pitch, layout = store.operands
            if stored.text == held.text and store.unit is one.unit and pool.visible(to, one):
                yield _for(one, f"{scope}{LOAD}({held.text}, {to.text}, {pitch.text}, {layout.text})")


def _for(one: Expression, text: str) -> Draft:
    return replaced(one, Text(text, precedence.POSTFIX), f"{text} for {one.text}")
