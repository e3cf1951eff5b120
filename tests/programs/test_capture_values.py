"""What a captured card says of an input's values."""

from __future__ import annotations

import numpy as np
import pytest

from wmmadiag.programs.capture import recorded


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (np.full(9, 2.5, np.float32), "2.5"),
        (np.arange(6, dtype=np.float16) * 0.5 + 1, "1.0 + 0.5*i"),
        (np.arange(5, dtype=np.int32), "0 + 1*i"),
        (np.array([3, 1, 2], np.int32), [3, 1, 2]),
        (np.arange(12, dtype=np.float32) % 3, [0.0, 1.0, 2.0] * 4),
        (np.random.default_rng(1).normal(size=64).astype(np.float32), None),
        (np.array([1.0, np.nan], np.float32), None),
    ],
)
def test_values_that_are_not_random_are_kept(data: np.ndarray, said: object) -> None:
    assert recorded(data).get("values") == said


def test_values_that_cannot_be_listed_are_named() -> None:
    assert "not random" in recorded(np.arange(10_000, dtype=np.float32) % 7)["unsaid"]
