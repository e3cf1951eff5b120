"""Give a tensor the offset that the others of the kernel begin at: each head, batch or block has its own part of all.

Bad:
    scores(Q + head, K + head, s);
    values(s, V, O + head);

Good:
    scores(Q + head, K + head, s);
    values(s, V + head, O + head);
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.edits.terms import terms
from wmmadiag.diagnose.source.model import SourceModel, Span, Variable

_KIND = "sibling-offsets"
_ALL = ("tensor-strides", "index-arithmetic", "operand-order", "write-conflict", "unwritten-output", "out-of-bounds")
_OTHERS = 2
"""How many other tensors must have an offset before one without it looks forgotten."""


@generator(_KIND, *_ALL, derived=True)
def generate(view: View) -> Iterator[Edit]:
    """Pointers of a kernel that are passed on, or stepped from, as they are, where most others have an offset."""
    model = view.model
    for function in (one for one in model.functions if one.kernel):
        body = model.statements[function.body]
        used = [use for use in _uses(model, body.first, body.last) if use[0].kind == "parameter"]
        shared = Counter(offset.text for _, _, first, rest in used for offset in rest[:1] if first)
        for text, count in shared.items():
            having = {variable.name for variable, _, _, rest in used if any(one.text == text for one in rest)}
            elements = {variable.element for variable, _, _, rest in used if any(one.text == text for one in rest)}
            for variable, piece, offset, _ in used:
                known = all(model.variable(name, piece.start) for name in _names(model, text))
                alike = variable.name not in having and variable.element in elements
                if count < _OTHERS or offset or not alike or not known:
                    continue
                if view.wanted(piece.start, piece.end):
                    change = Change(model.tokens[piece.first].end, model.tokens[piece.first].end, f" + {text}")
                    summary = f"{variable.name} begins at {text}, as {' and '.join(sorted(having)[:3])} do"
                    yield from view.offer(_KIND, _ALL, piece.line, summary, (change,), 0.03)


def _uses(model: SourceModel, first: int, last: int) -> Iterator[tuple[Variable, Span, bool, list[Span]]]:
    """(pointer, expression, whether there is an offset, the offsets) of arguments and of what pointers begin with."""
    pieces = [a for call in model.calls if first <= call.first < last for a in call.arguments if a]
    pieces += [
        v.initial for v in model.variables if v.initial is not None and v.pointer and first <= v.initial.first < last
    ]
    for piece in pieces:
        token = model.tokens[piece.first]
        split = terms(model, piece)
        variable = model.variable(token.text, token.offset) if token.kind == "id" else None
        if variable is not None and variable.pointer and not variable.dims and split and split[0].text == variable.name:
            yield variable, piece, len(split) > 1, split[1:]


def _names(model: SourceModel, text: str) -> set[str]:
    """The identifiers of a text that are variables somewhere."""
    declared = {variable.name for variable in model.variables}
    return {token.text for token in model.tokens if token.kind == "id" and token.text in declared} & set(_words(text))


def _words(text: str) -> list[str]:
    return "".join(letter if letter.isalnum() or letter == "_" else " " for letter in text).split()
