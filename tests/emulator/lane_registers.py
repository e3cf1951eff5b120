"""Runs one lane operation of the native core on arrays of any multiple of 32 elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from native_parts import lane_op
from numpy.typing import NDArray

from wmmadiag.emulator.modifiers import pack

ALL = 0xFFFFFFFF
Array = NDArray[Any]


def to_mask(lanes: Array) -> Array:
    """32 truth values as a predicate register."""
    return np.packbits(np.asarray(lanes, bool), bitorder="little").view(np.uint32)


def from_mask(mask: Array) -> Array:
    return np.unpackbits(mask.view(np.uint8), bitorder="little").astype(bool)


def run_pair(
    name: str,
    dtypes: Sequence[Any],
    *sources: Array,
    attributes: Mapping[str, str] | None = None,
    active: int = ALL,
    isa: str | None = None,
) -> list[Array]:
    """All destinations of the operation; a destination of dtype bool is a predicate, as is a source of dtype bool."""
    word = pack(attributes or {})
    assert all(len(source) == len(sources[0]) and len(source) % 32 == 0 for source in sources)
    results: list[list[Array]] = [[] for _ in dtypes]
    for start in range(0, len(sources[0]), 32):
        registers = [
            to_mask(source[start : start + 32])
            if source.dtype == bool
            else np.ascontiguousarray(source[start : start + 32])
            for source in sources
        ]
        outputs = [np.zeros(1, np.uint32) if dtype is bool else np.zeros(32, dtype) for dtype in dtypes]
        lane_op(name, word, active, registers, outputs[0], outputs[1] if len(outputs) > 1 else None, isa=isa)
        for result, output, dtype in zip(results, outputs, dtypes, strict=True):
            result.append(from_mask(output) if dtype is bool else output)
    return [np.concatenate(result) for result in results]


def run(name: str, dtype: Any, *sources: Array, isa: str | None = None, **attributes: str) -> Array:
    """The destination of an operation that has one."""
    return run_pair(name, [dtype], *sources, attributes=attributes, isa=isa)[0]


def padded(values: Sequence[int], dtype: Any) -> Array:
    """Bit patterns as an array, repeated up to a multiple of 32."""
    bits = np.dtype(f"u{np.dtype(dtype).itemsize}")
    array = np.array([value & (2 ** (8 * bits.itemsize) - 1) for value in values], bits)
    return np.resize(array, -(-len(array) // 32) * 32).view(dtype)


def combinations(pool: Sequence[int], count: int, dtype: Any, *, limit: int = 2048, seed: int = 1) -> list[Array]:
    """All pairs (or a sample of `limit` tuples) from a pool of bit patterns, one array per operand."""
    total = len(pool) ** count
    chosen = np.arange(total) if total <= limit else np.random.default_rng(seed).integers(0, total, limit)
    return [padded([pool[int(i) // len(pool) ** k % len(pool)] for i in chosen], dtype) for k in range(count)]


def random_bits(count: int, dtype: Any, seed: int) -> Array:
    data = np.random.default_rng(seed).bytes(count * np.dtype(dtype).itemsize)
    return np.frombuffer(data, dtype).copy()
