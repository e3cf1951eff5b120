"""What a source asserts of its own numbers holds, or the source does not compile."""

from __future__ import annotations

import pytest

from wmmadiag.api import compile_cuda
from wmmadiag.errors import CompileError

SOURCE = """
#include <vector>
constexpr int D = HEAD_DIM;
static_assert(D == 32 || D == 64, "HEAD_DIM must be 32 or 64");
static_assert(sizeof(std::vector<int>) > 0, "of the host alone");
__global__ void k(float* x) { x[threadIdx.x] = D; }
"""


@pytest.mark.parametrize("size", [32, 64])
def test_one_that_holds(size):
    assert compile_cuda(SOURCE, macros={"HEAD_DIM": size}).entries


def test_one_that_does_not(tmp_path):
    with pytest.raises(CompileError, match="HEAD_DIM must be 32 or 64") as told:
        compile_cuda(SOURCE, macros={"HEAD_DIM": 96})
    assert told.value.place is not None and told.value.place.line == 4
