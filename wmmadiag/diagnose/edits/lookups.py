"""Look an index up in a table that nothing reads: a page, a permutation, where a sequence begins.

Bad:
    const int* table = tables + seq * pages;
    const int block = page;

Good:
    const int* table = tables + seq * pages;
    const int block = table[page];
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import replaced
from wmmadiag.diagnose.edits.indices import integer_expressions
from wmmadiag.diagnose.edits.model import Edit
from wmmadiag.diagnose.edits.registry import INTEGERS, View, generator, is_integer
from wmmadiag.diagnose.source.model import Span, Variable

_KIND = "lookups"
_FAULTS = ("index-arithmetic", "tensor-strides", "card-mismatch", "loop-extent")


@generator(_KIND, *_FAULTS)
def generate(view: View) -> Iterator[Edit]:
    """Every integer on the wanted lines, looked up in a table of integers that is not read yet."""
    tables = [v for v in view.model.variables if v.pointer and set(v.element.split()) <= INTEGERS and _unread(view, v)]
    for piece in _pieces(view) if tables else ():
        for table in tables:
            if table.visible[0] <= piece.start < table.visible[1] and not _within(table, piece):
                whole = view.model.tokens[piece.first - 1].text in ("=", "[")
                summary = f"look {piece.text} up in {table.name}"
                change = replaced(piece, f"{table.name}[{piece.text}]")
                yield from view.offer(_KIND, _FAULTS, piece.line, summary, (change,), 0.02 if whole else 0.05)


def _unread(view: View, table: Variable) -> bool:
    """Whether nothing is done with a pointer after it was made."""
    start, end = table.visible
    uses = [t for t in view.model.tokens if t.text == table.name and start <= t.offset < end]
    return all(token.offset == table.name_at for token in uses)


def _within(table: Variable, piece: Span) -> bool:
    return table.start <= piece.start < table.end


def _pieces(view: View) -> Iterator[Span]:
    """Integer variables where their value is used, and what integers are made of."""
    model = view.model
    found: dict[tuple[int, int], Span] = {}
    for piece in (*integer_expressions(view), *(v.initial for v in model.variables if v.initial and is_integer(v))):
        if view.wanted(piece.start, piece.end):
            if piece.last - piece.first <= _LONGEST:
                found.setdefault((piece.first, piece.last), piece)
            for index in range(piece.first, piece.last):
                token = model.tokens[index]
                variable = model.variable(token.text, token.offset) if token.kind == "id" else None
                if variable is not None and is_integer(variable) and not variable.pointer and not variable.dims:
                    found.setdefault((index, index + 1), model.span(index, index + 1))
    yield from found.values()


_LONGEST = 7
"""Tokens of an expression that may be an index into a table."""
