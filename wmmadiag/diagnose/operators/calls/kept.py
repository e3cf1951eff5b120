"""A fragment that is computed for nothing."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators.cuda_names import FILL, LOAD, MULTIPLY, STORE
from wmmadiag.diagnose.operators.making import Draft, inserted_before
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator

_LAYOUT = "mem_row_major"


@operator
def kept(program: Program) -> Iterator[Draft]:
    """`store_matrix_sync(p, c, ld, …)` before what loads from `p`, for a fragment `c` that products were added to and
    nothing reads; and with a `__syncwarp()` behind it."""
    pool = pools(program)
    calls = [one for one in program.all_expressions() if one.kind == "call" and one.operands]
    made = {one.operands[0].text: one for one in calls if one.operator == MULTIPLY}
    layout = next((one.operands[3].text for one in calls if one.operator == STORE and len(one.operands) == 4), "")
    for name, product in made.items():
        if any(_reads(one, name) for one in program.all_expressions()):
            continue
        for load in calls:
            if (
                load.operator != LOAD
                or len(load.operands) < 3
                or load.statement.function is not product.statement.function
            ):
                continue
            place, (_, where, pitch, *_rest) = _held(load.statement), load.operands
            later = load.start > product.end
            if place is None or not later or not all(pool.visible(part, _first(place)) for part in (where, pitch)):
                continue
            scope = load.text[: load.text.index(LOAD)]
            text = f"{scope}{STORE}({where.text}, {name}, {pitch.text}, {layout or scope + _LAYOUT});"
            for waits in ("", " __syncwarp();"):
                yield inserted_before(place, text + waits, f"{text}{waits} before this line", "statement")


def _reads(one: Expression, name: str) -> bool:
    """Whether an expression reads a fragment for more than for itself."""
    if one.text != name or one.parent is None:
        return False
    around = one.parent
    if around.kind == "call":
        own = around.operands[0].text == name and around.operator == MULTIPLY
        return not own and not (one.number == 0 and around.operator in (LOAD, FILL))
    if around.kind == "member" and around.operator == "num_elements":
        return False
    whole = one.outermost
    return not (whole.kind == "assignment" and name in whole.operands[0].names)


def _held(one: Statement) -> Statement | None:
    while not one.braced and one.parent is not None:
        one = one.parent
    return one if one.braced else None


def _first(one: Statement) -> Expression:
    return next(iter(one.whole_expressions()))
