"""libcu++ under NVRTC: as it is with nvcc."""

from wmmadiag.compile.driver import compile_text
from wmmadiag.compile.options import CompileOptions

KERNEL = """#include <cooperative_groups.h>
__global__ void last(int* out) {
    cooperative_groups::this_grid().sync();
    *out = _CCCL_META_UNROLL_LIMIT;
}
"""


def test_lists_of_types_are_unrolled_as_with_nvcc_and_what_runs_is_the_same():
    ours = compile_text(KERNEL, "last.cu", use_cache=False).ptx
    its_own = CompileOptions(macros={"_CCCL_META_UNROLL_LIMIT": "16"})
    other = compile_text(KERNEL, "last.cu", its_own, use_cache=False).ptx
    assert ours != other
    assert other.count(", 16;") == 1
    assert ours == other.replace(", 16;", ", 10;")
