"""Name another member of the same struct: the filter's width for its channels, one stride for another.

Bad:
    const int s = flat / p.channels % p.channels;

Good:
    const int s = flat / p.channels % p.width;
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import replaced
from wmmadiag.diagnose.edits.model import Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.source.model import SourceModel

_KIND = "members"
_FAULTS = (
    "index-arithmetic", "tensor-strides", "leading-dimension", "guard-condition", "loop-extent", "out-of-bounds",
    "tail-masking", "softmax-scale", "row-statistic", "causal-mask", "card-mismatch", "fragment-footprint",
    "write-conflict", "unwritten-output",
)  # fmt: skip
_BUILT_IN = frozenset(f"{kind}{count}" for kind in ("int", "uint", "float", "half", "short", "dim") for count in "234")
"""Vectors: their elements are numbers of one kind, and no extents."""
_DOTS = (".", "->")


@generator(_KIND, *_FAULTS)
def generate(view: View) -> Iterator[Edit]:
    """Each member that the wanted lines read of a variable, as any other one that the source reads of it."""
    model = view.model
    known = _members(model)
    for index, name in _accesses(model):
        token = model.tokens[index]
        if not view.wanted(token.offset) or token.text not in known.get(name, ()):
            continue
        near = {t.text for t in model.tokens if t.kind == "id" and abs(t.line - token.line) <= _NEAR}
        for other in sorted(known.get(name, ())):
            if other != token.text:
                # What belongs together is named together.
                rank = 0.06 if other in near else 0.12
                rank -= 0.05 if _squared(model, index) else 0.0
                summary = f"{name}.{other} in place of {name}.{token.text}"
                yield from view.offer(_KIND, _FAULTS, token.line, summary, (replaced(token, other),), rank)


_NEAR = 1
"""Lines around a member on which others of the same kind are likely to be named."""


def _accesses(model: SourceModel) -> Iterator[tuple[int, str]]:
    """(token of the member, name of the variable) of each `variable.member` that is read, calls left out."""
    for index in range(2, len(model.tokens)):
        base = model.tokens[index - 2]
        if model.tokens[index - 1].text not in _DOTS or base.kind != "id" or model.tokens[index].kind != "id":
            continue
        called = index + 1 < len(model.tokens) and model.tokens[index + 1].text in ("(", "=")
        variable = model.variable(base.text, base.offset)
        if not called and variable is not None and not variable.dims and variable.element not in _BUILT_IN:
            yield index, base.text


def _members(model: SourceModel) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    pointers = _pointers(model)
    for index, name in _accesses(model):
        if model.tokens[index].text not in pointers:
            found.setdefault(name, set()).add(model.tokens[index].text)
    return found


def _pointers(model: SourceModel) -> frozenset[str]:
    """Names that are declared as pointers: `half* hidden;`, in a struct as well."""
    texts = [token.text for token in model.tokens]
    found = set()
    for index in range(1, len(texts) - 1):
        if model.tokens[index].kind == "id" and texts[index + 1] in (";", ",", ")", "="):
            back = index - 2 if texts[index - 1] in ("__restrict__", "__restrict", "restrict", "const") else index - 1
            if texts[back] == "*" and model.tokens[max(back - 1, 0)].kind == "id":
                found.add(texts[index])
    return frozenset(found)


def _squared(model: SourceModel, index: int) -> bool:
    """Whether a member is multiplied by itself: extents of one tensor are rarely meant twice."""
    own = [token.text for token in model.tokens[index - 2 : index + 1]]
    before = [token.text for token in model.tokens[max(index - 6, 0) : index - 2]]
    behind = [token.text for token in model.tokens[index + 1 : index + 5]]
    return before == [*own, "*"] or behind == ["*", *own]
