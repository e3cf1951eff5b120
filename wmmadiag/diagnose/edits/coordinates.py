"""Coordinates of a block, warp or thread in its grid: each axis with its own extent, quotient beside remainder.

`x + extent * y` numbers a grid once and without gaps only with the extent of x; the quotient by a number and the
remainder by it, together, name each of a row of warps once. What breaks either puts two blocks or warps in one place.

Bad:
    int head = blockIdx.x * gridDim.x + blockIdx.y;
    int row = warp / WARPS_N * 16, col = warp / WARPS_N * 16;

Good:
    int head = blockIdx.x * gridDim.y + blockIdx.y;
    int row = warp / WARPS_N * 16, col = warp % WARPS_N * 16;
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import replaced
from wmmadiag.diagnose.edits.model import Edit
from wmmadiag.diagnose.edits.registry import View, generator, is_integer
from wmmadiag.diagnose.edits.terms import factors, terms
from wmmadiag.diagnose.source.model import SourceModel, Span, Token, Variable

_KIND = "coordinates"
_ALL = (
    "index-arithmetic", "tensor-strides", "write-conflict", "unwritten-output", "out-of-bounds", "too-few-warps",
    "fragment-footprint",
)  # fmt: skip
_EXTENTS = {"blockIdx": "gridDim", "threadIdx": "blockDim"}
_OTHER = {"/": "%", "%": "/"}
_NEAR = 4
"""Lines within which two coordinates of one number are declared."""


@generator(_KIND, *_ALL, derived=True)
def generate(view: View) -> Iterator[Edit]:
    """Extents of the wrong axis, and two coordinates that are both the quotient, or both the remainder."""
    yield from _extents(view)
    yield from _same_half(view)
    yield from _same_axis(view)


def _same_axis(view: View) -> Iterator[Edit]:
    """Two neighbours that both begin at the block's `y`, where the kernel has tiles along `x` as well."""
    model = view.model
    found = [(v, at) for v in model.variables for at in _axes(model, v)]
    for position, (one, first) in enumerate(found):
        for other, second in found[position + 1 :]:
            axis = model.tokens[first].text
            near = abs(model.line_of(one.name_at) - model.line_of(other.name_at)) <= 1
            if other is one or not near or one.visible[1] != other.visible[1] or model.tokens[second].text != axis:
                continue
            used = {model.tokens[at].text for v, at in found if v.visible[1] == one.visible[1]}
            for free in "xyz":
                if used == {axis} and free != axis and any(model.tokens[at].text == free for _, at in found):
                    for rank, (variable, at) in ((0.03, (other, second)), (0.033, (one, first))):
                        if view.wanted(variable.start, variable.end):
                            summary = f"blockIdx.{free} in place of blockIdx.{axis} in {variable.name}"
                            change = replaced(model.tokens[at], free)
                            yield from view.offer(_KIND, _ALL, variable.line, summary, (change,), rank)


def _axes(model: SourceModel, variable: Variable) -> Iterator[int]:
    """The axis of each block index that an integer is a multiple of: `blockIdx.y * TILE`."""
    piece = variable.initial
    if piece is None or variable.dims or variable.kind != "local" or not is_integer(variable):
        return
    for index in range(piece.first, piece.last - 3):
        words = [token.text for token in model.tokens[index : index + 4]]
        if words[0] == "blockIdx" and words[1] == "." and words[3] == "*":
            yield index + 2


def _extents(view: View) -> Iterator[Edit]:
    """`blockIdx.x * gridDim.x + blockIdx.y`: the factor is the extent of the axis that is added."""
    model = view.model
    for plus, token in enumerate(model.tokens):
        if token.text != "+" or not view.wanted(token.offset):
            continue
        for piece in _sums(model, plus):
            yield from _extents_of(view, piece)


def _sums(model: SourceModel, plus: int) -> Iterator[Span]:
    """The sum around a plus, as far as it reaches on its level."""
    first, last = plus, plus + 1
    while first > 0 and _goes_on(model, first - 1, ")]"):
        first = model.match[first - 1] if model.tokens[first - 1].text in (")", "]") else first - 1
    while last < len(model.tokens) and _goes_on(model, last, "(["):
        last = model.match[last] + 1 if model.tokens[last].text in ("(", "[") else last + 1
    if first < plus < last - 1:
        yield model.span(first, last)


def _goes_on(model: SourceModel, index: int, brackets: str) -> bool:
    token = model.tokens[index]
    if token.text in brackets:
        return model.match[index] >= 0
    return (token.kind in ("id", "num") and token.text != "return") or token.text in (".", "*", "+", "/", "%", "::")


def _extents_of(view: View, piece: Span) -> Iterator[Edit]:
    model = view.model
    split = terms(model, piece)
    if len(split) != 2:  # of more axes than two it is not as plain which is the inner one
        return
    for product, single in (split, split[::-1]):
        inner = _axis(model, single)
        parts = factors(model, product)
        if inner is None or inner[0].text not in _EXTENTS or len(parts) < 2:
            continue
        known = [axis for part in parts if (axis := _axis(model, part)) is not None]
        outer = next((a for name, a in known if name.text == inner[0].text), None)
        extent = next((a for name, a in known if name.text == _EXTENTS[inner[0].text]), None)
        if outer is None or extent is None or outer.text == inner[1].text or extent.text == inner[1].text:
            continue
        name = f"{_EXTENTS[inner[0].text]}.{inner[1].text}"
        summary = f"{name}, the extent of {inner[0].text}.{inner[1].text}, in place of {name[:-1]}{extent.text}"
        yield from view.offer(_KIND, _ALL, piece.line, summary, (replaced(extent, inner[1].text),), 0.005)


def _axis(model: SourceModel, piece: Span) -> tuple[Token, Token] | None:
    """(`blockIdx`, `x`) of such a piece, casts and brackets left out; None for any other."""
    tokens = [t for t in model.tokens[piece.first : piece.last] if t.text not in ("(", ")")]
    while len(tokens) > 3 and tokens[0].kind == "id" and tokens[0].text not in _AXES:  # a cast
        tokens = tokens[1:]
    if len(tokens) == 3 and tokens[0].text in _AXES and tokens[1].text == ".":
        return tokens[0], tokens[2]
    return None


_AXES = frozenset({*_EXTENTS, *_EXTENTS.values()})


def _same_half(view: View) -> Iterator[Edit]:
    """Two neighbours that are both `w / n`, where nothing in their scope is `w % n`; and the reverse."""
    model = view.model
    found = [(variable, at, words) for variable in model.variables for at, words in _halves(model, variable)]
    for position, (one, at, words) in enumerate(found):
        for other, there, again in found[position + 1 :]:
            if again != words or other is one or model.tokens[at].text != model.tokens[there].text:
                continue
            if (
                one.visible[1] != other.visible[1]
                or abs(model.line_of(one.name_at) - model.line_of(other.name_at)) > _NEAR
            ):
                continue
            complement = _OTHER[model.tokens[at].text]
            if any(w == words and model.tokens[i].text == complement and v.visible[1] == one.visible[1]
                   for v, i, w in found):  # fmt: skip
                continue
            for rank, (variable, index) in ((0.02, (other, there)), (0.024, (one, at))):
                token = model.tokens[index]
                if view.wanted(variable.start, variable.end):
                    summary = f"{complement} in place of {token.text} in {variable.name}: {_named(one, other)}"
                    yield from view.offer(_KIND, _ALL, token.line, summary, (replaced(token, complement),), rank)


def _named(one: Variable, other: Variable) -> str:
    return f"{one.name} and {other.name} are the same part of one number"


def _halves(model: SourceModel, variable: Variable) -> Iterator[tuple[int, tuple[str, ...]]]:
    """(operator, what it divides and by what) of each quotient and remainder that an integer is made of."""
    piece = variable.initial
    if piece is None or variable.dims or variable.kind != "local" or not is_integer(variable):
        return
    for index in range(piece.first + 1, piece.last - 1):
        if model.tokens[index].text in _OTHER:
            first, last = _operand_before(model, index, piece.first), index + 2
            if model.tokens[index + 1].text == "(" and model.match[index + 1] < piece.last:
                last = model.match[index + 1] + 1
            if _one_of_many(model, first):
                yield index, tuple(t.text for t in (*model.tokens[first:index], *model.tokens[index + 1 : last]))


def _one_of_many(model: SourceModel, at: int) -> bool:
    """Whether an operand is a number of its own for each warp, thread or round: no size, which is the same for all."""
    token = model.tokens[at]
    variable = model.variable(token.text, token.offset) if token.kind == "id" else None
    local = variable is not None and variable.kind in ("local", "loop") and token.text not in model.constants
    return local or token.text in _EXTENTS


def _operand_before(model: SourceModel, index: int, lowest: int) -> int:
    """Where the operand before an operator begins: a name with its members, a call, brackets."""
    at = index - 1
    while at >= lowest:
        if model.tokens[at].text in (")", "]"):
            at = model.match[at]
            if at - 1 >= lowest and model.tokens[at - 1].kind == "id":
                at -= 1
        if at - 2 >= lowest and model.tokens[at - 1].text in (".", "->", "::"):
            at -= 2
            continue
        break
    return max(at, lowest)
