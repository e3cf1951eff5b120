"""How much of a case's output a record keeps: of each row a sample of elements, to show what differs, and a digest."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from wmmadiag.fidelity.cases import Array, FidelityCase


def _step(case: FidelityCase, array: Array) -> int:
    return max(1, array.shape[1] // case.sample) if case.sample else 1


def digests(outputs: Array) -> Array:
    """64 bits of BLAKE2b of each row."""
    texts = (hashlib.blake2b(np.ascontiguousarray(row).tobytes(), digest_size=8).digest() for row in outputs)
    return np.frombuffer(b"".join(texts), np.uint64)


def record(case: FidelityCase, outputs: Mapping[str, Array]) -> dict[str, Array]:
    """What is kept of a case, by name in the file."""
    kept: dict[str, Array] = {}
    for name, array in outputs.items():
        kept[f"{case.key}/{name}/sample"] = array[:, :: _step(case, array)]
        if case.sample:
            kept[f"{case.key}/{name}/digest"] = digests(array)
    return kept


def differences(case: FidelityCase, outputs: Mapping[str, Array], kept: Mapping[str, Array]) -> list[str]:
    """The rows in which a run departs from the record, one line each."""
    lines = []
    for name, array in outputs.items():
        sample, step = kept[f"{case.key}/{name}/sample"], _step(case, array)
        own = array[:, ::step]
        assert sample.shape == own.shape, f"{case.key}: the record has other rows"
        wrong = (sample != own).any(axis=1)
        if case.sample:
            wrong |= kept[f"{case.key}/{name}/digest"] != digests(array)
        for row in np.flatnonzero(wrong):
            columns = np.flatnonzero(sample[row] != own[row])
            shown = "none of the sample"
            if columns.size:
                at = int(columns[0]) * step
                sources = ", ".join(f"{int(x.reshape(-1)[at]):#x}" for x in case.inputs if x.size > at)
                here, there = (int(one[row, columns[0]]) for one in (own, sample))
                shown = f"at {at} ({sources}) {here:#x}, on the chip {there:#x}"
            lines.append(f"{case.rows[row]} {name}: {columns.size} of {sample.shape[1]} compared, {shown}")
    return lines
