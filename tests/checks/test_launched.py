"""`Kernel.check`: findings of a launch without a card."""

from __future__ import annotations

import numpy as np
import pytest

import wmmadiag
from wmmadiag.errors import ConfigurationError

_SOURCE = """__global__ void sums(const float* x, float* out, int n) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    %s
    out[threadIdx.x] = s[threadIdx.x ^ 1] + %s;
}"""


def _kernel(barrier: str = "__syncthreads();", more: str = "0.0f") -> wmmadiag.Kernel:
    return wmmadiag.kernel(_SOURCE % (barrier, more))


def test_clean_and_computed() -> None:
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    assert _kernel().check(1, 64, x, out, 64) == ()
    assert out[0] == 1


def test_findings_at_their_lines() -> None:
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    found = _kernel("").check(1, 64, x, out, 64)
    assert {(one.check, one.place.line) for one in found} == {("races", 5)}
    found = _kernel(more="out[threadIdx.x]").check(1, 64, x, out, 64, fresh=("out",))
    assert {(one.check, one.kind, one.place.line) for one in found} == {("uninitialised", "output", 5)}
    assert _kernel(more="out[threadIdx.x]").check(1, 64, x, out, 64) == ()
    assert _kernel("").check(1, 64, x, out, 64, checks="memory,coverage") == ()


def test_a_part_of_an_array_that_holds_nothing_yet() -> None:
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    adds = _kernel(more="out[threadIdx.x]")
    (found,) = adds.check(1, 64, x, out, 64, fresh={"out": slice(48, None)})
    assert (found.check, found.place.line, found.count) == ("uninitialised", 5, 16)
    assert adds.check(1, 64, x, out, 64, fresh={"out": slice(64, None)}) == ()
    assert {one.kind for one in adds.check(1, 32, x, out.reshape(2, 32), 64, fresh={"out": slice(1)})} == {"output"}
    assert adds.check(1, 32, x, out.reshape(2, 32), 64, fresh={"out": slice(1, 2)}) == ()
    with pytest.raises(ConfigurationError, match="a step of 2"):
        adds.check(1, 64, x, out, 64, fresh={"out": slice(0, 64, 2)})


def test_a_launch_that_dies_is_a_finding() -> None:
    (died,) = _kernel().check(1, 64, np.zeros(64, np.float32), np.zeros(60, np.float32), 64)
    assert (died.check, died.kind, died.place.line) == ("launch", "out-of-bounds", 5)
    assert "past the end of out (240 bytes), which ends with out[59]" in " ".join(died.detail)


def test_what_does_not_fit() -> None:
    x = np.zeros(64, np.float32)
    with pytest.raises(ConfigurationError, match="no parameter 'o'"):
        _kernel().check(1, 64, x, x, 64, fresh=("o",))
    with pytest.raises(ConfigurationError, match="unknown check 'race'"):
        _kernel().check(1, 64, x, x, 64, checks="race")
    with pytest.raises(ConfigurationError, match="takes 3 arguments"):
        _kernel().check(1, 64, x)
