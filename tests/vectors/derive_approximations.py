"""Derives the special-function unit's tables from octaves that a GPU tabulated, and writes them as a C++ header:

    python tests/vectors/derive_approximations.py elsewhere/ wmmadiag/emulator/native/lane_ops/approximation_tables.hpp

`elsewhere/` holds what `record_approximations.py --tabulate` wrote. Taken as given is how the unit computes
(approximations.hpp): c0 · 2^shift0 + c1 · x + c2 · square(x) · 2^shift2 + round, truncated to f32. So each result
bounds that sum from both sides, at each of a segment's up to 2¹⁷ points. For a c1 and a c2 near the fitted parabola's
the bounds leave an interval for c0; kept is the one triple for which it is not empty. A wrong structure leaves none.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
TANH_OCTAVES = [(25, 1), (24, 1), (23, 1), (23, 2), (22, 2), (22, 4), (21, 4), (20, 4), (20, 8), (20, 16), (18, 8)]
"""Fractional bits of the fixed-point argument and number of segments, from 2⁻⁸; as in approximations.hpp."""


@dataclass(frozen=True)
class Points:
    """Arguments of one octave: segment, x (17 bits), and the least and largest sum that gives the recorded result."""

    segment: Array
    x: Array
    least: Array
    largest: Array


@dataclass(frozen=True)
class Weights:
    """As in approximations.hpp: the sum is in units of 2^-unit; with `half_x`, c1 is multiplied by x / 2."""

    unit: int
    shift0: int
    shift2: int
    round: int
    half_x: bool = False


TABLES = {
    "rcp": (Weights(38, 13, 0, 0x47E7, half_x=True), "1 / m, m in [1, 2)"),
    "rsqrt": (Weights(39, 14, 2, 0x7FFF), "1 / sqrt(m), m in [1, 2), then [2, 4)"),
    "sqrt": (Weights(40, 15, 0, 0x7FFF), "sqrt(m), m in [1, 2), then [2, 4)"),
    "ex2": (Weights(38, 13, 0, 0x77E2), "2^f, f in [0, 1)"),
    "lg2": (Weights(38, 12, 1, 0x3345), "log2(m), m in [1, 2)"),
    "sin": (Weights(37, 11, 0, 0), "sin(pi / 2 * f), f in [0, 1)"),
    "tanh": (Weights(39, 15, 0, 0), "tanh(x), x in [2^-8, 8)"),
}


def truncated_square(x: Array) -> Array:
    """x² / 2¹⁹ from the partial products of weight 2¹⁸ and more."""
    total = np.zeros_like(x)
    for bit in range(17):
        total += np.where(x >> bit & 1 == 1, x >> (18 - bit), 0)
    return total >> 1


def bounds(results: Array, unit: int) -> tuple[Array, Array]:
    """In units of 2^-unit, what truncates to these f32 (positive, given as bits)."""
    exponent, significand = (results >> 23) - 150 + unit, (results & 0x7FFFFF) | 0x800000
    up = np.maximum(exponent, 0)
    least = np.where(exponent < 0, significand >> np.maximum(-exponent, 0), significand << up)
    return least, least + (np.int64(1) << up) - 1


def points(name: str, text: str, first: float, results: Array) -> Points:
    """Where each argument of an octave lies, and its bounds."""
    unit = TABLES[name][0].unit
    start = int(np.float32(first).view(np.uint32))
    bits = np.arange(start, start + len(results), dtype=np.int64)
    fraction, words = bits & 0x7FFFFF, results.astype(np.int64) & 0x7FFFFFFF
    segment, x = fraction >> 17, fraction & 0x1FFFF
    if name in ("rcp", "rsqrt"):
        words = words + 0x800000  # the table holds twice the value
    if name == "rcp":
        segment, x = fraction >> 16, (fraction & 0xFFFF) << 1
    if name in ("rsqrt", "sqrt"):
        segment = segment + (64 if first == 2.0 else 0)
    if name == "ex2":
        words = words - 0x800000  # recorded in [1, 2): 2 · 2^f
    if name == "sin":
        segment, x = sine_place(bits, text.startswith("cos"))
    if name == "tanh":
        octave = (start >> 23) - 119
        scale, count = TANH_OCTAVES[octave]
        fixed = np.floor(bits.astype(np.uint32).view(np.float32) * np.float32(2**scale)).astype(np.int64)
        segment = (fixed >> 17) - count + sum(n for _, n in TANH_OCTAVES[:octave])
        x = fixed & 0x1FFFF
    least, largest = bounds(words, unit)
    if name == "lg2":
        least, largest = least - (1 << unit), largest - (1 << unit)  # recorded in [2, 4): 1 + log2(m)
    keep = words > 0
    if name == "rsqrt" and first == 1.0:
        keep[0] = False  # powers of four are exact whatever the table
    return Points(segment[keep], x[keep], least[keep], largest[keep])


def sine_place(bits: Array, cosine: bool) -> tuple[Array, Array]:
    """Segment and x of the reduced argument: times 1 / (2 pi) toward zero, to 23 bits of a quarter turn, folded."""
    exact = bits.astype(np.uint32).view(np.float32).astype(np.float64) * np.float64(np.float32(0.15915494))
    rounded = exact.astype(np.float32)
    turns = np.where(rounded.astype(np.float64) > exact, np.nextafter(rounded, np.float32(0)), rounded)
    fixed = np.floor(turns.astype(np.float64) * 2.0**25).astype(np.int64)
    quadrant = (fixed >> 23) + cosine
    folded = np.where(quadrant & 1 == 1, ~fixed, fixed) & 0x7FFFFF
    return folded >> 17, folded & 0x1FFFF


def solve(group: Points, weights: Weights) -> list[tuple[int, int, int]]:
    """The coefficients that explain every point of a segment."""
    x, first = np.unique(group.x, return_index=True)
    least, largest = group.least[first], group.largest[first]
    square = truncated_square(x) << weights.shift2
    linear = x >> 1 if weights.half_x else x
    columns = np.stack([np.ones(len(x)), linear.astype(float), square.astype(float)], 1)
    fit = np.linalg.lstsq(columns[::7], ((least + largest) / 2.0)[::7], rcond=None)[0]
    found = []
    for c1 in range(round(fit[1]) - 6, round(fit[1]) + 7):
        for c2 in range(round(fit[2]) - 16, round(fit[2]) + 17):
            for step in (61, 1):
                rest = c1 * linear[::step] + c2 * square[::step]
                low, high = int((least[::step] - rest).max()), int((largest[::step] - rest).min())
                if low > high:
                    break
            else:
                c0 = -(-(low - weights.round) >> weights.shift0)
                if (c0 << weights.shift0) + weights.round <= high:
                    found.append((c0, c1, c2))
    return found


def table(name: str, folder: Path) -> list[tuple[int, int, int]]:
    """All segments of a function.

    Raises:
        SystemExit: a segment's results fit no coefficients, or several.
    """
    pattern = "[cs][oi][sn].*" if name == "sin" else f"{name}.*"
    octaves = []
    for path in sorted(folder.glob(f"{pattern}@*.npy")):
        text, _, first = path.stem.partition("@")
        octaves.append(points(name, text, float(first), np.load(path)))
    if not octaves:
        raise SystemExit(f"{folder} holds no {name}")
    everything = Points(*(np.concatenate([getattr(o, field) for o in octaves]) for field in Points.__annotations__))
    order = np.argsort(everything.segment, kind="stable")
    edges = np.searchsorted(everything.segment[order], np.arange(int(everything.segment.max()) + 2))
    rows = []
    for number, (start, end) in enumerate(itertools.pairwise(edges)):
        chosen = order[start:end]
        group = Points(*(getattr(everything, field)[chosen] for field in Points.__annotations__))
        found = solve(group, TABLES[name][0])
        if len(found) != 1:
            raise SystemExit(f"{name}, segment {number}: {len(found)} solutions")
        rows.append(found[0])
    return rows


def header(tables: dict[str, list[tuple[int, int, int]]]) -> Iterator[str]:
    yield "// The special-function unit's tables: three coefficients per segment. Generated by"
    yield "// tests/vectors/derive_approximations.py from what an H200 (sm_90) returned; do not edit. Each row"
    yield "// is the only one that reproduces all recorded results of its segment."
    yield "// clang-format off"
    yield "#pragma once\n\n#include <array>\n#include <cstdint>\n\nnamespace wmmadiag::lanewise {\n"
    yield "struct Coefficients {\n    std::int32_t c0, c1, c2;\n};"
    for name, rows in tables.items():
        yield f"\n// {TABLES[name][1]}: {len(rows)} segments."
        yield f"inline constexpr std::array<Coefficients, {len(rows)}> {name}_coefficients{{{{"
        line = "   "
        for c0, c1, c2 in rows:
            entry = f" {{0x{c0:07x}, {c1}, {c2}}},"
            if len(line + entry) > 145:
                yield line
                line = "   "
            line += entry
        yield line + "\n}};"
    yield "\n}  // namespace wmmadiag::lanewise"


def main() -> None:
    folder, target = map(Path, sys.argv[1:])
    target.write_text("\n".join(header({name: table(name, folder) for name in TABLES})) + "\n")


if __name__ == "__main__":
    main()
