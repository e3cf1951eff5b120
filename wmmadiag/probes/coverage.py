"""A tile that no warp computes keeps what the memory held: in shared memory any number, up to 10¹¹ in a maximum error.
One tile per warp needs as many warps as tiles; a loop over tiles with a stride of the number of warps needs only one.
"""

from __future__ import annotations

import numpy as np

from wmmadiag.probes.answer import ProbeAnswer
from wmmadiag.probes.machine import Platform
from wmmadiag.probes.registry import Probe

_TILES = 8
_WARPS = (1, 2, 3, 4, 8)


def run(machine: Platform) -> ProbeAnswer:
    """8 tiles, 1 to 8 warps, both ways."""
    rng = np.random.default_rng(7)
    a = rng.integers(-8, 9, (_TILES, 16, 16)).astype(np.float16)
    b = rng.integers(-8, 9, (16, 16)).astype(np.float16)
    want = a.astype(np.float32) @ b.astype(np.float32)
    data: dict[str, list[int]] = {}
    right = True
    for entry in ("one_each", "stride"):
        for warps in _WARPS:
            d = np.full((_TILES, 16, 16), np.nan, np.float32)
            machine.run("coverage.cu", entry, [a, b, d, _TILES], block=32 * warps)
            exact = [t for t in range(_TILES) if np.array_equal(d[t], want[t])]
            data[f"{entry}, {warps} warps"] = exact
            right &= exact == list(range(warps if entry == "one_each" else _TILES))
    table = tuple(
        f"{name.replace('one_each', 'one tile per warp').replace('stride', 'loop over tiles')}: "
        f"{len(tiles)} of {_TILES} tiles"
        for name, tiles in data.items()
    )
    if not right:
        return ProbeAnswer("wrong", ("warps do not compute the tiles that they should",), table, data)
    lines = (
        f"one tile per warp: 4 warps compute 4 of {_TILES} tiles, the others stay unwritten",
        "for (t = warp; t < tiles; t += warps) computes all of them with any number of warps",
    )
    return ProbeAnswer("right", lines, table, data)


PROBE = Probe("coverage", "which tiles do W warps compute?", "coverage.cu", run)
