"""Give a carved array a place of its own, where it starts at the very place of another one of its type.

Bad:
    half* sK = sQ + ROWS * LD;
    half* sV = sK;

Good:
    half* sK = sQ + ROWS * LD;
    half* sV = sK + KEYS * LD;
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import replaced
from wmmadiag.diagnose.edits.model import Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.edits.terms import terms
from wmmadiag.diagnose.source.model import SourceModel, Variable

_KIND = "aliases"
_ALL = ("index-arithmetic", "operand-order", "write-conflict", "stale-tile", "missing-barrier", "tensor-strides")
_LIKELY, _LATER = 0.02, 0.004


@generator(_KIND, *_ALL, derived=True)
def generate(view: View) -> Iterator[Edit]:
    """Pointers that begin where another one does: behind it, by an offset that its neighbours have."""
    model = view.model
    carved = [v for v in model.variables if v.pointer and v.kind == "local" and v.initial is not None]
    for pointer in carved:
        first = _same_place(model, pointer, carved)
        if first is None or pointer.initial is None or not view.wanted(pointer.start, pointer.end):
            continue
        for number, offset in enumerate(dict.fromkeys(_offsets(model, pointer, carved))):
            summary = f"{pointer.name} starts {offset} behind {first.name}, not where {first.name} does"
            cause = f"{pointer.name} and {first.name} are the same memory: what one holds the other overwrites"
            change = replaced(pointer.initial, f"{first.name} + {offset}")
            yield from view.offer(_KIND, _ALL, pointer.line, summary, (change,), _LIKELY + _LATER * number, cause)


def _same_place(model: SourceModel, pointer: Variable, carved: list[Variable]) -> Variable | None:
    """The pointer of the same type that one is set to as it is, where both are used below."""
    name = pointer.initial.text if pointer.initial is not None else ""
    for one in carved:
        if one.name == name and one is not pointer and one.visible[0] <= pointer.start < one.visible[1]:
            later = [t.text for t in model.tokens if pointer.end <= t.offset < pointer.visible[1]]
            both = name in later and pointer.name in later
            return one if both and one.element == pointer.element else None
    return None


def _offsets(model: SourceModel, pointer: Variable, carved: list[Variable]) -> Iterator[str]:
    """What other pointers of these add to one of them: of the pointer behind, of the ones before."""
    for one in sorted(carved, key=lambda v: (v.start < pointer.start, abs(v.start - pointer.start))):
        split = terms(model, one.initial) if one.initial is not None else []
        if len(split) > 1 and one.visible[1] == pointer.visible[1] and model.variable(split[0].text, one.start):
            yield model.text[split[1].start : split[-1].end]
