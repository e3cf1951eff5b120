"""Let an end that is computed from a start not pass the end of all: the last part is shorter than the others.

Bad:
    const int last = first + part;

Good:
    const int last = min(first + part, length);
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import replaced
from wmmadiag.diagnose.edits.model import Edit
from wmmadiag.diagnose.edits.registry import View, generator, is_integer
from wmmadiag.diagnose.edits.terms import terms
from wmmadiag.diagnose.source.model import SourceModel, Span, Variable

_KIND = "clamps"
_FAULTS = (
    "loop-extent", "out-of-bounds", "fragment-footprint", "index-arithmetic", "tail-masking", "guard-condition",
    "partial-fill", "uninitialised-memory",
)  # fmt: skip
_MOST = 8
_RELATED = 0.04
"""How much likelier the length is of which the sum's own parts are made."""


@generator(_KIND, *_FAULTS)
def generate(view: View) -> Iterator[Edit]:
    """Initialisers of integers, and ends of loops, that are sums: the smaller of them and each length."""
    model = view.model
    for piece, rank in _ends(view):
        if len(terms(model, piece)) < 2 or "min" in piece.text or not view.wanted(piece.start, piece.end):
            continue
        made_of = _made_of(model, piece)
        for length in list(dict.fromkeys(_lengths(view, piece)))[:_MOST]:
            if length not in piece.text:
                own = rank - _RELATED * (length in made_of)
                text = f"({piece.text} < {length} ? {piece.text} : {length})"
                summary = f"let it be {length} at most"
                yield from view.offer(_KIND, _FAULTS, piece.line, summary, (replaced(piece, text),), max(own, 0.0))


def _made_of(model: SourceModel, piece: Span) -> set[str]:
    """What the variables of a sum were computed from: the parts of a length belong to it."""
    found: set[str] = set()
    for index in range(piece.first, piece.last):
        token = model.tokens[index]
        variable = model.variable(token.text, token.offset) if token.kind == "id" else None
        if variable is not None and variable.initial is not None:
            tokens = [t.text for t in model.tokens[variable.initial.first : variable.initial.last]]
            found |= set(tokens)
            found |= {"".join(tokens[at : at + 3]) for at in range(len(tokens) - 2)}
    return found


def _ends(view: View) -> Iterator[tuple[Span, float]]:
    """What loops run to, in their heads or where the variable that stands there is made; then any other integer."""
    model = view.model
    for variable in model.variables:
        if variable.kind == "local" and variable.initial is not None and is_integer(variable) and not variable.dims:
            yield variable.initial, 0.13
    for loop in model.loops:
        condition = model.statements[loop].condition
        if condition is None:
            continue
        for index in range(condition.first, condition.last):
            if model.tokens[index].text in ("<", "<="):
                yield model.span(index + 1, condition.last), 0.09
            token = model.tokens[index]
            end = model.variable(token.text, token.offset) if token.kind == "id" else None
            if end is not None and end.kind == "parameter":
                yield from _given(model, end)
            if end is not None and end.initial is not None and end.kind == "local":
                yield end.initial, 0.09


def _given(model: SourceModel, parameter: Variable) -> Iterator[tuple[Span, float]]:
    """What callers made the variable of that they pass for a helper's parameter to which a loop runs."""
    for function in model.functions:
        position = next((i for i, one in enumerate(function.parameters) if one is parameter), -1)
        for call in model.calls if position >= 0 else ():
            if call.name == function.name and len(call.arguments) > position:
                argument = call.arguments[position]
                variable = model.variable(argument.text, argument.start)
                if variable is not None and variable.initial is not None:
                    yield variable.initial, 0.02


def _lengths(view: View, piece: Span) -> Iterator[str]:
    """Parameters, and members of such, that are integers."""
    model = view.model
    for variable in view.integers(piece.start):
        if variable.kind == "parameter" and is_integer(variable):
            yield variable.name
    yield from _members(model, piece.start)


def _members(model: SourceModel, offset: int) -> Iterator[str]:
    for index in range(2, len(model.tokens)):
        base, dot = model.tokens[index - 2], model.tokens[index - 1]
        variable = model.variable(base.text, offset) if base.kind == "id" and dot.text in (".", "->") else None
        called = index + 1 < len(model.tokens) and model.tokens[index + 1].text in ("(", "[")
        if variable is not None and variable.kind == "parameter" and not called:
            yield f"{base.text}{dot.text}{model.tokens[index].text}"
