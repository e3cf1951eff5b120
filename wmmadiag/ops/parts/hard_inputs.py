"""Inputs that stress a softmax: scores of queries and keys, or rows that are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from wmmadiag.errors import ConfigurationError
from wmmadiag.ops.model import HardInput
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import Doubles

# Score range: exp(-20) is 2e-9, far below any P that matters.
_PEAK = 20.0


def _scored(values: dict[str, Doubles]) -> tuple[Doubles, Doubles] | None:
    """Queries [..., Hq, M, D] and keys [..., Hk, N, D] whose products are scores; None where there are none.

    Raises:
        ConfigurationError: they are stored otherwise, as those of somebody's own reference may be.
    """
    if "q" not in values or "k" not in values:
        return None
    q, k = values["q"], values["k"]
    heads = (q.shape[-3], k.shape[-3]) if q.ndim == k.ndim > 2 else (1, 1)
    if (
        q.ndim != k.ndim
        or q.ndim < 2
        or q.shape[:-3] != k.shape[:-3]
        or q.shape[-1] != k.shape[-1]
        or heads[0] % heads[1]
    ):
        raise ConfigurationError(
            f"q is {list(q.shape)} and k {list(k.shape)}: which rows make a score is not known",
            hint="hard inputs need q […, heads, M, D] and k […, heads, N, D]; take another distribution: normal",
        )
    return q, k


def _ramp(values: dict[str, Doubles], rng: np.random.Generator, profile: Callable[[int], Doubles]) -> None:
    """Give queries a common direction, and keys a component along it that follows `profile` (0 … 1)."""
    scored = _scored(values)
    if scored is not None:
        q, k = scored
        width = q.shape[-1]
        direction = rng.choice([-1.0, 1.0], width)
        q *= 0.25
        q += direction
        k *= 0.5
        # After the usual 1/√D the scores reach _PEAK.
        k += (profile(k.shape[-2])[:, None] * (_PEAK / np.sqrt(width))) * direction
    if "x" in values:
        values["x"] *= 0.5
        values["x"] += profile(values["x"].shape[-1]) * _PEAK


def _growing_max(values: dict[str, Doubles], rng: np.random.Generator) -> None:
    _ramp(values, rng, lambda count: np.arange(1, count + 1) / count)


def _late_max(values: dict[str, Doubles], rng: np.random.Generator) -> None:
    _ramp(values, rng, lambda count: (np.arange(count) >= count - max(1, count // 20)).astype(np.float64))


def _spike(values: dict[str, Doubles], rng: np.random.Generator) -> None:
    scored = _scored(values)
    if scored is not None:
        q, k = scored
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


_OF = frozenset({"q", "k"}), frozenset({"x"})

SCORES: Mapping[str, HardInput] = {
    "growing_max": HardInput(
        "scores that grow with the key, so that an online softmax rescales at every tile", _growing_max, _OF
    ),
    "late_max": HardInput("the last keys have by far the largest scores", _late_max, _OF),
    "spike": HardInput("one key per query dominates, each at another place", _spike, _OF),
}
"""Of q and k, or of x."""
