"""Values of inputs in which not every number means something."""

from __future__ import annotations

from wmmadiag.numerics.element_types import ElementType
from wmmadiag.ops.model import Drawn
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import Doubles


def _bits(shape: tuple[int, ...], _: ElementType, __: int, rng: np.random.Generator) -> Doubles:
    """Three ones for each zero, and ones first: no row is without a key, causal or not; but where it is not by keys."""
    values = (rng.random(shape) < 0.75).astype(np.float64)
    if shape[-1] > 1:
        values[..., 0] = 1.0
    return values


def _lengths(shape: tuple[int, ...], _: ElementType, keys: int, rng: np.random.Generator) -> Doubles:
    """Odd numbers from a quarter of the keys on, less than all, and different ones: no tile's size divides them.

    The longest has three quarters of the keys at least: loops over them have the turns that the sizes are chosen for.
    """
    odd = np.arange(keys // 4 | 1, max(keys, 2), 2)
    odd = odd if odd.size else np.ones(1, np.int64)
    count = int(np.prod(shape))
    chosen = rng.choice(odd, count, replace=count > odd.size)
    if count and chosen.max() < 3 * keys // 4:
        chosen[np.argmax(chosen)] = odd[-1]
    return chosen.reshape(shape).astype(np.float64)


def _slopes(shape: tuple[int, ...], _: ElementType, __: int, rng: np.random.Generator) -> Doubles:
    """2^(-8·(h + 1)/H) for head h of H, as ALiBi's authors have it, within a tenth: no two heads' are alike."""
    heads = shape[-1]
    return np.asarray(np.exp2(-8.0 * (np.arange(heads) + 1) / heads) * np.ones(shape)) * rng.uniform(0.9, 1.1, shape)


def _words(shape: tuple[int, ...], element: ElementType, _: int, rng: np.random.Generator) -> Doubles:
    """Every bit of an element of up to 32 bits is as often 0 as 1."""
    width = 8 * element.bytes
    low = 0 if element.kind == "uint" else -(1 << (width - 1))
    return rng.integers(low, low + (1 << width), shape).astype(np.float64)


def _zero_points(shape: tuple[int, ...], element: ElementType, extent: int, rng: np.random.Generator) -> Doubles:
    """Of four bits: several in a word, one in a number or a byte."""
    if element.is_float or element.bytes == 1:
        return rng.integers(0, 16, shape).astype(np.float64)
    return _words(shape, element, extent, rng)


def _indices(shape: tuple[int, ...], _: ElementType, extent: int, rng: np.random.Generator) -> Doubles:
    """Any of those that there are, the last one among them."""
    values = rng.integers(0, max(extent, 1), shape)
    values.reshape(-1)[:1] = max(extent, 1) - 1
    return values.astype(np.float64)


def indices(role: str, axis: int) -> Drawn:
    """Of what lies along an axis of another role."""
    return Drawn(_indices, role, axis)


def _positive(shape: tuple[int, ...], _: ElementType, __: int, rng: np.random.Generator) -> Doubles:
    """Squares of what is normal: means of squares are never negative."""
    return np.asarray(rng.standard_normal(shape) ** 2)


def _reciprocals(shape: tuple[int, ...], _: ElementType, __: int, rng: np.random.Generator) -> Doubles:
    """About 1, no two alike: of deviations of rows of normal values."""
    return rng.uniform(0.5, 1.5, shape)


def _weights(shape: tuple[int, ...], _: ElementType, __: int, rng: np.random.Generator) -> Doubles:
    """Positive, of 1 in the sum of a row in the mean: what a softmax gives."""
    return np.asarray(rng.exponential(1.0, shape) / max(shape[-1], 1))


def _of_bytes(shape: tuple[int, ...], _: ElementType, __: int, rng: np.random.Generator) -> Doubles:
    """About 1/127, no two alike: what rows of values near 1 are divided by to fill a byte."""
    return rng.uniform(0.5, 1.5, shape) / 127.0


def _beside_sums(shape: tuple[int, ...], element: ElementType, depth: int, rng: np.random.Generator) -> Doubles:
    """Normal, times four for each root of the depth: as large as sums of products of numbers of four bits are.

    Beside sums of bytes a bias near 1 is less than their rounding, and a kernel that forgets it would be right.
    """
    values = rng.standard_normal(shape) * 4.0 * np.sqrt(max(depth, 1))
    return np.asarray(values if element.is_float else np.rint(values))


def _log_sums(shape: tuple[int, ...], _: ElementType, keys: int, rng: np.random.Generator) -> Doubles:
    """About the logarithm of the sum of exponentials of so many normal scores, no two alike."""
    return np.asarray(np.log(max(keys, 1)) + rng.uniform(0.0, 1.0, shape))


BITS = Drawn(_bits)
BESIDE_SUMS = Drawn(_beside_sums, "a", -1)
LOG_SUMS = Drawn(_log_sums, "k", -2)
POSITIVE = Drawn(_positive)
RECIPROCALS = Drawn(_reciprocals)
WEIGHTS = Drawn(_weights)
KEY_COUNTS = Drawn(_lengths, "k", -2)
SLOPES = Drawn(_slopes)
SCALES_OF_BYTES = Drawn(_of_bytes)
WORDS = Drawn(_words)
ZERO_POINTS = Drawn(_zero_points)
