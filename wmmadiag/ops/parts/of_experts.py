"""What products with one of several matrices have in common: scales of rows and of each matrix's columns."""

from __future__ import annotations

from collections.abc import Mapping

from wmmadiag.numerics.element_types import ElementType
from wmmadiag.ops.model import Arrays, Role
from wmmadiag.ops.parts.drawn import SCALES_OF_BYTES
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import Arithmetic, Doubles, magnitudes, product_error

SCALES: Mapping[str, Role] = {
    "a_scales": Role(
        "M",
        required=False,
        element="float",
        drawn=SCALES_OF_BYTES,
        spellings="ascales ascale scalea scalesa xscale xscales sa sx tokenscale tokenscales actscale actscales "
        "inputscale inputscales",
    ),
    "b_scales": Role(
        "GN",
        required=False,
        element="float",
        drawn=SCALES_OF_BYTES,
        spellings="bscales bscale scaleb scalesb wscale wscales sb sw weightscale weightscales channelscales",
    ),
}
"""Of products of bytes: one for each row of A, and one for each column of each matrix."""


def starts(shape: tuple[int, ...], _: ElementType, rows: int, rng: np.random.Generator) -> Doubles:
    """Where matrices' rows begin, then the number of rows: of different lengths, one empty if there are three."""
    groups = shape[-1] - 1
    cuts = np.sort(rng.integers(0, rows, groups - 1, endpoint=True))
    if groups > 2:
        cuts[groups // 2] = cuts[groups // 2 - 1]
    return np.concatenate([[0], cuts, [rows]]).astype(np.float64)


def scaled(inputs: Arrays) -> tuple[Doubles, Doubles]:
    """A, (M, K), and the matrices, (G, K, N), each times its scales where there are any."""
    a, b = inputs["a"].astype(np.float64), inputs["b"].astype(np.float64)
    b = b if b.ndim == 3 else b[None]
    if "a_scales" in inputs:
        a = a * inputs["a_scales"].astype(np.float64)[:, None]
    if "b_scales" in inputs:
        b = b * inputs["b_scales"].astype(np.float64).reshape(len(b), 1, -1)
    return a, b


def sizes_of(inputs: Arrays, *further: str) -> Arrays:
    """The inputs with the magnitudes of all that is multiplied in their place."""
    return {**inputs} | {role: magnitudes(inputs[role]) for role in {"a", "b", *SCALES, *further} & set(inputs)}


def relative_error(inputs: Arrays, model: Arithmetic, further: int = 0) -> tuple[float, float]:
    """The error of a product relative to Σ|a||b| with all scales, and the absolute one.

    A sum of K products as everywhere, of integers exact; the conversion of a whole sum, both scales' product and their
    products with the sum cost four units. What is flushed is that much of the largest scales.
    """
    there = [role for role in SCALES if role in inputs]
    product = product_error(inputs["a"].shape[-1], model, further)
    relative = 0.0 if model.exact else product.relative
    largest = max([1.0, *(float(np.abs(inputs[role].astype(np.float64)).max(initial=0.0)) for role in there)])
    return relative + 4.0 * bool(there) * model.unit, product.absolute * largest ** len(there)
