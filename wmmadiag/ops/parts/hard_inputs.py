"""Inputs that stress a softmax: scores of queries and keys, or rows that are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from wmmadiag.ops.model import HardInput
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import Doubles

# Score range: exp(-20) is 2e-9, far below any P that matters.
_PEAK = 20.0


def _ramp(values: dict[str, Doubles], rng: np.random.Generator, profile: Callable[[int], Doubles]) -> None:
    """Give queries a common direction, and keys a component along it that follows `profile` (0 … 1)."""
    if "q" in values and "k" in values:
        width = values["q"].shape[-1]
        direction = rng.choice([-1.0, 1.0], width)
        values["q"] *= 0.25
        values["q"] += direction
        values["k"] *= 0.5
        # After the usual 1/√D the scores reach _PEAK.
        values["k"] += (profile(values["k"].shape[-2])[:, None] * (_PEAK / np.sqrt(width))) * direction
    if "x" in values:
        values["x"] *= 0.5
        values["x"] += profile(values["x"].shape[-1]) * _PEAK


def _growing_max(values: dict[str, Doubles], rng: np.random.Generator) -> None:
    _ramp(values, rng, lambda count: np.arange(1, count + 1) / count)


def _late_max(values: dict[str, Doubles], rng: np.random.Generator) -> None:
    _ramp(values, rng, lambda count: (np.arange(count) >= count - max(1, count // 20)).astype(np.float64))


def _spike(values: dict[str, Doubles], rng: np.random.Generator) -> None:
    if "q" in values and "k" in values:
        q, k = values["q"], values["k"]
        rows = rng.permutation(q.shape[-2]) % k.shape[-2]
        group = q.shape[-3] // k.shape[-3] if q.ndim > 2 else 1
        heads = np.repeat(k, group, axis=-3) if group > 1 else k
        target = heads[..., rows, :]
        # q·k for the chosen key is _PEAK·√D, so its scaled score is _PEAK.
        norm = np.maximum(np.sum(target * target, axis=-1, keepdims=True), 1e-3)
        q *= 0.25
        q += target * (_PEAK * np.sqrt(q.shape[-1]) / norm)
    if "x" in values:
        x = values["x"]
        columns = rng.integers(0, x.shape[-1], x.shape[:-1])
        np.put_along_axis(x, columns[..., None], _PEAK, axis=-1)


SCORES: Mapping[str, HardInput] = {
    "growing_max": HardInput(
        "scores that grow with the key, so that an online softmax rescales at every tile", _growing_max
    ),
    "late_max": HardInput("the last keys have by far the largest scores", _late_max),
    "spike": HardInput("one key per query dominates, each at another place", _spike),
}
"""Of q and k, or of x."""
