"""The leading dimension (ldm) is the distance between the starts of two rows (row_major) or columns (col_major),
counted in elements, of the array that is read: with its padding, not of the tile.

Elements hold their own index, so that the answer is what each layout really reads, for tight and padded arrays, for an
ldm that is too small or no multiple of 16 bytes, and for a base that is not aligned. Nothing warns at run time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wmmadiag.probes.answer import ProbeAnswer
from wmmadiag.probes.machine import Platform
from wmmadiag.probes.registry import Probe

_SWEEP = (
    ("tight", 0, 16),
    ("padded by 8", 0, 24),
    ("padded by 16", 0, 32),
    ("too small", 0, 8),
    ("all rows alike", 0, 0),
    ("ldm of 34 bytes", 0, 17),
    ("ldm of 40 bytes", 0, 20),
    ("base off by 16 bytes", 8, 24),
    ("base off by 8 bytes", 4, 24),
    ("base off by 2 bytes", 1, 24),
)
_ODD = sum(ldm % 8 != 0 or offset % 16 != 0 for _, offset, ldm in _SWEEP)
_LEGAL = ("tight", "padded by 8", "padded by 16")


def run(machine: Platform) -> ProbeAnswer:
    """Every layout, space and (base, ldm) of the sweep."""
    values = np.arange(1024).astype(np.float16)  # whole numbers up to 2048 are exact in half
    one = np.eye(16, dtype=np.float16)
    line, along = np.arange(16)[:, None], np.arange(16)[None, :]
    table: list[str] = []
    data: dict[str, Any] = {}
    right = True
    dead, elsewhere = [], []
    for col in (0, 1):
        for shared in (0, 1):
            for name, offset, ldm in _SWEEP:
                seen = np.zeros((16, 16), np.float32)
                # A launch that dies may end the use of a GPU by its process; the backend starts another one.
                fault = machine.run("layouts.cu", "layouts", [values.copy(), one, seen, offset, ldm, col, shared])
                got = seen.T if col else seen
                agree = got == offset + line * ldm + along
                key = f"{'col' if col else 'row'}_major, {'shared' if shared else 'global'}, {name}"
                data[key] = fault or got[:, 0].astype(int).tolist()
                if fault:
                    dead.append(key)
                elif not agree.all():
                    elsewhere.append(key)
                right &= name not in _LEGAL or (not fault and bool(agree.all()))
                what = fault or (
                    "base + line·ldm + place"
                    if agree.all()
                    else f"lines start at {', '.join(map(str, got[:6, 0].astype(int).tolist()))}, …"
                )
                table.append(f"{key} (ldm {ldm}): {what}")
    if not right:
        return ProbeAnswer("wrong", ("a legal layout does not read base + line·ldm + place",), tuple(table), data)
    lines = (
        "row_major element (i, k) is X[i·ldm + k], col_major X[k·ldm + i]; ldm counts elements of the array with its "
        "padding, and one that is too small reads overlapping lines without any error",
        f"of {4 * _ODD} loads whose ldm is no multiple of 16 bytes, or whose base is not aligned to 32, "
        f"{len(dead)} die "
        f"('misaligned'), {len(elsewhere)} read from elsewhere in silence, "
        f"{4 * _ODD - len(dead) - len(elsewhere)} work here",
    )
    return ProbeAnswer("right", lines, tuple(table), data)


PROBE = Probe("layouts", "what do row_major and col_major read for each leading dimension?", "layouts.cu", run)
