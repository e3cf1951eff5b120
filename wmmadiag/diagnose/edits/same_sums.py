"""Give a sum the multipliers that the same sum has elsewhere: what is loaded, computed and stored is one tile.

Bad:
    load(a, tile_a + (warp * 16 + i * 16) * LD);
    store(tile_c + (warp * 32 + i * 16) * LD, c);

Good:
    load(a, tile_a + (warp * 32 + i * 16) * LD);
    store(tile_c + (warp * 32 + i * 16) * LD, c);
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wmmadiag.diagnose.edits.building import replaced
from wmmadiag.diagnose.edits.model import Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.edits.terms import factors, terms
from wmmadiag.diagnose.source.model import SourceModel, Span

_KIND = "same-sums"
_ALL = (
    "index-arithmetic",
    "tensor-strides",
    "write-conflict",
    "unwritten-output",
    "out-of-bounds",
    "fragment-footprint",
)
_LIKELY = 0.03


@dataclass(frozen=True, slots=True)
class _Sum:
    """`a * 16 + b * 8`: the names in order, the pieces that multiply them, and where it begins."""

    names: tuple[str, ...]
    multipliers: tuple[Span, ...]
    start: int
    end: int


@generator(_KIND, *_ALL, derived=True)
def generate(view: View) -> Iterator[Edit]:
    """Sums in brackets, of the same names in the same order, that differ in one multiplier."""
    model = view.model
    sums = [found for index, token in enumerate(model.tokens) if token.text == "(" if (found := _sum(model, index))]
    for one in sums:
        if not view.wanted(one.start, one.end):
            continue
        for other in sums:
            if other.names != one.names or model.function_at(other.start) is not model.function_at(one.start):
                continue
            pairs = zip(one.multipliers, other.multipliers, strict=True)
            differ = [(here, there) for here, there in pairs if here.text != there.text]
            if len(differ) == 1:
                here, there = differ[0]
                line = model.line_of(other.start)
                summary = f"{there.text} in place of {here.text}, as at line {line}"
                yield from view.offer(_KIND, _ALL, here.line, summary, (replaced(here, there.text),), _LIKELY)


def _sum(model: SourceModel, opened: int) -> _Sum | None:
    """The sum of two or more products of a name and a multiplier that stands in these brackets; None for all else."""
    closed = model.match[opened]
    if closed <= opened + 1 or (opened > 0 and model.tokens[opened - 1].kind == "id"):
        return None
    names, multipliers = [], []
    for term in terms(model, model.span(opened + 1, closed)):
        parts = factors(model, term)
        if len(parts) != 2 or any(part.last - part.first != 1 for part in parts):
            return None
        names.append(parts[0].text)
        multipliers.append(parts[1])
    if len(names) < 2:
        return None
    return _Sum(tuple(names), tuple(multipliers), model.tokens[opened].offset, model.tokens[closed].end)
