#pragma once
// Causal multi-head attention forward on a packed qkv tensor, tensor cores through nvcuda::wmma.
//
// qkv  : (B, T, 3, NH, HS) half, i.e. every token has a row of 3*C values, C = NH * HS
// preatt : (B, NH, T, T) float, att : (B, NH, T, T) half
// out  : (B, T, C) float
// T % 16 == 0 and HS % 16 == 0

#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

namespace attn {

using namespace nvcuda::wmma;
constexpr int TS = 16;  // tile size

// grid (T/16, T/16, B*NH), one warp per block. Tiles above the diagonal are never needed.
__global__ void qk_forward_kernel(float* preatt, const half* qkv, int T, int NH, int HS) {
    const int tc = blockIdx.x, tr = blockIdx.y;
    if (tc > tr) return;
    const int b = blockIdx.z / NH, h = blockIdx.z % NH;
    const int C = NH * HS;
    const int C3 = 3 * C;
    const half* q = qkv + ((size_t)b * T + tr * TS) * C3 + h * HS;
    const half* k = qkv + ((size_t)b * T + tc * TS) * C3 + h * HS + C;

    fragment<matrix_a, TS, TS, TS, half, row_major> qf;
    fragment<matrix_b, TS, TS, TS, half, col_major> kf;
    fragment<accumulator, TS, TS, TS, float> sf;
    fill_fragment(sf, 0.0f);
    for (int i = 0; i < HS; i += TS) {
        load_matrix_sync(qf, q + i, C3);
        load_matrix_sync(kf, k + i, C3);
        mma_sync(sf, qf, kf, sf);
    }
    float* dst = preatt + ((size_t)blockIdx.z * T + tr * TS) * T + tc * TS;
    store_matrix_sync(dst, sf, T, mem_row_major);
}

// one warp per row (b, h, t): softmax over 0..t, zeros up to the end of the diagonal tile.
__global__ void causal_softmax_kernel(half* att, const float* preatt, float scale, int T, int rows) {
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const int lane = threadIdx.x % 32;
    if (row >= rows) return;
    const int t = row % T;
    const float* x = preatt + (size_t)row * T;
    half* y = att + (size_t)row * T;

    float m = -INFINITY;
    for (int i = lane; i <= t; i += 32) m = fmaxf(m, x[i]);
    for (int o = 16; o > 0; o /= 2) m = fmaxf(m, __shfl_xor_sync(0xFFFFFFFFu, m, o));

    float s = 0.0f;
    for (int i = lane; i <= t; i += 32) s += __expf(scale * (x[i] - m));
    for (int o = 16; o > 0; o /= 2) s += __shfl_xor_sync(0xFFFFFFFFu, s, o);

    const float norm = 1.0f / s;
    const int end = (t / TS + 1) * TS;
    for (int i = lane; i < end; i += 32)
        y[i] = i <= t ? __float2half(__expf(scale * (x[i] - m)) * norm) : __float2half(0.0f);
}

// grid (HS/16, T/16, B*NH), one warp per block
__global__ void av_forward_kernel(float* out, const half* att, const half* qkv, int T, int NH, int HS) {
    const int tc = blockIdx.x, tr = blockIdx.y;
    const int b = blockIdx.z / NH, h = blockIdx.z % NH;
    const int C = NH * HS;
    const int C3 = 3 * C;
    const half* p = att + ((size_t)blockIdx.z * T + tr * TS) * T;
    const half* v = qkv + (size_t)b * T * C3 + 2 * C + h * HS + tc * TS;

    fragment<matrix_a, TS, TS, TS, half, row_major> pf;
    fragment<matrix_b, TS, TS, TS, half, row_major> vf;
    fragment<accumulator, TS, TS, TS, float> of;
    fill_fragment(of, 0.0f);
    for (int j = 0; j <= tr; j++) {
        load_matrix_sync(pf, p + j * TS, T);
        load_matrix_sync(vf, v + (size_t)j * TS * C3, C3);
        mma_sync(of, pf, vf, of);
    }
    // heads are concatenated again: (B, T, NH, HS)
    float* dst = out + ((size_t)b * T + tr * TS) * C + h * HS + tc * TS;
    store_matrix_sync(dst, of, C, mem_row_major);
}

inline void attention_forward(float* out, float* preatt, half* att, const half* qkv, int B, int T, int C, int NH,
                              cudaStream_t stream = 0) {
    const int HS = C / NH;
    const int rows = B * NH * T;
    const int block = 256;
    qk_forward_kernel<<<dim3(T / TS, T / TS, B * NH), 32, 0, stream>>>(preatt, qkv, T, NH, HS);
    causal_softmax_kernel<<<(rows * 32 + block - 1) / block, block, 0, stream>>>(att, preatt, 1.0f / sqrtf((float)HS),
                                                                                 T, rows);
    av_forward_kernel<<<dim3(HS / TS, T / TS, B * NH), 32, 0, stream>>>(out, att, qkv, T, NH, HS);
}

}  // namespace attn
