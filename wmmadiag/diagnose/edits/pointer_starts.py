"""Let a pointer start at the part of the array that is this block's: the batch, the sequence, the head.

Bad:
    const int* where = positions;

Good:
    const int* where = positions + batch * length;
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator, is_integer

_KIND = "pointer-starts"
_FAULTS = ("index-arithmetic", "tensor-strides", "loop-extent", "card-mismatch")
_LENGTHS = 6


@generator(_KIND, *_FAULTS)
def generate(view: View) -> Iterator[Edit]:
    """A pointer that is another one as it is, with each index of the block times each length."""
    model = view.model
    for variable in model.variables:
        made = variable.initial
        if (
            made is None
            or not variable.pointer
            or made.last - made.first != 1
            or not view.wanted(variable.start, made.end)
        ):
            continue
        base = model.variable(made.text, made.start)
        if base is None or not (base.pointer or base.dims):
            continue
        known = view.integers(made.start)
        indices = [v for v in known if v.kind == "local" and v.initial is not None and "blockIdx" in v.initial.text]
        lengths = [v for v in known if v.kind == "parameter" and is_integer(v)][:_LENGTHS]
        for index in indices:
            for length in lengths:
                text = f" + {index.name} * {length.name}"
                change = Change(made.end, made.end, text)
                summary = f"start {variable.name} {index.name} * {length.name} further on"
                yield from view.offer(_KIND, _FAULTS, variable.line, summary, (change,), 0.05)
