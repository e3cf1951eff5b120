"""What a fragment begins with."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.cuda_names import FILL, LOAD, MULTIPLY, STORE
from wmmadiag.diagnose.operators.making import Draft, Text, inserted_before, replaced
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator


@operator
def begun(program: Program) -> Iterator[Draft]:
    """A fragment loaded from where it is stored, in place of being filled, or where nothing begins it; or filled with
    nought, not loaded."""
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

    begun_with = {one.operands[0].text.split("[")[0] for one in calls if one.operator in (FILL, LOAD, MULTIPLY)}
    for store in stores:
        to, stored, pitch, layout = store.operands
        if stored.text.split("[")[0] in begun_with:
            continue
        block = store.statement.block[: store.statement.index]
        first = next((one for one in block if _names(one, stored.text)), None)
        if first is not None and first.braced and all(pool.visible(part, _at(first)) for part in (to, pitch)):
            scope = store.text[: store.text.index(store.operator)]
            text = f"{scope}{LOAD}({stored.text}, {to.text}, {pitch.text}, {layout.text});"
            yield inserted_before(first, text, f"{text} before this line", "statement")


def _names(one: Statement, name: str) -> bool:
    return any(part.text == name for part in one.all_parts())


def _at(one: Statement) -> Expression:
    return next(iter(one.whole_expressions()))


def _for(one: Expression, text: str) -> Draft:
    return replaced(one, Text(text, precedence.POSTFIX), f"{text} for {one.text}")
