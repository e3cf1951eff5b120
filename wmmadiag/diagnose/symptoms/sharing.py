"""Kernels that share their work out over whatever is launched: no other launch is what they need.

Where a loop steps by the number of blocks, or the work is divided by it, every launch covers the output. That more
blocks or threads make such a kernel right is chance: they take what its own bounds and steps leave out.
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.source.model import SourceModel, Span

_BLOCKS = "gridDim"
_DEPTH = 4


def shared_axes(model: SourceModel) -> frozenset[str]:
    """The axes ("x", "y", "z") along which blocks share the work out; "threads" where their threads do as well."""
    found: set[str] = set()
    for statement in model.statements:
        if statement.step is not None:
            made = set(_made_of(model, statement.step, _DEPTH))
            blocks = {axis for name, axis in made if name == _BLOCKS}
            found |= blocks
            if blocks and any(name == "blockDim" for name, _ in made):
                found.add("threads")
    for index, token in enumerate(model.tokens):
        if token.text == "/" and _dimension(model, index + 1) == _BLOCKS:
            found.add(_axis(model, index + 1))
    return frozenset(found)


def _made_of(model: SourceModel, span: Span, depth: int) -> Iterator[tuple[str, str]]:
    """(gridDim or blockDim, axis) that an expression comes from, through the variables in it."""
    for index in range(span.first, span.last):
        name = _dimension(model, index)
        if name:
            yield name, _axis(model, index)
            continue
        token = model.tokens[index]
        variable = model.variable(token.text, token.offset) if token.kind == "id" else None
        if variable is not None and variable.initial is not None and depth > 0:
            yield from _made_of(model, variable.initial, depth - 1)


def _dimension(model: SourceModel, index: int) -> str:
    """ "gridDim" or "blockDim" where that stands at a token; "" else."""
    text = model.tokens[index].text if index < len(model.tokens) else ""
    return text if text in (_BLOCKS, "blockDim") else ""


def _axis(model: SourceModel, index: int) -> str:
    """The axis behind `gridDim.` at a token."""
    return model.tokens[index + 2].text if index + 2 < len(model.tokens) else ""
