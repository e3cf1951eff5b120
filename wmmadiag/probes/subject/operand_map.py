"""Every element of an operand holds its own index, and the other operand selects them one by one: the output tells
which element the kernel reads at each place.

A transposed operand, another leading dimension, a shifted or lost tile are seen as such, not as wrong sums.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wmmadiag.ops.parts.scores import as_heads
from wmmadiag.probes.subject.effective_operands import NOTHING, SEVERAL, effective_operands
from wmmadiag.probes.subject.model import PRODUCTS, Conclusion, Subject, SubjectProbe

Map = NDArray[np.int64]

_MOST = 1 << 16
"""Elements of an operand: more take more launches than a probe is worth."""


def run(subject: Subject) -> Conclusion | None:
    """Both operands' maps."""
    if any(subject.inputs[role].size > _MOST for role in _roles(subject.operation)) or _unusable(subject):
        return None
    found = effective_operands(subject.outputs, subject.bound, subject.output)
    lines: list[str] = []
    supports: list[str] = []
    detail: list[str] = []
    for role, seen in found.items():
        want = _expected(subject, role, seen)
        wrong = seen != want
        if not wrong.any():
            continue
        words, ids = _pattern(seen, want, wrong)
        lines.append(f"{role.upper()} {words}")
        supports += ids
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        what = {NOTHING: "nothing", SEVERAL: "a sum or garbage"}.get(int(seen[place]), f"element {seen[place]}")
        detail.append(
            f"{role}: {int(wrong.sum())} of {wrong.size} places wrong, the first {place}: {what} instead of "
            f"element {want[place]}"
        )
    if not lines:
        return Conclusion("right", "index-coded operands: the kernel reads every element of both at its own place")
    return Conclusion(
        "wrong", "index-coded operands: " + "; ".join(lines), tuple(dict.fromkeys(supports)), tuple(detail)
    )


def _roles(operation: str) -> tuple[str, str]:
    return {"gemm": ("a", "b"), "qkt": ("q", "k"), "pv": ("p", "v")}[operation]


def _unusable(subject: Subject) -> bool:
    """Whether a factor of the product is 0, so that nothing shows, or an activation bends what shows."""
    p = subject.parameters
    bent = p.get("activation", "none") not in ("none", "relu")
    if bent or (p.get("activation") == "relu" and float(p["alpha"]) < 0):
        return True
    return float(p.get("alpha", p.get("scale", 1.0))) == 0


def _expected(subject: Subject, role: str, seen: Map) -> Map:
    """The map of a right kernel: each place holds its own element."""
    p, shape = subject.parameters, subject.inputs[role].shape
    flat = as_heads(np.arange(int(np.prod(shape))).reshape(shape))
    if (subject.operation == "qkt" and role == "k") or (subject.operation == "gemm" and p[f"transpose_{role}"]):
        flat = flat.swapaxes(-1, -2)
    if flat.shape[1] != seen.shape[1]:  # grouped heads
        flat = np.repeat(flat, seen.shape[1] // flat.shape[1], axis=1)
    return np.broadcast_to(flat, seen.shape)


def _pattern(seen: Map, want: Map, wrong: NDArray[np.bool_]) -> tuple[str, tuple[str, ...]]:
    """What kind of wrong map it is, and the names of causes that would look like it."""
    share = f"{int(wrong.sum())} of {wrong.size} places"
    if (seen[wrong] == NOTHING).all():
        return f"is not read at {share}", ("loop-extent", "launch", "accumulation")
    if (seen[wrong] == SEVERAL).all():
        return f"gives sums or garbage at {share}", ("statement", "accumulation")
    rows, columns = seen.shape[-2:]
    if rows == columns and np.array_equal(seen, want.swapaxes(-1, -2)):
        return "is read transposed", ("layout",)
    base = want[..., :1, :1]
    single = wrong & (seen >= 0)
    if single.sum() > wrong.sum() // 2:
        # Lines that start at another pitch: element (r, c) is at r·pitch + c.
        line = np.arange(rows)[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            pitch = (seen - base - np.arange(columns)) / np.where(line > 0, line, np.nan)
        values = pitch[single & (line > 0)]
        if values.size and np.ptp(values) == 0:
            return f"is read with rows {values[0]:g} elements apart, at {share}", ("leading-dimension", "stride")
        heads = seen // (want[0, 0].size or 1) != want // (want[0, 0].size or 1)
        if heads[single].all() and seen.shape[0] * seen.shape[1] > 1:
            return f"is read from another head at {share}", ("stride",)
        return f"is read from other places at {share}", ("layout", "leading-dimension", "index")
    return f"is wrong at {share}", ()


PROBE = SubjectProbe("operand-map", "index-coded operands: which element is read at each place?", PRODUCTS, run)
