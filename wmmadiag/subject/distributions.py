"""The named input distributions: names and meanings; `inputs.py` draws from them. Needs no NumPy."""

from __future__ import annotations

from collections.abc import Mapping

DISTRIBUTIONS: Mapping[str, str] = {
    "normal": "independent, standard normal",
    "uniform": "independent, uniform in [-1, 1); integers over the type's whole range",
    "positive": "independent, uniform in [0.25, 1): no cancellation, a missing term always shows",
    "small_integers": "integers in -4 … 4: most sums are exact in every type",
    "wide_exponents": "signs, significands and exponents independent over a wide range",
    "growing_max": "scores that grow with the key, so that an online softmax rescales at every tile",
    "late_max": "the last keys have by far the largest scores",
    "spike": "one key per query dominates, each at another place",
    "indexed": "every element's value tells its index: distinct in every row, column and head",
}
