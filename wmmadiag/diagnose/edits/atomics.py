"""Add to memory that others add to as well: atomically, not by a plain store.

Bad:
    C[i] += partial[i];              // two blocks of a split k loop

Good:
    atomicAdd(&C[i], partial[i]);
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator

_KIND = "atomics"
_ALL = ("write-conflict", "tile-overwritten")
_ADDED = frozenset({"float", "double", "int", "unsigned", "__half", "half"})


@generator(_KIND, *_ALL)
def generate(view: View) -> Iterator[Edit]:
    """Plain stores and sums into memory that a pointer parameter gives."""
    model = view.model
    for one in model.assignments:
        if one.operator.text not in ("=", "+=") or not view.wanted(one.target.start, one.value.end):
            continue
        target = model.variable(model.tokens[one.target.first].text, one.target.start)
        plain = target is not None and target.pointer and target.element in _ADDED and one.target.text.endswith("]")
        if plain:
            change = Change(one.target.start, one.value.end, f"atomicAdd(&{one.target.text}, {one.value.text})")
            rank = 0.05 if one.operator.text == "+=" else 0.12
            yield from view.offer(_KIND, _ALL, one.line, f"add to {one.target.text} atomically", (change,), rank)
