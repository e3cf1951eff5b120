"""A kernel for CuTe DSL: what `cute_add.ptx` beside this was made from."""

import cutlass
from cutlass import cute
from cutlass.cute.runtime import make_ptr


@cute.kernel
def add_kernel(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, n: cutlass.Int32):
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    bdim, _, _ = cute.arch.block_dim()
    i = bidx * bdim + tidx
    if i < n:
        c[i] = a[i] + b[i]


@cute.jit
def add(a: cute.Pointer, b: cute.Pointer, c: cute.Pointer, n: cutlass.Int32):
    layout = cute.make_layout(n)
    tensors = [cute.make_tensor(one, layout) for one in (a, b, c)]
    add_kernel(*tensors, n).launch(grid=((n + 127) // 128, 1, 1), block=(128, 1, 1))


def compiled():
    pointers = [make_ptr(cutlass.Float32, 16, cute.AddressSpace.gmem, assumed_align=16) for _ in range(3)]
    return cute.compile(add, *pointers, cutlass.Int32(1000))
