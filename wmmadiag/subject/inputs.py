"""Drawing input values from the named distributions, rounded to the types that the kernel reads.

Every distribution differs from row to row, column to column and head to head, so that a transposed, shifted or
repeated tile cannot go unseen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag.numerics.element_types import ElementType, storage_dtype
from wmmadiag.ops.model import Drawn, HardInput
from wmmadiag.ops.parts.hard_inputs import SCORES
from wmmadiag.ops.parts.rounding import Doubles
from wmmadiag.subject.distributions import INDEPENDENT

Tensor: TypeAlias = tuple[tuple[int, ...], ElementType]


def default_distribution(element: ElementType) -> str:
    """The distribution used when neither card nor case names one."""
    return "normal" if element.is_float else "uniform"


_LARGE = 32.0
"""Of some of them the exponential overflows where no maximum is taken away first."""
_KEPT_BYTES = 1 << 26
"""Of the tensors that are kept for the next draw."""
_kept: dict[tuple[object, ...], NDArray[Any]] = {}
"""The one used last is the last one."""
_keeping = Lock()


def draw(
    distribution: str,
    tensors: Mapping[str, Tensor],
    seed: int,
    overrides: Mapping[str, str] | None = None,
    hard: Mapping[str, HardInput] = SCORES,
) -> dict[str, NDArray[Any]]:
    """Doubles for every input tensor of a case.

    Args:
        distribution: a name in `DISTRIBUTIONS`, or "" for each type's default.
        tensors: logical shape and element type by role.
        seed: the same seed gives the same values, whatever else is drawn.
        overrides: distribution of single roles.
        hard: the operation's own distributions; what is none of its own draws normal values.

    Returns:
        By role, arrays of the role's storage dtype and logical shape.
    """
    chosen = {
        role: (overrides or {}).get(role) or _drawn(distribution, element, hard)
        for role, (_, element) in tensors.items()
    }
    plain = {role: one for role, one in tensors.items() if chosen[role] not in hard and _is_kept(*one)}
    found = {role: _plain(chosen[role], shape, element, seed, role).copy() for role, (shape, element) in plain.items()}
    values = {
        role: _INDEPENDENT.get(chosen[role], _normal)(shape, element, _generator(seed, role))
        for role, (shape, element) in tensors.items()
        if role not in plain
    }
    for name in dict.fromkeys(chosen.values()):
        if name in hard:
            hard[name].change({role: v for role, v in values.items() if chosen[role] == name}, _generator(seed, name))
    found |= {role: rounded(value, tensors[role][1]) for role, value in values.items()}
    return {role: found[role] for role in tensors}


def _drawn(distribution: str, element: ElementType, hard: Mapping[str, HardInput]) -> str:
    """The distribution of a tensor of which none is said by itself: what is hard for sums is nothing for integers."""
    own = default_distribution(element)
    return own if distribution in hard and not element.is_float else distribution or own


def _is_kept(shape: tuple[int, ...], element: ElementType) -> bool:
    return math.prod(shape) * storage_dtype(element).itemsize <= _KEPT_BYTES


def _plain(distribution: str, shape: tuple[int, ...], element: ElementType, seed: int, role: str) -> NDArray[Any]:
    """The values of one tensor."""
    made = partial(_INDEPENDENT.get(distribution, _normal), shape, element)
    key = (distribution, shape, element, seed, role)
    return kept(key, lambda: rounded(made(_generator(seed, role)), element))


def kept(key: tuple[object, ...], make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
    """What `make` gives, from an earlier call with the same key where it is still kept; nobody may write to it.

    A kernel is run many times on the same numbers: by each change that may mend it, in each reading of what it takes.
    """
    with _keeping:
        found = _kept.pop(key, None)
        if found is not None:
            _kept[key] = found
            return found
    made = make()
    with _keeping:
        _kept[key] = made
        while sum(one.nbytes for one in _kept.values()) > _KEPT_BYTES:
            del _kept[next(iter(_kept))]
    return made


def rounded(values: Doubles, element: ElementType) -> NDArray[Any]:
    """Float64 values rounded to nearest into an element type's storage; integers clipped to its range."""
    storage = storage_dtype(element)
    if not element.is_float:
        limits = np.iinfo(storage)
        return np.clip(np.rint(values), limits.min, limits.max).astype(storage)
    with np.errstate(over="ignore", under="ignore"):
        result = (values.astype(np.float32) if element.is_foreign else values).astype(storage)
    if element.name == "tf32":
        bits = result.view(np.uint32).astype(np.uint64)
        kept = (bits + 0xFFF + ((bits >> np.uint64(13)) & np.uint64(1))) & np.uint64(0xFFFFE000)
        result = kept.astype(np.uint32).view(np.float32)
    return result


def _generator(seed: int, name: str) -> np.random.Generator:
    # Keyed by name, so that one tensor's values do not depend on which others exist.
    return np.random.default_rng([seed, *name.encode()])


def _normal(shape: tuple[int, ...], element: ElementType, rng: np.random.Generator) -> Doubles:
    values = rng.standard_normal(shape)
    return values if element.is_float else np.rint(values * min(element.largest / 4, 1000.0))


def _uniform(shape: tuple[int, ...], element: ElementType, rng: np.random.Generator) -> Doubles:
    if element.is_float:
        return rng.uniform(-1.0, 1.0, shape)
    # Wider integers only meet sums of products, which must not overflow by themselves.
    high = int(min(element.largest, 1000.0))
    low = 0 if element.kind == "uint" else -high - (1 if high < 1000 else 0)
    return rng.integers(low, high, shape, endpoint=True).astype(np.float64)


def _positive(shape: tuple[int, ...], element: ElementType, rng: np.random.Generator) -> Doubles:
    if element.is_float:
        return rng.uniform(0.25, 1.0, shape)
    return rng.integers(1, int(min(element.largest, 1000.0)), shape, endpoint=True).astype(np.float64)


def _small_integers(shape: tuple[int, ...], element: ElementType, rng: np.random.Generator) -> Doubles:
    return rng.integers(0 if element.kind == "uint" else -4, 4, shape, endpoint=True).astype(np.float64)


def _large(shape: tuple[int, ...], element: ElementType, rng: np.random.Generator) -> Doubles:
    return _LARGE * _normal(shape, element, rng) if element.is_float else _uniform(shape, element, rng)


def _wide_exponents(shape: tuple[int, ...], element: ElementType, rng: np.random.Generator) -> Doubles:
    if not element.is_float:
        return _uniform(shape, element, rng)
    # A product of two stays finite and normal in f16, a sum of 1000 of them below 65504.
    low, high = (-8, 3) if element.name == "f16" else (-12, 6)
    return np.asarray(np.exp2(rng.uniform(low, high, shape)) * rng.choice([-1.0, 1.0], shape))


def _indexed(shape: tuple[int, ...], element: ElementType, rng: np.random.Generator) -> Doubles:
    count = int(np.prod(shape))
    turn = np.modf((np.arange(count) + float(rng.integers(1, 997))) * 0.6180339887498949)[0].reshape(shape)
    return np.asarray(2.0 * turn - 1.0 if element.is_float else np.rint(turn * min(element.largest, 1000.0)))


def draw_meaningful(drawn: Drawn, role: str, tensor: Tensor, extent: int, seed: int) -> NDArray[Any]:
    """Doubles of a role of which `Role.drawn` says what they are, as its storage holds them.

    Args:
        extent: that along which they count.
    """
    shape, element = tensor
    return rounded(drawn.values(shape, element, extent, _generator(seed, role)), element)


_INDEPENDENT: Mapping[str, Callable[[tuple[int, ...], ElementType, np.random.Generator], Doubles]] = {
    "normal": _normal,
    "uniform": _uniform,
    "positive": _positive,
    "small_integers": _small_integers,
    "wide_exponents": _wide_exponents,
    "large": _large,
    "indexed": _indexed,
}

assert set(_INDEPENDENT) == set(INDEPENDENT), "distributions.py and inputs.py disagree"
