"""Both usual ways to form Q·Kᵀ are right, and mixing them gives Q·K: numbers of the right size that are all wrong.

K staged as it lies needs matrix_b col_major; K staged transposed needs row_major. A square random K tells them apart,
a symmetric one (or the identity) does not.
"""

from __future__ import annotations

import numpy as np

from wmmadiag.probes.answer import ProbeAnswer
from wmmadiag.probes.machine import Platform
from wmmadiag.probes.registry import Probe

_WAYS = {
    "staged as it lies, col_major": True,
    "staged transposed, row_major": True,
    "staged as it lies, row_major": False,
    "staged transposed, col_major": False,
}
"""Way → whether it is Q·Kᵀ."""


def run(machine: Platform) -> ProbeAnswer:
    """Four ways, compared with Q·Kᵀ and Q·K."""
    rng = np.random.default_rng(4)
    q, k = (rng.integers(-8, 9, (16, 16)).astype(np.float16) for _ in range(2))
    scores = np.zeros((4, 16, 16), np.float32)
    machine.run("transpose.cu", "transpose", [q, k, scores])
    products = {
        "Q·Kᵀ": q.astype(np.float32) @ k.T.astype(np.float32),
        "Q·K": q.astype(np.float32) @ k.astype(np.float32),
    }
    data = {
        way: next((name for name, value in products.items() if np.array_equal(seen, value)), "neither")
        for way, seen in zip(_WAYS, scores, strict=True)
    }
    right = all((data[way] == "Q·Kᵀ") == meant and data[way] != "neither" for way, meant in _WAYS.items())
    table = tuple(f"K {way}: {data[way]}" for way in _WAYS)
    if not right:
        return ProbeAnswer(
            "wrong", ("K's four ways into a product do not give what they should: " + "; ".join(table),), table, data
        )
    lines = (
        "Q·Kᵀ: stage K as it lies and read matrix_b col_major, or stage it transposed and read row_major; "
        "the other two combinations are Q·K",
    )
    return ProbeAnswer("right", lines, table, data)


PROBE = Probe("transpose", "which ways of staging and reading K give Q·Kᵀ?", "transpose.cu", run)
