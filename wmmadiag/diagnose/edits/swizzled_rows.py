"""Address a tile through the function that swizzles it, where a place in it is computed without.

Bad:
    int swizzled(int row, int chunk) { return row * 8 + (chunk ^ (row & 7)); }
    ldmatrix_x4(b, tile + (row * 8 + chunk) * 8);

Good:
    int swizzled(int row, int chunk) { return row * 8 + (chunk ^ (row & 7)); }
    ldmatrix_x4(b, tile + swizzled(row, chunk) * 8);
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.edits.terms import factors, terms
from wmmadiag.diagnose.source.model import Function, SourceModel, Span

_KIND = "swizzled-rows"
_ALL = ("swizzle-mismatch", "ldmatrix-address", "index-arithmetic", "stale-tile")


@dataclass(frozen=True, slots=True)
class _Helper:
    """`name(row, chunk)` is `row * pitch + (chunk ^ …)`."""

    name: str
    pitch: str


@generator(_KIND, *_ALL)
def generate(view: View) -> Iterator[Edit]:
    """Sums in brackets on wanted lines that are what a helper makes, but for its exclusive or."""
    model = view.model
    helpers = [found for function in model.functions if (found := _helper(model, function)) is not None]
    for index, token in enumerate(model.tokens if helpers else ()):
        if token.text != "(" or model.match[index] < index or not view.wanted(token.offset):
            continue
        if model.tokens[index - 1].kind == "id":  # a call's
            continue
        inside = model.span(index + 1, model.match[index])
        split = terms(model, inside)
        if len(split) < 2 or "^" in inside.text:  # a row and a chunk
            continue
        row = factors(model, split[0])
        for helper in helpers:
            if len(row) == 2 and row[1].text == helper.pitch:
                rest = model.text[split[1].start : split[-1].end]
                text = f"{helper.name}({row[0].text}, {rest})"
                change = Change(token.offset, model.tokens[model.match[index]].end, text)
                yield from view.offer(_KIND, _ALL, token.line, f"through {text}", (change,), 0.02)


def _helper(model: SourceModel, function: Function) -> _Helper | None:
    names = [parameter.name for parameter in function.parameters]
    returned = [s for s in model.statements if s.kind == "return" and model.function_at(s.start) is function]
    if function.kernel or len(names) != 2 or len(returned) != 1:
        return None
    split = terms(model, model.span(returned[0].first + 1, returned[0].last - 1))
    row: list[Span] = factors(model, split[0]) if len(split) == 2 else []
    if len(row) != 2 or row[0].text != names[0] or "^" not in split[1].text or names[1] not in split[1].text:
        return None
    return _Helper(function.name, row[1].text)
