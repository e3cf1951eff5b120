"""Comparing the arrays of two runs."""

from __future__ import annotations

import numpy as np

from wmmadiag.backends.differential.reasons import differences


def test_bits_count_and_not_values() -> None:
    ours = {0: np.array([0.0, np.nan, 1.0], np.float32), 2: np.arange(4)}
    theirs = {0: np.array([-0.0, np.nan, 2.0], np.float32), 2: np.arange(4)}
    (found,) = differences(ours, theirs, {0: "o", 2: "n"})
    assert (found.count, found.total, found.first, found.byte, found.item) == (2, 3, 0, 0, 4)
    assert str(found) == (
        "o: 2 of 3 elements differ; the first, o[0], "
        "is 0.0 (0x00000000) on the emulator and -0.0 (0x80000000) on the GPU"
    )


def test_equal_runs() -> None:
    arrays = {0: np.array([np.nan, 1.0])}
    assert differences(arrays, {0: arrays[0].copy()}, {0: "o"}) == ()
