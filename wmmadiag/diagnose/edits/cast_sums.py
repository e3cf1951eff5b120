"""Cast before or behind an offset: what a pointer points to decides how far an element is.

Bad:
    half* p = (half*)room + ROWS * LD;         // the floats before it take twice as much

Good:
    half* p = (half*)(room + ROWS * LD);
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import replaced
from wmmadiag.diagnose.edits.model import Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.edits.terms import base_of, terms
from wmmadiag.diagnose.source.model import SourceModel, Span

_KIND = "cast-sums"
_ALL = (
    "index-arithmetic",
    "element-type",
    "write-conflict",
    "leading-dimension",
    "out-of-bounds",
    "shared-memory-limit",
)
_RANK = 0.005


@generator(_KIND, *_ALL)
def generate(view: View) -> Iterator[Edit]:
    """Pointers on wanted lines that are made of a pointer to another type, a cast and an offset."""
    model = view.model
    for variable in model.variables:
        piece = variable.initial
        if piece is None or not variable.pointer or not view.wanted(variable.start, variable.end):
            continue
        base = base_of(model, piece)
        if base is None or base.element == variable.element:
            continue
        text = _other(model, piece)
        if text:
            yield from view.offer(
                _KIND, _ALL, variable.line, f"{variable.name} = {text}", (replaced(piece, text),), _RANK
            )


def _other(model: SourceModel, piece: Span) -> str:
    """The same with the offset on the other side of the cast; "" where there is no cast or no offset."""
    inner = _cast(model, piece)
    if inner is None:
        return ""
    cast = model.text[piece.start : inner.start]
    split = terms(model, piece)
    if len(split) > 1:  # behind the cast: into it
        behind = model.text[split[0].end : piece.end]
        named = model.tokens[inner.first - 1].text == "(" and cast.startswith("reinterpret_cast")
        return f"{cast}{inner.text}{behind})" if named else f"{cast}({inner.text}{behind})"
    held = terms(model, _opened(model, inner))
    if len(held) < 2:
        return ""
    behind = model.text[held[0].end : held[-1].end]
    return f"{cast}{held[0].text}{')' if cast.startswith('reinterpret_cast') else ''}{behind}"


def _opened(model: SourceModel, piece: Span) -> Span:
    if model.tokens[piece.first].text == "(" and model.match[piece.first] == piece.last - 1:
        return model.span(piece.first + 1, piece.last - 1)
    return piece


def _cast(model: SourceModel, piece: Span) -> Span | None:
    """What is cast: of `(half*)p + n` `p`, of `reinterpret_cast<half*>(p + n)` the sum."""
    tokens, first = model.tokens, piece.first
    if tokens[first].text == "reinterpret_cast":
        opened = next((i for i in range(first, piece.last) if tokens[i].text == "("), -1)
        return model.span(opened + 1, model.match[opened]) if opened >= 0 else None
    closed = model.match[first] if tokens[first].text == "(" else -1
    if closed < 0 or tokens[closed - 1].text != "*" or closed + 1 >= piece.last:
        return None
    after = closed + 1
    last = model.match[after] + 1 if tokens[after].text == "(" else after + 1
    return model.span(after, last)
