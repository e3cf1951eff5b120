// MoE expert GEMM: rows are sorted by expert, expert_offsets[e] .. expert_offsets[e + 1] belong to expert e.
#include <cuda_fp16.h>
#include <mma.h>

constexpr int kRows = 32, kCols = 64, kDepth = 16;

template <int NumWarps>
__global__ void moe_gemm_kernel(const half *__restrict__ tokens, const half *__restrict__ expert_weights,
                                half *__restrict__ output, const int *__restrict__ expert_offsets, int hidden,
                                int inter) {
    using namespace nvcuda;
    const int e = blockIdx.z;
    const int begin = expert_offsets[e], end = expert_offsets[e + 1];
    const int r0 = begin + blockIdx.y * kRows;
    if (r0 >= end) return;
    const half *w = expert_weights + (size_t)e * hidden * inter;
    __shared__ half ts[kRows][kDepth + 8];
    __shared__ half ws[kDepth][kCols + 8];
    __shared__ float os[kRows][kCols];
    const int warp = threadIdx.x / 32;
    const int wr = warp / 4 * 16, wc = warp % 4 * 16;
    const int c0 = blockIdx.x * kCols;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.f);
    for (int k = 0; k < hidden; k += kDepth) {
        for (int i = threadIdx.x; i < kRows * kDepth; i += NumWarps * 32) {
            int r = i / kDepth, c = i % kDepth;
            ts[r][c] = r0 + r < end ? tokens[(size_t)(r0 + r) * hidden + k + c] : __float2half(0.f);
        }
        for (int i = threadIdx.x; i < kDepth * kCols; i += NumWarps * 32)
            ws[i / kCols][i % kCols] = w[(size_t)(k + i / kCols) * inter + c0 + i % kCols];
        __syncthreads();
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
        wmma::load_matrix_sync(a, &ts[wr][0], kDepth + 8);
        wmma::load_matrix_sync(b, &ws[0][wc], kCols + 8);
        wmma::mma_sync(acc, a, b, acc);
        __syncthreads();
    }
    wmma::store_matrix_sync(&os[wr][wc], acc, kCols, wmma::mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < kRows * kCols; i += NumWarps * 32) {
        int r = r0 + i / kCols;
        if (r < end) output[(size_t)r * inter + c0 + i % kCols] = __float2half(os[i / kCols][i % kCols]);
    }
}

void moe_gemm(const half *tokens, const half *expert_weights, half *output, const int *expert_offsets, int num_tokens,
              int num_experts, int hidden, int inter, cudaStream_t stream) {
    constexpr int kNumWarps = (kRows / 16) * (kCols / 16);
    dim3 grid(inter / kCols, (num_tokens + kRows - 1) / kRows, num_experts);
    moe_gemm_kernel<kNumWarps><<<grid, kNumWarps * 32, 0, stream>>>(tokens, expert_weights, output, expert_offsets, hidden, inter);
}
