"""Let a loop that ends where the block's rows do end behind them: under a causal mask a block needs its own keys, too.

Bad:
    const int end = causal ? min(keys, q0) : keys;                 // q0 = blockIdx.x * TILE
    for (int k0 = 0; k0 < end; k0 += 32) …

Good:
    const int end = causal ? min(keys, q0 + TILE) : keys;
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import bracketed
from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator, is_integer
from wmmadiag.diagnose.edits.terms import factors
from wmmadiag.diagnose.source.model import SourceModel, Span, Statement

_KIND = "block-ends"
_ALL = ("loop-extent", "causal-mask", "guard-condition")
_COMPARISONS = ("<", "<=")
_LIKELY = 0.03
_CAUSE = "the loop ends before it has met all that the rows of its block need"
_STOPS = frozenset({",", "?", ":", ")", "]", ";", "<", ">", "<=", ">=", "&&", "||", "+", "-"})


@generator(_KIND, *_ALL)
def generate(view: View) -> Iterator[Edit]:
    """Bounds of loops on wanted lines, where they are written: in the head, or where a variable is made."""
    for statement in view.model.statements:
        bound = _bound(view.model, statement) if statement.kind == "for" else None
        if bound is not None and view.line_wanted(bound.line):
            yield from _further(view, bound)


def _bound(model: SourceModel, statement: Statement) -> Span | None:
    """What a loop runs up to; of a variable, what it is made of."""
    condition = statement.condition
    if condition is None:
        return None
    at = next((i for i in range(condition.first, condition.last) if model.tokens[i].text in _COMPARISONS), -1)
    bound = model.span(at + 1, condition.last) if 0 <= at < condition.last - 1 else None
    if bound is None:
        return None
    variable = model.variable(bound.text, bound.start)
    if variable is not None and variable.initial is not None and is_integer(variable):
        return variable.initial
    return bound


def _further(view: View, bound: Span) -> Iterator[Edit]:
    model = view.model
    for at in range(bound.first, bound.last):
        token = model.tokens[at]
        if token.text == "blockIdx" and at + 2 < bound.last:
            yield from _less(view, bound, at)
            end = model.tokens[at + 2].end
            if model.tokens[at + 3].text == "*":
                changes = (Change(token.offset, token.offset, "("), Change(end, end, " + 1)"))
                yield from _each(view, token.line, "end one tile later", changes)
            continue
        variable = model.variable(token.text, token.offset) if token.kind == "id" else None
        if variable is None or variable.initial is None or not is_integer(variable):
            continue
        if "blockIdx" not in made_of(model, variable.initial, 0):
            continue
        yield from _less(view, bound, at)
        split = factors(model, variable.initial)
        width = next((f.text for f in split[::-1] if "blockIdx" not in made_of(model, f, 0)), "")
        step = bracketed(width) if len(split) > 1 and width else "1"
        text = f"{token.text} + {step}"
        around = {model.tokens[at - 1].text, model.tokens[at + 1].text}
        text = f"({text})" if around & {"*", "/", "%"} else text
        yield from _each(view, token.line, f"end at {text}", (Change(token.offset, token.end, text),))


def _less(view: View, bound: Span, at: int) -> Iterator[Edit]:
    """`(blockIdx.x + 1) * ROWS - 32` without what is subtracted."""
    model, depth = view.model, 0
    while at < bound.last:
        text = model.tokens[at].text
        if text in ("(", "["):
            at = model.match[at]
        elif text == ")":
            opened = model.match[at]
            if depth or opened < bound.first or (opened > 0 and model.tokens[opened - 1].kind == "id"):
                return  # a call's: what follows belongs to its result
            depth += 1
        elif text == "-":
            last = at + 1
            while last < bound.last and model.tokens[last].text not in _STOPS:
                last += 1
            before = model.tokens[at - 1].end
            gone = Change(before, model.tokens[last - 1].end, "")
            words = model.span(at, last).text
            yield from _each(view, model.tokens[at].line, f"end without {words}", (gone,))
            return
        elif text in (",", "?", ":"):
            return
        at += 1


def made_of(model: SourceModel, piece: Span, depth: int) -> frozenset[str]:
    """The words of an expression, and of the initialisers of the integers in it."""
    found = {token.text for token in model.tokens[piece.first : piece.last]}
    for token in model.tokens[piece.first : piece.last] if depth < 3 else ():
        variable = model.variable(token.text, token.offset) if token.kind == "id" else None
        if variable is not None and variable.initial is not None and is_integer(variable):
            found |= made_of(model, variable.initial, depth + 1)
    return frozenset(found)


def _each(view: View, line: int, summary: str, changes: tuple[Change, ...]) -> Iterator[Edit]:
    return view.offer(_KIND, _ALL, line, summary, changes, _LIKELY, cause=_CAUSE)
