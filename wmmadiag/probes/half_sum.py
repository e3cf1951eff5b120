"""An f16 accumulator has 11 bits: adding 1 to 2048 gives 2048, and beyond 65504 it is infinite. With random operands
its error grows with the number of k-steps; the f32 accumulator's does not matter beside the operands' own rounding.
"""

from __future__ import annotations

import numpy as np

from wmmadiag.probes.answer import ProbeAnswer
from wmmadiag.probes.machine import Platform
from wmmadiag.probes.registry import Probe

_COUNTS = (2047, 2048, 2049, 3000)
_DEPTH = 1024


def run(machine: Platform) -> ProbeAnswer:
    """Ones counted one per k-step, and a product of depth 1024 of random operands."""
    wide, narrow = np.zeros((16, 16), np.float32), np.zeros((16, 16), np.float16)
    one = np.zeros((16, 16), np.float16)
    one[:, 0] = 1
    data: dict[str, float] = {}
    for count in _COUNTS:
        machine.run("half_sum.cu", "half_sum", [one, one, 1, count, wide, narrow])
        data[f"f32 sum of {count} ones"], data[f"f16 sum of {count} ones"] = float(wide[3, 5]), float(narrow[3, 5])
    rng = np.random.default_rng(6)
    a, b = (rng.standard_normal((_DEPTH // 16, 16, 16)).astype(np.float16) for _ in range(2))
    machine.run("half_sum.cu", "half_sum", [a, b, 0, _DEPTH // 16, wide, narrow])
    exact = np.einsum("kim,kjm->ij", a.astype(np.float64), b.astype(np.float64))
    data["f32 max error at depth 1024"] = float(np.abs(wide - exact).max())
    data["f16 max error at depth 1024"] = float(np.abs(narrow.astype(np.float64) - exact).max())
    right = all(
        data[f"f32 sum of {count} ones"] == count and data[f"f16 sum of {count} ones"] == min(count, 2048)
        for count in _COUNTS
    )
    # 13 bits more: 8192 times less for one rounding. Tensor cores truncate f32 sums, whose errors then add up.
    right = right and 0 < 100 * data["f32 max error at depth 1024"] < data["f16 max error at depth 1024"]
    table = tuple(f"{name}: {value:.6g}" for name, value in data.items())
    if not right:
        return ProbeAnswer("wrong", ("sums in f16 and f32 accumulators are not what their formats allow",), table, data)
    lines = (
        "an f16 accumulator stops counting ones at 2048; an f32 one does not (3000 of 3000)",
        f"depth {_DEPTH}, standard normal operands: largest error {data['f16 max error at depth 1024']:.2g} in f16, "
        f"{data['f32 max error at depth 1024']:.2g} in f32; sum in f32 unless the bound allows it",
    )
    return ProbeAnswer("right", lines, table, data)


PROBE = Probe("half-sum", "what does an f16 accumulator lose against an f32 one?", "half_sum.cu", run)
