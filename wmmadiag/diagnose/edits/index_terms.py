"""Complete an index: a start that is not added, an extent that is not multiplied by, a group that is not divided by.

Bad:
    size_t base = blockIdx.x * S;                 // rows of D elements

Good:
    size_t base = blockIdx.x * S * D;
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import bracketed, mentions, replaced
from wmmadiag.diagnose.edits.indices import integer_expressions
from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.edits.terms import factors, terms
from wmmadiag.diagnose.source.model import Span, Variable
from wmmadiag.diagnose.symptoms.rounds import stored_to_one_place

_KIND = "index-terms"
_ALL = (
    "index-arithmetic",
    "tensor-strides",
    "row-statistic",
    "stale-tile",
    "out-of-bounds",
    "write-conflict",
    "loop-extent",
)
_EXTENT = ("loop-extent", "index-arithmetic")


@generator(_KIND, *_ALL)
def generate(view: View) -> Iterator[Edit]:
    """Terms and factors added to integer expressions on wanted lines; indices of the same statement exchanged."""
    if view.lines is None:
        return
    for piece in integer_expressions(view):
        for term in terms(view.model, piece):
            parts = factors(view.model, term)
            yield from _factor(view, term)
            for part in parts:
                yield from _start(view, part, len(parts) > 1)
        yield from _groups(view, piece)
        yield from _bounds(view, piece)
    yield from _other_index(view)
    yield from _of_the_round(view)


def _each(view: View, line: int, summary: str, changes: tuple[Change, ...], rank: float) -> Iterator[Edit]:
    return view.offer(_KIND, _ALL, line, summary, changes, rank)


def _steady(view: View, variable: Variable) -> bool:
    return variable.kind in ("parameter", "global") or variable.name in view.model.constants


def _factor(view: View, term: Span) -> Iterator[Edit]:
    """`x * S` becomes `x * S * D`."""
    if not any(mark in term.text for mark in "*[") and "Idx" not in term.text:
        return
    for variable in view.integers(term.start):
        if _steady(view, variable) and not mentions(view.model, term, variable.name):
            change = Change(term.end, term.end, f" * {variable.name}")
            yield from _each(view, term.line, f"multiply by {variable.name}", (change,), 0.17)


def _start(view: View, part: Span, factor: bool) -> Iterator[Edit]:
    """`r * P` becomes `(row0 + r) * P`; a literal 0 becomes an index."""
    model = view.model
    token = model.tokens[part.last - 1]
    cast = model.tokens[part.first].text == "(" and model.match[part.first] == part.last - 2
    if part.last - part.first != 1 and not cast:
        return
    variable = model.variable(token.text, token.offset)
    for other in view.integers(part.start):
        if other.name == token.text or other.name in model.constants or other.kind == "parameter":
            continue
        if part.text == "0":
            yield from _each(view, part.line, f"{other.name} in place of 0", (replaced(part, other.name),), 0.15)
        elif factor and variable is not None and not _steady(view, variable) and not variable.pointer:
            text = f"({other.name} + {token.text})"
            yield from _each(view, part.line, f"{text[1:-1]} in place of {token.text}", (replaced(token, text),), 0.18)


def _groups(view: View, piece: Span) -> Iterator[Edit]:
    """`h % kv_heads` becomes `h / (heads / kv_heads)`, and the reverse order of groups."""
    model = view.model
    for index in range(piece.first + 1, piece.last - 1):
        left, token, right = model.tokens[index - 1 : index + 2]
        if token.text not in ("%", "/") or left.kind != "id" or right.kind != "id":
            continue
        for other in view.integers(piece.start):
            if other.name not in (left.text, right.text) and _steady(view, other):
                text = f"/ ({other.name} / {right.text})"
                change = Change(token.offset, right.end, text)
                rank = 0.07 if token.text == "%" else 0.14  # heads in groups: a remainder is the usual slip
                yield from _each(view, token.line, f"{left.text} {text}", (change,), rank)


def _bounds(view: View, piece: Span) -> Iterator[Edit]:
    """`min(n, first)` becomes `min(n, first + TILE)`; `min(n, first + TILE + 16)` too."""
    model = view.model
    for call in model.calls:
        if call.name not in ("min", "max") or not piece.start <= call.start < piece.end:
            continue
        for argument in call.arguments:
            for term in terms(model, argument)[1:]:
                change = Change(model.tokens[term.first - 2].end, term.end, "")
                rank = 0.1 if term.text.isdigit() else 0.2
                yield from view.offer(_KIND, _EXTENT, argument.line, f"without {term.text}", (change,), rank)
            for name, value in model.constants.items():
                if value > 1 and name[:2] != "__" and not mentions(model, argument, name):
                    change = Change(argument.end, argument.end, f" + {name}")
                    yield from _each(view, argument.line, f"{argument.text} + {name}", (change,), 0.2)


def _other_index(view: View) -> Iterator[Edit]:
    """The index of one array taken for another of the same statement."""
    model = view.model
    for one in model.subscripts:
        if not view.wanted(one.start, one.end):
            continue
        statement = model.statement_at(one.start)
        for other in model.subscripts:
            if model.statement_at(other.start) != statement or other.start == one.start:
                continue
            for index in one.indices:
                for candidate in (*other.indices, *(t for i in other.indices for t in terms(model, i))):
                    for text in {candidate.text, *(f.text for f in factors(model, candidate))}:
                        if text != index.text and len(text) < 60:
                            summary = f"{one.name}[{text}]"
                            yield from _each(view, one.line, summary, (replaced(index, text),), 0.19)


def _of_the_round(view: View) -> Iterator[Edit]:
    """`&s[r][0]` becomes `&s[r][n]` in a loop over n all of whose rounds store there; a row where a row is meant."""
    model = view.model
    for same in stored_to_one_place(model):
        address, name = same.address, same.variable
        if not view.wanted(same.call.start, same.call.end):
            continue
        inside = [s for s in model.subscripts if address.start <= s.start and s.end <= address.end]
        offered = [(index, position) for one in inside for position, index in enumerate(reversed(one.indices))]
        for index, position in offered:
            text = name if index.text == "0" else f"{index.text} + {name}"
            summary = f"store to {text} in place of {index.text}: each round to a place of its own"
            yield from _each(view, index.line, summary, (replaced(index, text),), 0.02 + 0.02 * position)
        if not inside:
            ldm = same.call.arguments[2].text if len(same.call.arguments) > 2 else "1"
            for text, rank in ((f" + {name}", 0.02), (f" + {name} * {bracketed(ldm)}", 0.03)):
                change = Change(address.end, address.end, text)
                yield from _each(view, address.line, f"add{text[2:]} to the address", (change,), rank)
