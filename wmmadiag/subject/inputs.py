"""Drawing input values from the named distributions, rounded to the types that the kernel reads.

Every distribution differs from row to row, column to column and head to head, so that a transposed, shifted or
repeated tile cannot go unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag.subject.distributions import DISTRIBUTIONS
from wmmadiag.subject.dtypes import ElementType, storage_dtype

Values: TypeAlias = NDArray[np.float64]
Tensor: TypeAlias = tuple[tuple[int, ...], ElementType]

# Score range of the distributions that stress the softmax: exp(-20) is 2e-9, far below any P that matters.
_PEAK = 20.0


def default_distribution(element: ElementType) -> str:
    """The distribution used when neither card nor case names one."""
    return "normal" if element.is_float else "uniform"


def draw(
    distribution: str, tensors: Mapping[str, Tensor], seed: int, overrides: Mapping[str, str] | None = None
) -> dict[str, NDArray[Any]]:
    """Values for every input tensor of a case.

    Args:
        distribution: a name in `DISTRIBUTIONS`, or "" for each type's default.
        tensors: logical shape and element type by role.
        seed: the same seed gives the same values, whatever else is drawn.
        overrides: distribution of single roles.

    Returns:
        By role, arrays of the role's storage dtype and logical shape.
    """
    chosen = {
        role: (overrides or {}).get(role) or distribution or default_distribution(element)
        for role, (_, element) in tensors.items()
    }
    values = {
        role: _INDEPENDENT.get(chosen[role], _normal)(shape, element, _generator(seed, role))
        for role, (shape, element) in tensors.items()
    }
    for name in dict.fromkeys(chosen.values()):
        if name in _COUPLED:
            _COUPLED[name]({role: v for role, v in values.items() if chosen[role] == name}, _generator(seed, name))
    return {role: rounded(value, tensors[role][1]) for role, value in values.items()}


def rounded(values: Values, element: ElementType) -> NDArray[Any]:
    """Float64 values rounded to nearest into an element type's storage; integers clipped to its range."""
    storage = storage_dtype(element)
    if not element.is_float:
        limits = np.iinfo(storage)
        return np.clip(np.rint(values), limits.min, limits.max).astype(storage)
    with np.errstate(over="ignore", under="ignore"):
        result = values.astype(np.float32).astype(storage) if element.storage == "bfloat16" else values.astype(storage)
    if element.name == "tf32":
        bits = result.view(np.uint32).astype(np.uint64)
        kept = (bits + 0xFFF + ((bits >> np.uint64(13)) & np.uint64(1))) & np.uint64(0xFFFFE000)
        result = kept.astype(np.uint32).view(np.float32)
    return result


def _generator(seed: int, name: str) -> np.random.Generator:
    # Keyed by name, so that one tensor's values do not depend on which others exist.
    return np.random.default_rng([seed, *name.encode()])


def _normal(shape: tuple[int, ...], element: ElementType, rng: np.random.Generator) -> Values:
    values = rng.standard_normal(shape)
    return values if element.is_float else np.rint(values * min(element.largest / 4, 1000.0))


def _uniform(shape: tuple[int, ...], element: ElementType, rng: np.random.Generator) -> Values:
    if element.is_float:
        return rng.uniform(-1.0, 1.0, shape)
    # Wider integers only meet sums of products, which must not overflow by themselves.
    high = int(min(element.largest, 1000.0))
    low = 0 if element.kind == "uint" else -high - (1 if high < 1000 else 0)
    return rng.integers(low, high, shape, endpoint=True).astype(np.float64)


def _positive(shape: tuple[int, ...], element: ElementType, rng: np.random.Generator) -> Values:
    if element.is_float:
        return rng.uniform(0.25, 1.0, shape)
    return rng.integers(1, int(min(element.largest, 1000.0)), shape, endpoint=True).astype(np.float64)


def _small_integers(shape: tuple[int, ...], element: ElementType, rng: np.random.Generator) -> Values:
    return rng.integers(0 if element.kind == "uint" else -4, 4, shape, endpoint=True).astype(np.float64)


def _wide_exponents(shape: tuple[int, ...], element: ElementType, rng: np.random.Generator) -> Values:
    if not element.is_float:
        return _uniform(shape, element, rng)
    # A product of two stays finite and normal in f16, a sum of 1000 of them below 65504.
    low, high = (-8, 3) if element.name == "f16" else (-12, 6)
    return np.asarray(np.exp2(rng.uniform(low, high, shape)) * rng.choice([-1.0, 1.0], shape))


def _indexed(shape: tuple[int, ...], element: ElementType, rng: np.random.Generator) -> Values:
    count = int(np.prod(shape))
    turn = np.modf((np.arange(count) + float(rng.integers(1, 997))) * 0.6180339887498949)[0].reshape(shape)
    return np.asarray(2.0 * turn - 1.0 if element.is_float else np.rint(turn * min(element.largest, 1000.0)))


def _bits(shape: tuple[int, ...], _: int, rng: np.random.Generator) -> Values:
    """Three ones for each zero, and ones first: no row is without a key, causal or not."""
    values = (rng.random(shape) < 0.75).astype(np.float64)
    values[..., 0] = 1.0
    return values


def _lengths(shape: tuple[int, ...], keys: int, rng: np.random.Generator) -> Values:
    """Odd numbers from a quarter of the keys on, less than all, and different ones: no tile's size divides them."""
    odd = np.arange(keys // 4 | 1, max(keys, 2), 2)
    odd = odd if odd.size else np.ones(1, np.int64)
    count = int(np.prod(shape))
    return rng.choice(odd, count, replace=count > odd.size).reshape(shape).astype(np.float64)


def _slopes(shape: tuple[int, ...], _: int, rng: np.random.Generator) -> Values:
    """2^(-8·(h + 1)/H) for head h of H, as ALiBi's authors have it, within a tenth: no two heads' are alike."""
    heads = shape[-1]
    return np.asarray(np.exp2(-8.0 * (np.arange(heads) + 1) / heads) * np.ones(shape)) * rng.uniform(0.9, 1.1, shape)


MEANINGFUL: Mapping[str, Callable[[tuple[int, ...], int, np.random.Generator], Values]] = {
    "bits": _bits,
    "lengths": _lengths,
    "slopes": _slopes,
}
"""Values of inputs in which not every number means something: (shape, number of keys, generator) → values."""


def draw_meaningful(kind: str, role: str, tensor: Tensor, keys: int, seed: int) -> NDArray[Any]:
    """Values of a role whose `Role.drawn` is `kind`, as its storage holds them."""
    shape, element = tensor
    return rounded(MEANINGFUL[kind](shape, keys, _generator(seed, role)), element)


_INDEPENDENT: Mapping[str, Callable[[tuple[int, ...], ElementType, np.random.Generator], Values]] = {
    "normal": _normal,
    "uniform": _uniform,
    "positive": _positive,
    "small_integers": _small_integers,
    "wide_exponents": _wide_exponents,
    "indexed": _indexed,
}


def _ramp(values: dict[str, Values], rng: np.random.Generator, profile: Callable[[int], Values]) -> None:
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


def _growing_max(values: dict[str, Values], rng: np.random.Generator) -> None:
    _ramp(values, rng, lambda count: np.arange(1, count + 1) / count)


def _late_max(values: dict[str, Values], rng: np.random.Generator) -> None:
    _ramp(values, rng, lambda count: (np.arange(count) >= count - max(1, count // 20)).astype(np.float64))


def _spike(values: dict[str, Values], rng: np.random.Generator) -> None:
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


_COUPLED: Mapping[str, Callable[[dict[str, Values], np.random.Generator], None]] = {
    "growing_max": _growing_max,
    "late_max": _late_max,
    "spike": _spike,
}

assert {*_INDEPENDENT, *_COUPLED} == set(DISTRIBUTIONS), "distributions.py and inputs.py disagree"
