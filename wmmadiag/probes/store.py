"""`store_matrix_sync` is done by a whole warp for one array that all its lanes see: shared or global memory. A local
array is another one in each thread; compilers put a trap there, or delete the store, and the launch fails with an error
that names neither.
"""

from __future__ import annotations

import numpy as np

from wmmadiag.errors import ConfigurationError, WmmadiagError
from wmmadiag.probes.answer import ProbeAnswer
from wmmadiag.probes.machine import Platform
from wmmadiag.probes.registry import Probe


def run(machine: Platform) -> ProbeAnswer:
    """The same product stored to global, shared and local memory."""
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-8, 9, (16, 16)).astype(np.float16) for _ in range(2))
    want = a.astype(np.float32) @ b.astype(np.float32)
    data = {}
    for entry in ("to_global", "to_shared", "to_local"):
        d = np.full((16, 16), np.nan, np.float32)
        try:
            fault = machine.run("store.cu", entry, [a, b, d])
        except ConfigurationError:
            raise
        except WmmadiagError as error:
            fault = f"refused: {error.message}"
        data[entry] = "dies" if fault else "right" if np.array_equal(d, want) else "wrong"
    table = tuple(f"{entry.replace('_', ' ')}: {what}" for entry, what in data.items())
    if data["to_global"] != "right" or data["to_shared"] != "right" or data["to_local"] == "right":
        return ProbeAnswer("wrong", ("storing a fragment: " + ", ".join(table),), table, data)
    what = "the launch dies" if data["to_local"] == "dies" else "the numbers are wrong"
    lines = (
        f"store a fragment to shared or global memory: both are right; to a thread's local array {what}, "
        "since every thread has another one",
    )
    return ProbeAnswer("right", lines, table, data)


PROBE = Probe("store", "where can a fragment be stored to: shared, global, local?", "store.cu", run)
