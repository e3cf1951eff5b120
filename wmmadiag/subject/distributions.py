"""The named input distributions: names and meanings; `inputs.py` draws from them."""

from __future__ import annotations

from collections.abc import Mapping

from wmmadiag.ops import OPERATIONS

INDEPENDENT: Mapping[str, str] = {
    "normal": "independent, standard normal",
    "uniform": "independent, uniform in [-1, 1); integers over the type's whole range",
    "positive": "independent, uniform in [0.25, 1): no cancellation, a missing term always shows",
    "small_integers": "integers in -4 … 4: most sums are exact in every type",
    "wide_exponents": "signs, significands and exponents independent over a wide range",
    "large": "independent, normal with a standard deviation of 32; integers as without a name",
    "indexed": "every element's value tells its index: distinct in every row, column and head",
}

HARD: Mapping[str, str] = {
    name: one.meaning for operation in OPERATIONS.values() for name, one in operation.hard_inputs.items()
}
"""Those that are hard for some operations, and like "normal" for all others."""

DISTRIBUTIONS: Mapping[str, str] = {**INDEPENDENT, **HARD}
