"""CUDA leaves open which element of the matrix `frag.x[i]` is, and real kernels index it all the same: to scale rows,
to mask, to store by hand. A guessed map gives numbers that look shuffled.

Every fragment is loaded from elements that hold their own index; what each lane finds in `x[i]` is compared with the
maps that wmmadiag emulates. They do not depend on row_major or col_major.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.fragments import FragmentMap, wmma_map
from wmmadiag.numerics.tensor_core_forms import parse_shape
from wmmadiag.probes.answer import ProbeAnswer
from wmmadiag.probes.machine import DTYPES, Platform
from wmmadiag.probes.registry import Probe

_DIGIT = 64  # exact in every type, bytes included


def measured(machine: Platform, entry: str, shape: tuple[int, int]) -> NDArray[np.int64]:
    """int64[32, elements]: row · columns + column of the element that each lane's x[i] holds."""
    kind = entry.rpartition("_")[2]
    ids = np.arange(shape[0] * shape[1])
    total: NDArray[np.int64] | None = None
    for power in (1, _DIGIT):
        to, count = np.zeros(32 * 64, np.float32), np.zeros(1, np.int32)
        content = np.ascontiguousarray((ids // power % _DIGIT).astype(DTYPES[kind]))
        fault = machine.run("fragment_map.cu", entry, [content, shape[1], to, count])
        digit = to[: 32 * int(count[0])].reshape(32, -1).astype(np.int64) if not fault else np.full((32, 1), -1)
        total = digit * power if total is None else total + digit * power
    assert total is not None
    return total


def tables(arch: str, entries: list[str]) -> dict[str, FragmentMap]:
    """The known map of each entry, "m16n16k16_a_f16"."""
    return {name: wmma_map(*name.split("_"), arch) for name in entries}


def run(machine: Platform) -> ProbeAnswer:
    """Measure all maps that the architecture has."""
    entries = [entry.name for entry in machine.compiled("fragment_map.cu").entries]
    data: dict[str, Any] = {}
    different, table = [], []
    for entry, known in tables(machine.arch, sorted(entries)).items():
        m, n, k = parse_shape(entry.split("_")[0])
        shape = {"a": (m, k), "b": (k, n), "c": (m, n)}[entry.split("_")[1]]
        seen = measured(machine, entry, shape)
        same = bool(np.array_equal(seen, known.row.astype(np.int64) * shape[1] + known.col))
        data[entry] = seen.tolist()
        if not same:
            different.append(entry.replace("_", " "))
        where = [f"({e // shape[1]},{e % shape[1]})" for e in seen[5][:8].tolist()]
        table.append(
            f"{entry.replace('_', ' ')}: {seen.shape[1]} elements, lane 5 holds {' '.join(where)}"
            + ("" if same else ": not as in the table")
        )
    if different:
        return ProbeAnswer(
            "wrong", (f"maps that differ from the known ones: {', '.join(different)}",), tuple(table), data
        )
    lines = (
        f"the maps of all {len(data)} fragments are the known ones; in an m16n16k16 accumulator x[i] of a lane is row "
        "lane/4 + 8·(i/2 % 2), column 2·(lane % 4) + i % 2 + 8·(i/4)",
        "A of m16n16k16 f16 is row lane/4 + 8·(i/2 % 2), k 2·(lane % 4) + i % 2 + 8·(i/4 % 2), its upper half a "
        "repetition",
    )
    return ProbeAnswer("right", lines, tuple(table), data)


PROBE = Probe("fragment-map", "which matrix element is frag.x[i] of each lane?", "fragment_map.cu", run)
