"""Barriers more, fewer, or for more threads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from wmmadiag.diagnose.operators.boundaries import boundaries
from wmmadiag.diagnose.operators.making import Draft, inserted_after, inserted_before, statement_replaced
from wmmadiag.diagnose.operators.model import Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_OTHERS: Mapping[str, tuple[str, ...]] = {
    "__syncthreads": ("__syncwarp",), "__syncwarp": ("__syncthreads",), "arrive": ("arrive_and_wait",),
    "arrive_and_wait": ("arrive",), "__threadfence": ("__syncthreads",), "__threadfence_block": ("__syncthreads",),
    "__syncthreads_or": ("__syncthreads_and",),
}  # fmt: skip
_TEXTS = {"barrier": "__syncthreads();", "warp barrier": "__syncwarp();"}
# CUDA C++ Programming Guide, memory fence functions: all that a block wrote, before one of its threads tells others.
_TOLD = "__threadfence(); __syncthreads();"
_ALIAS = re.compile(rb"namespace\s+(\w+)\s*=\s*(?:::)?cooperative_groups")


@operator
def barrier_more(program: Program) -> Iterator[Draft]:
    """A barrier between two statements of which one touches memory: of the block, and of the warp; with a fence before
    it where blocks tell each other something by atomic operations."""
    told = any(one.kind == "call" and one.operator.startswith("atomic") for one in program.all_expressions())
    texts = [*_TEXTS.items(), *([("barrier", _TOLD)] if told else [])]
    for place in boundaries(program):
        for order, text in texts:
            if order == "barrier" and place.divergent:
                continue
            if place.after is not None:
                yield inserted_after(place.after, text, f"{text[:-1]} after {_short(place.after)}", order)
            elif place.before is not None:
                yield inserted_before(place.before, text, f"{text[:-1]} before {_short(place.before)}", order)


@operator
def barrier_other(program: Program) -> Iterator[Draft]:
    """A barrier for the block in place of one for the warp, and the other way; for the grid; or none."""
    for one in program.statements:
        if one.order is None or not one.expressions:
            continue
        if one.parent is not None:
            yield statement_replaced(one, "" if one.braced else ";", f"without {_short(one)}")
        call = one.expressions[0]
        for other in _OTHERS.get(call.operator, ()):
            text = one.source.replace(call.operator, other, 1)
            yield statement_replaced(one, text, f"{other} for {call.operator}")
        if one.order == "barrier" and one.braced and _whole_grid(program):
            yield statement_replaced(one, _whole_grid(program), f"a barrier of the grid for {_short(one)}")


def _whole_grid(program: Program) -> str:
    """How the program's files would make all blocks meet; "" where they do not include what it takes."""
    if not any(b"cooperative_groups" in text for text in program.texts.values()):
        return ""
    aliases = (_ALIAS.search(text) for text in program.texts.values())
    found = next((one for one in aliases if one is not None), None)
    return f"{found[1].decode() if found else 'cooperative_groups'}::this_grid().sync();"


def _short(one: Statement) -> str:
    return one.text if len(one.text) < 50 else f"{one.text[:47]}..."
