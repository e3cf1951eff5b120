"""Instantiate a helper as its other uses do: writer and reader of a tile must agree on how it is laid out.

Bad:
    tile[place<64, 3>(row, col)] = x[i];
    use(tile[place<64, 2>(row, col)]);

Good:
    tile[place<64, 3>(row, col)] = x[i];
    use(tile[place<64, 3>(row, col)]);
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator

_KIND = "template-arguments"
_ALL = ("swizzle-mismatch", "index-arithmetic", "ldmatrix-address", "stale-tile", "tensor-strides", "reduction")
_LIKELY = 0.03


@generator(_KIND, *_ALL, derived=True)
def generate(view: View) -> Iterator[Edit]:
    """Calls of a device function whose template arguments differ in one from those of another call, macros included."""
    model = view.model
    own = {function.name for function in model.functions if not function.kernel}
    for name in own:
        used = [
            (match.start(1), match[1])
            for match in re.finditer(rf"\b{re.escape(name)}\s*<([^<>;{{}}()]*)>\s*\(", model.text)
        ]
        for at, text in used:
            if "," not in text or not view.wanted(at, at + len(text)):
                continue
            here = _pieces(text)
            for other in dict.fromkeys(there for _, there in used):
                there = _pieces(other)
                if len(there) == len(here) and here[0] == there[0] and _differ(here, there) == 1:
                    line = model.line_of(at)
                    summary = f"{name}<{', '.join(there)}>, as elsewhere"
                    yield from view.offer(_KIND, _ALL, line, summary, (Change(at, at + len(text), other),), _LIKELY)


def _pieces(text: str) -> list[str]:
    return [piece.strip() for piece in text.split(",")]


def _differ(one: list[str], other: list[str]) -> int:
    return sum(a != b for a, b in zip(one, other, strict=True))
