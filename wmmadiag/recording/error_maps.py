"""Error, observed and expected values of an output, packed for a report."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.compare.comparison import Classes, classify
from wmmadiag.results import maps
from wmmadiag.subject.binding import BoundCase
from wmmadiag.subject.verdict import Verdict, axis_letters, unwritten_elements

# With both, a case of B=2, H=8, S=512, D=64 (524,288 elements) takes 2.6 MB before compression.
MAX_CODED = 1 << 20
"""Elements of a run whose error is kept."""
MAX_NUMBERS = 600_000
"""Elements of a run whose values are kept, too."""
MAX_EXACT = 1 << 16
"""Elements of one output up to which values keep 24 bits; beyond it, 11."""


@dataclass(slots=True)
class Room:
    """How many elements may still be kept in this run."""

    coded: int = MAX_CODED
    numbers: int = MAX_NUMBERS


def error_codes(seen: Classes, bound: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Each element's error in units of its bound, as `report.maps` codes it."""
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = maps.AT_BOUND + maps.STEPS_PER_OCTAVE * np.log2(seen.ratio)
    # Rounding must not move an element across the bound.
    steps = np.where(
        seen.wrong, np.maximum(np.ceil(steps), maps.AT_BOUND + 1), np.minimum(np.floor(steps), maps.AT_BOUND)
    )
    clipped = np.clip(np.nan_to_num(steps, nan=1.0, posinf=maps.LARGEST, neginf=1.0), 1, maps.LARGEST)
    codes: NDArray[np.uint8] = clipped.astype(np.uint8)
    codes[seen.finite & (seen.difference == 0)] = maps.EXACT
    codes[seen.finite & seen.wrong & (bound == 0)] = maps.UNBOUNDED
    codes[~seen.finite] = maps.ALLOWED
    for where, code in ((seen.inf, maps.INFINITE), (seen.nan, maps.NAN), (seen.missing, maps.UNWRITTEN)):
        codes[where] = code
    return codes


def error_maps(bound: BoundCase, verdict: Verdict, room: Room) -> list[maps.ErrorMap]:
    """Maps of the outputs with wrong elements, as far as there is room, which they take."""
    found = []
    elements = bound.elements()
    for role, observed in bound.outputs().items():
        if role not in verdict.judgements or role not in verdict.expected or not observed.size:
            continue
        judgement, expected = verdict.judgements[role], verdict.expected[role]
        missing = unwritten_elements(bound, role, observed)
        seen = classify(observed, expected, judgement, element=elements[role], unwritten=missing)
        if not seen.wrong.any():
            continue
        codes = error_codes(seen, judgement.bound)
        name = bound.argument_of(role).spec.name
        letters = axis_letters(bound, role, observed.ndim)
        found.append(
            packed(bound.variant.name, bound.case.name, name, letters, seen.values, expected, codes, seen.wrong, room)
        )
    return found


def packed(
    variant: str,
    case: str,
    output: str,
    letters: str,
    observed: NDArray[np.float64],
    expected: NDArray[np.float64],
    codes: NDArray[np.uint8],
    wrong: NDArray[np.bool_],
    room: Room,
) -> maps.ErrorMap:
    """One output's map: matrices with the most wrong elements first in the queue for room, then in index order."""
    shape = codes.shape if codes.ndim >= 2 else (1, codes.size)
    rows, columns = shape[-2:]
    leads = shape[:-2]
    counts = wrong.reshape(-1, rows * columns).sum(axis=1)
    order = sorted(range(len(counts)), key=lambda one: (counts[one] == 0, one))
    kept = sorted(order[: room.coded // (rows * columns)])
    valued = order[: room.numbers // (rows * columns)]
    room.coded -= len(kept) * rows * columns
    room.numbers -= len(valued) * rows * columns
    numbers: maps.NumberFormat = "" if not valued else "f32" if codes.size <= MAX_EXACT else "f16"
    scale = _scale(observed, expected) if numbers == "f16" else 1.0
    flat = [array.reshape(len(counts), -1) for array in (codes, observed, expected)]
    planes = [
        maps.Plane(
            index=tuple(int(i) for i in np.unravel_index(number, leads)) if leads else (),
            wrong=int(counts[number]),
            error=_text(flat[0][number]),
            observed=_numbers(flat[1][number], numbers, scale) if number in valued else "",
            expected=_numbers(flat[2][number], numbers, scale) if number in valued else "",
        )
        for number in kept
    ]
    return maps.ErrorMap(
        variant, case, output, letters, rows, columns, numbers, scale, tuple(planes), len(counts) - len(kept)
    )


def _scale(*arrays: NDArray[np.float64]) -> float:
    """A power of two that brings the largest finite value below 2^15."""
    largest = max(float(np.abs(array, where=np.isfinite(array), out=np.zeros_like(array)).max()) for array in arrays)
    return float(2.0 ** (np.ceil(np.log2(largest)) - 15)) if largest > 0 else 1.0


def _numbers(values: NDArray[np.float64], numbers: maps.NumberFormat, scale: float) -> str:
    with np.errstate(over="ignore", invalid="ignore"):
        return _text((values / scale).astype("<f2" if numbers == "f16" else "<f4"))


def _text(array: NDArray[Any]) -> str:
    return base64.b64encode(zlib.compress(np.ascontiguousarray(array).tobytes(), 6)).decode("ascii")
