"""One warp and one tile, the smallest thing that can be right: before looking for a fault in a kernel, see that
`load_matrix_sync`, `mma_sync` and `store_matrix_sync` do what is expected of them.

Identity times identity is the identity whichever way B is read, so a test with it passes a kernel that computes Q·K for
Q·Kᵀ. Identity times a random matrix tells them apart.
"""

from __future__ import annotations

import numpy as np

from wmmadiag.probes.answer import ProbeAnswer
from wmmadiag.probes.machine import Platform
from wmmadiag.probes.registry import Probe


def run(machine: Platform) -> ProbeAnswer:
    """Three pairs of operands, B read row_major and col_major, against scalar code and Python."""
    rng = np.random.default_rng(3)
    identity = np.eye(16, dtype=np.float16)
    a, b = (rng.integers(-8, 9, (16, 16)).astype(np.float16) for _ in range(2))
    pairs = {"identity × identity": (identity, identity), "identity × random": (identity, b), "random × random": (a, b)}
    table, data = [], {}
    right = differs = True
    for name, (left, other) in pairs.items():
        row, col, scalar = (np.zeros((16, 16), np.float32) for _ in range(3))
        machine.run("product.cu", "product", [left, other, row, col, scalar])
        exact, exact_t = (left.astype(np.float32) @ m.astype(np.float32) for m in (other, other.T))
        found = {
            "row_major is A·B": bool(np.array_equal(row, exact)),
            "col_major is A·Bᵀ": bool(np.array_equal(col, exact_t)),
            "wmma is the scalar code": bool(np.array_equal(row, scalar)),
            "the two differ": not np.array_equal(row, col),
        }
        data[name] = found
        right &= all(value for key, value in found.items() if key != "the two differ")
        differs &= found["the two differ"] == (name != "identity × identity")
        table.append(f"{name}: " + ", ".join(f"{key}: {'yes' if value else 'no'}" for key, value in found.items()))
    if not (right and differs):
        return ProbeAnswer(
            "wrong", ("a 16 × 16 × 16 product of one warp is not what scalar code gives",), tuple(table), data
        )
    lines = (
        "one warp's 16 × 16 × 16 product equals scalar code in all 256 elements: B row_major is A·B, col_major A·Bᵀ",
        "identity × identity is the same for both; test Q·Kᵀ with identity × random",
    )
    return ProbeAnswer("right", lines, tuple(table), data)


PROBE = Probe("product", "does one warp's product equal scalar code, and which product is it?", "product.cu", run)
