"""What kind of fault a change mends, by where in the code it stands.

Many edits would mend several faults, and are offered for whichever was asked for. Once one is known to make the kernel
right, its place says more: what was changed in a leading dimension was a leading dimension.
"""

from __future__ import annotations

from wmmadiag.diagnose.edits import Edit
from wmmadiag.diagnose.source.model import SourceModel, Span
from wmmadiag.diagnose.source.softmax import EXPONENTIALS

# Faults that say where something shows, or only that an index is meant; a more telling place replaces them.
_VAGUE = frozenset(
    {
        "index-arithmetic", "tensor-strides", "out-of-bounds", "fragment-footprint", "unwritten-output", "alignment",
        "uninitialised-memory", "write-conflict", "operand-order", "stale-tile", "swizzle-mismatch", "element-type",
        "ldmatrix-address", "fragment-map",
    }
)  # fmt: skip
_COMMON = _VAGUE | {"guard-condition", "loop-extent", "partial-fill"}
"""Faults that a change to any index, condition or bound may mend, and that therefore say little."""

_OF_KIND = {
    "registers": "fragment-map", "lane-functions": "fragment-map", "ldmatrix-rows": "ldmatrix-address",
    "atomics": "write-conflict", "aliases": "index-arithmetic", "lost-sums": "operand-order",
}  # fmt: skip
"""Edits that are about one fault only, whichever they were asked for."""
_TELLING = frozenset({"clearing", "partial-fill", "barriers"})
"""Kinds of edits that say more of a fault than numbers that several faults give."""

_LOAD_LDM, _STORE_LDM = 2, 2


def nature(model: SourceModel | None, edit: Edit, operation: str = "", claimed: str = "") -> str:
    """The hypothesis that a change which makes the kernel right speaks for; the edit's own if its place is silent.

    Args:
        operation: what the card says that the kernel computes.
        claimed: what was seen before the change. Where that is not which element a register holds, a number in an
            address of memory is an index, whatever suggested its value.
    """
    if operation == "gemm" and edit.hypothesis == "softmax-scale":
        return "epilogue"  # there are no scores: what is scaled is the sum
    if edit.kind in _OF_KIND and claimed not in ("", _OF_KIND[edit.kind]) and _addresses_memory(model, edit):
        return "index-arithmetic"
    if edit.kind in _OF_KIND:
        return _OF_KIND[edit.kind]
    if model is None or not edit.changes:
        return edit.hypothesis
    for call in model.wmma_calls:
        if call.name == "load_matrix_sync" and len(call.arguments) > _LOAD_LDM:
            ldm: Span | None = call.arguments[_LOAD_LDM]
        elif call.name == "store_matrix_sync" and len(call.arguments) > _STORE_LDM:
            ldm = call.arguments[_STORE_LDM]
        else:
            ldm = None
        if ldm is not None and _inside(edit, ldm):
            return "leading-dimension"
    if any(f.layout_at is not None and _inside(edit, f.layout_at) for f in model.fragments):
        return "operand-layout"
    if edit.hypothesis in _VAGUE and _factor_of_exponent(model, edit):
        return "softmax-scale"
    # Too few blocks is a fault of the launch: what the kernel's own loop leaves out is not.
    if edit.hypothesis not in _VAGUE and edit.hypothesis != "launch-coverage":
        return edit.hypothesis
    at = model.statement_at(edit.changes[0].start)
    for index in (at, *model.enclosing(at)) if at >= 0 else ():
        statement = model.statements[index]
        if statement.condition is not None and _inside(edit, statement.condition):
            return "loop-extent" if statement.loop else "guard-condition"
    return edit.hypothesis


def tells(edit: Edit) -> bool:
    """Whether an edit is about one fault only: that it mends the kernel says more than where a value departed."""
    return edit.kind in _OF_KIND


def common(edit: Edit, name: str) -> bool:
    """Whether a fault that a mend speaks for is one that changes of many kinds may mend."""
    return name in _COMMON and edit.kind not in _TELLING


def _factor_of_exponent(model: SourceModel, edit: Edit) -> bool:
    """Whether an edit changes what an exponent is multiplied by, and no index in it."""
    if any(_inside(edit, index) for one in model.subscripts for index in one.indices):
        return False
    calls = [call for call in model.calls if call.name in EXPONENTIALS]
    exponent = any(_inside(edit, argument) for call in calls for argument in call.arguments)
    old = sum(model.text[change.start : change.end].count("*") for change in edit.changes)
    return exponent and old != sum(change.text.count("*") for change in edit.changes)


def _addresses_memory(model: SourceModel | None, edit: Edit) -> bool:
    """Whether all that an edit changes stands in subscripts of pointers: addresses, not numbers of registers."""
    if model is None or not edit.changes:
        return False
    pointers: list[Span] = []
    for one in model.subscripts:
        variable = model.variable(one.name, one.start)
        if variable is not None and variable.pointer and not variable.dims:
            pointers += one.indices
    return all(any(p.start <= c.start and c.end <= p.end for p in pointers) for c in edit.changes)


def _inside(edit: Edit, span: Span) -> bool:
    return all(span.start <= change.start and change.end <= span.end for change in edit.changes)
