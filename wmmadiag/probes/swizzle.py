"""A swizzle moves 16-byte chunks within a row so that reading a column of them meets no bank twice. Whoever reads must
undo exactly what the writer did. `ldmatrix` can, since each lane gives an address; `wmma::load_matrix_sync` takes one
pointer and one ldm, and cannot: use padding with it.
"""

from __future__ import annotations

import numpy as np

from wmmadiag.probes.answer import ProbeAnswer
from wmmadiag.probes.machine import Platform
from wmmadiag.probes.registry import Probe

_READERS = ("no swizzle", "chunk ^ (row & 7), as written", "chunk ^ (row >> 1 & 7)")


def run(machine: Platform) -> ProbeAnswer:
    """A 16 × 64 half tile written with chunk ^ (row & 7)."""
    x = np.arange(1024).astype(np.float16)
    back, one, seen = np.zeros((4, 16, 64), np.float16), np.eye(16, dtype=np.float16), np.zeros((16, 16), np.float32)
    fault = machine.run("swizzle.cu", "swizzle", [x, back, one, seen])
    tile = x.reshape(16, 64)
    data = {name: int((back[at] == tile).sum()) for at, name in enumerate(_READERS)}
    data["ldmatrix, as written, first 8 × 32"] = int((back[3, :8, :32] == tile[:8, :32]).sum())
    data["wmma load, first 16 × 16"] = int((seen == tile[:, :16]).sum())
    row, chunk = np.arange(16)[:, None], np.arange(8)[None, :]
    expected = [
        8 * int((chunk ^ (row & 7) == other).sum()) for other in (chunk, chunk ^ (row & 7), chunk ^ (row >> 1 & 7))
    ]
    right = not fault and [data[name] for name in _READERS] == expected and expected[1] == 1024
    # Of the first 16 columns only the rows whose swizzle is the identity are in place.
    right = right and data["ldmatrix, as written, first 8 × 32"] == 256 and data["wmma load, first 16 × 16"] == 32
    table = tuple(f"{name}: {count} elements in place" for name, count in data.items())
    if not right:
        return ProbeAnswer("wrong", (f"a swizzled tile does not come back as it should {fault}".rstrip(),), table, data)
    lines = (
        f"read with the writer's swizzle all 1024 elements come back; with none {data[_READERS[0]]}, "
        f"with row >> 1 for row {data[_READERS[2]]}: writer and reader must use one function",
        "ldmatrix reads a swizzled tile right, wmma::load_matrix_sync cannot (one pointer, one ldm): pad for it "
        "instead",
    )
    return ProbeAnswer("right", lines, table, data)


PROBE = Probe("swizzle", "what comes back of a swizzled tile?", "swizzle.cu", run)
