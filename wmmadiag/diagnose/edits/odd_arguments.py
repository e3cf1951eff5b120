"""One index for all arguments of a call: what two arguments start at, the third starts at, too.

Bad:
    stage(tile, k + col0 * stride, positions + row0, length - col0);

Good:
    stage(tile, k + col0 * stride, positions + col0, length - col0);
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import replaced
from wmmadiag.diagnose.edits.model import Edit
from wmmadiag.diagnose.edits.registry import View, generator, is_integer
from wmmadiag.diagnose.source.model import Call

_KIND = "odd-arguments"
_FAULTS = (
    "index-arithmetic", "out-of-bounds", "tensor-strides", "guard-condition", "tail-masking", "operand-order",
    "fragment-footprint",
)  # fmt: skip


@generator(_KIND, *_FAULTS)
def generate(view: View) -> Iterator[Edit]:
    """A local integer that only one argument has, as the one that at least two others have."""
    model = view.model
    for call in model.calls:
        if len(call.arguments) < 3 or not view.wanted(call.start, call.end):
            continue
        found = _integers(view, call)
        counts = Counter(name for names in found for name in names)
        for position, names in enumerate(found):
            for name, index in names.items():
                if counts[name] != 1:
                    continue
                for other, count in counts.items():
                    if count >= 2 and other not in names:
                        token = model.tokens[index]
                        summary = f"{other} in place of {name} in argument {position + 1}, as in {count} others"
                        yield from view.offer(_KIND, _FAULTS, token.line, summary, (replaced(token, other),), 0.03)


def _integers(view: View, call: Call) -> list[dict[str, int]]:
    """Per argument, the local integers that it names, and at which token."""
    model = view.model
    found = []
    for argument in call.arguments:
        names: dict[str, int] = {}
        for index in range(argument.first, argument.last):
            token = model.tokens[index]
            variable = model.variable(token.text, token.offset) if token.kind == "id" else None
            local = variable is not None and variable.kind in ("local", "loop") and not variable.dims
            if local and variable is not None and is_integer(variable) and not variable.pointer:
                names[token.text] = index
        found.append(names)
    return found
