"""Kernels for numba-cuda: what the `numba_*.ptx` beside this were made from."""

import math

from numba import cuda, float32


def axpy(r, a, x, y):
    i = cuda.grid(1)
    if i < r.size:
        r[i] = a * x[i] + y[i]


def row_softmax(x, y):
    row = cuda.blockIdx.x
    tid = cuda.threadIdx.x
    s = cuda.shared.array(128, float32)
    n = x.shape[1]
    m = float32(-1e30)
    j = tid
    while j < n:
        m = max(m, x[row, j])
        j += 128
    s[tid] = m
    cuda.syncthreads()
    k = 64
    while k > 0:
        if tid < k:
            s[tid] = max(s[tid], s[tid + k])
        cuda.syncthreads()
        k //= 2
    m = s[0]
    cuda.syncthreads()
    t = float32(0)
    j = tid
    while j < n:
        t += math.exp(x[row, j] - m)
        j += 128
    s[tid] = t
    cuda.syncthreads()
    k = 64
    while k > 0:
        if tid < k:
            s[tid] = s[tid] + s[tid + k]
        cuda.syncthreads()
        k //= 2
    t = s[0]
    j = tid
    while j < n:
        y[row, j] = math.exp(x[row, j] - m) / t
        j += 128
