"""Partial sums are lost in few ways, each with its own number: zeroed in the k loop, only the last k-step survives;
zeroed once for two tiles, the second tile holds both; stored over the running result, only the last tile survives.

An accumulator that is never zeroed holds what the registers held: no number that could be shown here.
"""

from __future__ import annotations

import numpy as np

from wmmadiag.probes.answer import ProbeAnswer
from wmmadiag.probes.machine import Platform
from wmmadiag.probes.registry import Probe

_STEPS = tuple(16.0 * (step + 1) for step in range(4))
_MODES = {
    "zeroed once before the k loop": sum(_STEPS),
    "zeroed inside the k loop": _STEPS[-1],
    "zeroed once for two tiles": 2 * sum(_STEPS),
    "tiles: load, add, store": sum(_STEPS),
    "tiles: store without loading": _STEPS[-1],
}
"""What is done → every element's value, by arithmetic."""


def run(machine: Platform) -> ProbeAnswer:
    """Five ways of keeping sums."""
    a = np.ones((16, 64), np.float16)
    b = np.repeat(np.arange(1.0, 5.0), 256).astype(np.float16)
    d = np.zeros((5, 256), np.float32)
    machine.run("accumulation.cu", "accumulation", [a, b, d])
    data = {mode: sorted({float(value) for value in seen}) for mode, seen in zip(_MODES, d, strict=True)}
    right = all(data[mode] == [value] for mode, value in _MODES.items())
    table = tuple(f"{mode}: {', '.join(f'{v:g}' for v in values)}" for mode, values in data.items())
    if not right:
        return ProbeAnswer("wrong", ("sums are not kept as they should be: " + "; ".join(table),), table, data)
    lines = (
        "zero the accumulator once before the k loop (160 here); inside the loop only the last k-step survives (64)",
        "between tiles load, add and store (160); a store alone overwrites: only the last tile survives (64)",
    )
    return ProbeAnswer("right", lines, table, data)


PROBE = Probe("accumulation", "what survives of sums over k-steps and over tiles?", "accumulation.cu", run)
