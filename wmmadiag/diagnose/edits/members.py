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
_DOTS = (".", "->")


@generator(_KIND, *_FAULTS)
def generate(view: View) -> Iterator[Edit]:
    """Each member that the wanted lines read of a parameter, as any other one that the source reads of it."""
    model = view.model
    known = _members(model)
    for index, name in _accesses(model):
        token = model.tokens[index]
        if not view.wanted(token.offset):
            continue
        near = {t.text for t in model.tokens if t.kind == "id" and abs(t.line - token.line) <= _NEAR}
        for other in sorted(known.get(name, ())):
            if other != token.text:
                # What belongs together is named together.
                rank = 0.06 if other in near else 0.12
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
        if not called and variable is not None and variable.kind == "parameter":
            yield index, base.text


def _members(model: SourceModel) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for index, name in _accesses(model):
        # A pointer is no number.
        following = model.tokens[index + 1].text if index + 1 < len(model.tokens) else ""
        if following != "[":
            found.setdefault(name, set()).add(model.tokens[index].text)
    return found
