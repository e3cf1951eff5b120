"""Guard what an address itself says: the column against the pitch, the row against a length.

Bad:
    if (r < rows) y[row * ldy + col] = v;        // col may pass ldy; r is the row within the tile

Good:
    if (row < rows && col < ldy) y[row * ldy + col] = v;
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from wmmadiag.diagnose.edits.building import bracketed, replaced, same_pieces
from wmmadiag.diagnose.edits.conditions import operand_after, operand_before, parts, zero_of
from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.edits.terms import factors, terms
from wmmadiag.diagnose.source.model import SourceModel, Span

_KIND = "bounds"
_ALL = ("guard-condition", "out-of-bounds", "tail-masking", "partial-fill")
_ENDS = frozenset(
    {"(", "[", "{", ",", ";", "=", "return", "?", ":", "&&", "||", "==", "!=", "<=", ">=", "+=", "-=", "<<", ">>"}
)
_CAST = re.compile(r"\(\s*(?:const\s+)?(?:std\s*::\s*)?(?:unsigned|signed|long|int|size_t|ptrdiff_t|u?int\d+_t|\s)+\)")
_NAMED_CAST = re.compile(r"static_cast\s*<[^<>]*>\s*(?=\()")
_PITCH = re.compile(r"[A-Za-z_][\w.:]*(?:\s*->\s*\w+)?|\d+")
_LENGTHS = 4


@dataclass(frozen=True, slots=True)
class _Bound:
    """`index < extent` that an address asks for; lower `rank` is more plausible."""

    index: str
    extent: str
    rank: float

    @property
    def text(self) -> str:
        return f"{self.index} < {self.extent}"


@generator(_KIND, *_ALL, "fragment-footprint", needs_lines=True)
def generate(view: View) -> Iterator[Edit]:
    """For every `row * pitch + column` on the wanted lines: bounds added to its guard, put right in it, or new."""
    model = view.model
    seen = set()
    for index, token in enumerate(model.tokens):
        if token.text != "*" or not _multiplies(model, index):
            continue
        piece = _sum_around(model, index)
        if piece.start in seen:
            continue
        seen.add(piece.start)
        guard = _guard(model, piece, model.statement_at(piece.start))
        if view.wanted(token.offset) or (guard is not None and view.wanted(guard.start, guard.end)):
            yield from _edits(view, piece, guard, list(_bounds(view, piece)))


def _multiplies(model: SourceModel, index: int) -> bool:
    before = model.tokens[index - 1] if index else None
    return before is not None and (before.kind in ("id", "num") or before.text in (")", "]"))


def _sum_around(model: SourceModel, index: int) -> Span:
    """The sum that a product stands in."""
    first = index
    while first > 0:
        token = model.tokens[first - 1]
        if token.text in (")", "]") and model.match[first - 1] >= 0:
            first = model.match[first - 1]
        elif token.text == ">" and first >= 4 and model.tokens[first - 4].text.endswith("_cast"):
            first -= 4
        elif token.text in _ENDS or token.text in ("<", ">"):
            break
        else:
            first -= 1
    last = index + 1
    while last < len(model.tokens):
        text = model.tokens[last].text
        if text in ("(", "[") and model.match[last] > last:
            last = model.match[last] + 1
        elif text.endswith("_cast"):
            last += 4
        elif text in _ENDS or text in (")", "]", "}", "<", ">"):
            break
        else:
            last += 1
    return model.span(first, min(last, len(model.tokens)))


def _bounds(view: View, piece: Span) -> Iterator[_Bound]:
    model = view.model
    found = terms(model, piece)
    if len(found) < 2 or any(model.text[a.end : b.start].strip() != "+" for a, b in pairwise(found)):
        return
    rows = [(term, factors(model, term)) for term in found]
    products = [pieces for _, pieces in rows if len(pieces) > 1]
    columns = [term.text for term, pieces in rows if len(pieces) == 1 and not _pointer(model, term)]
    if not products:
        return
    *row, pitch = products[-1]
    if not _PITCH.fullmatch(pitch.text.strip()):
        return
    if columns:
        yield _Bound(" + ".join(columns), pitch.text, 0.025)
    index = " * ".join(_plain(part.text) for part in row)
    lengths = [
        v.name for v in view.integers(piece.start) if v.kind == "parameter" and v.name not in (pitch.text, index)
    ]
    for number, length in enumerate(lengths[:_LENGTHS]):
        yield _Bound(index, length, 0.06 + 0.01 * number)


def _pointer(model: SourceModel, term: Span) -> bool:
    token = model.tokens[term.first]
    variable = model.variable(token.text, token.offset)
    if variable is None:
        return "?" in term.text or (token.text in ("&", "(") and "*" in term.text)
    return variable.pointer or bool(variable.dims) or variable.external


def _plain(text: str) -> str:
    """An index without the casts and brackets around it."""
    stripped = _NAMED_CAST.sub("", _CAST.sub("", text)).strip()
    while stripped.startswith("(") and stripped.endswith(")") and _closes(stripped):
        stripped = stripped[1:-1].strip()
    return stripped


def _closes(text: str) -> bool:
    depth = 0
    for position, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return position == len(text) - 1
    return False


def _edits(view: View, piece: Span, guard: Span | None, bounds: list[_Bound]) -> Iterator[Edit]:
    model = view.model
    at = model.statement_at(piece.start)
    if at < 0 or not bounds:
        return
    if guard is not None:
        for bound in bounds:
            yield from _in_guard(view, guard, bound)
        return
    statement = model.statements[at]
    if statement.kind != "expression":
        return
    target = next((one for one in model.assignments if one.statement == at and one.operator.text == "="), None)
    every = " && ".join(bound.text for bound in bounds[:1])
    summary = f"only where {every}"
    change = Change(statement.start, statement.start, f"if ({every}) ")
    yield from view.offer(_KIND, _ALL, statement.line, summary, (change,), 0.03 + bounds[0].rank)
    if target is not None and target.value.start <= piece.start < target.value.end:
        zero = zero_of(model, target.target)
        text = f"({every}) ? {target.value.text} : {zero}"
        summary = f"{zero} except where {every}"
        yield from view.offer(_KIND, _ALL, statement.line, summary, (replaced(target.value, text),), bounds[0].rank)


def _guard(model: SourceModel, piece: Span, at: int) -> Span | None:
    """The condition under which an address is used: of the nearest `?:` or `if` around it."""
    if at < 0:
        return None
    inner = [t for t in model.ternaries if t.yes.start <= piece.start < t.yes.end]
    if inner:
        return min(inner, key=lambda t: t.yes.end - t.yes.start).condition
    own = model.statements[at]
    for one in (at, *model.enclosing(at)):
        statement = model.statements[one]
        if (
            statement.kind == "if"
            and statement.condition is not None
            and not (statement is own and piece.start < statement.head_end)
        ):
            return statement.condition
    return None


def _in_guard(view: View, guard: Span, bound: _Bound) -> Iterator[Edit]:
    model = view.model
    words = set(re.findall(r"\w+", bound.index))
    for operand, _ in parts(model, guard):
        if same_pieces(operand.text, bound.text):
            return
        for index in range(operand.first, operand.last):
            if model.tokens[index].text != "<":
                continue
            left, right = operand_before(model, index, guard.first), operand_after(model, index, guard.last)
            own = set(re.findall(r"\w+", left.text)) if left else set()
            if right and own and own < words and not same_pieces(right.text, bound.extent):
                summary = f"compare {bound.index} in place of {left.text}"
                yield from view.offer(_KIND, _ALL, left.line, summary, (replaced(left, bound.index),), 0.03)
    whole = guard.text if not re.search(r"\|\||\?|=[^=]", guard.text) else bracketed(guard.text)
    summary = f"and only where {bound.text}"
    yield from view.offer(_KIND, _ALL, guard.line, summary, (replaced(guard, f"{whole} && {bound.text}"),), bound.rank)
