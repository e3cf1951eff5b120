"""Casts are often blamed and rarely guilty: `(half*)s`, `&s[0][0]`, `s[0]` and `reinterpret_cast<half*>(s)` are one
address. Guilty is the arithmetic after the cast, where the row's pitch must be written by hand.
"""

from __future__ import annotations

import numpy as np

from wmmadiag.probes.answer import ProbeAnswer
from wmmadiag.probes.machine import Platform
from wmmadiag.probes.registry import Probe

_FORMS = (
    "&s[r][c]",
    "s[r] + c",
    "&s[0][0] + r * 24 + c",
    "(half*)s + r * 24 + c",
    "reinterpret_cast<half*>(s) + r * 24 + c",
    "*(s + r) + c",
    "(half*)&s[r] + c",
    "(half*)(s + r) + c",
    "(half*)s + r * 16 + c",
    "(half*)&s + r + c",
)
_SAME = 8
"""So many of the first forms are &s[r][c]; the others are mistakes, shown for their offsets."""


def run(machine: Platform) -> ProbeAnswer:
    """Ten ways to write the tile at (8, 16) of `half s[32][24]`."""
    row, column = 8, 16
    offsets, first = np.zeros(len(_FORMS), np.int64), np.zeros(len(_FORMS), np.float32)
    fault = machine.run("pointers.cu", "pointers", [offsets, first, row, column])
    want = 2 * (row * 24 + column)
    right = not fault and bool((offsets[:_SAME] == want).all() and (first == offsets / 2).all())
    right = right and not (offsets[_SAME:] == want).any()
    data = {form: int(offset) for form, offset in zip(_FORMS, offsets, strict=True)}
    table = tuple(f"{form}: byte {offset}" for form, offset in data.items())
    if not right:
        return ProbeAnswer(
            "wrong", (f"pointer forms that should be one address are not{': ' * bool(fault)}{fault}",), table, data
        )
    lines = (
        f"{_SAME} ways to write &s[r][c] are one address and load the same fragment: a cast is not the fault",
        f"after a cast the pitch is yours to write: (half*)s + r * 16 + c of `half s[32][24]` is "
        f"{(want - int(offsets[_SAME])) // 2} elements short at r = {row}",
    )
    return ProbeAnswer("right", lines, table, data)


PROBE = Probe("pointers", "which ways to write a tile's pointer are the same address?", "pointers.cu", run)
