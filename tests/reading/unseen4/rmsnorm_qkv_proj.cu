// Fused RMSNorm + projection: out = (x * rsqrt(mean(x^2) + eps) * gamma) @ W
#include <cuda_fp16.h>
#include <mma.h>

template <int ROWS, int COLS, int HIDDEN>
__global__ void rmsnorm_proj_kernel(const half *__restrict__ x, const half *__restrict__ gamma,
                                    const half *__restrict__ w, half *__restrict__ out, int tokens, int out_dim,
                                    float eps) {
    using namespace nvcuda;
    __shared__ half normed[ROWS][HIDDEN + 8];
    __shared__ float buf[COLS / 16][16 * 16];
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, nwarps = blockDim.x >> 5;
    const int t0 = blockIdx.x * ROWS, c0 = blockIdx.y * COLS;
    for (int r = warp; r < ROWS; r += nwarps) {
        const int token = min(t0 + r, tokens - 1);
        float ss = 0.f;
        for (int i = lane; i < HIDDEN; i += 32) {
            float v = __half2float(x[(size_t)token * HIDDEN + i]);
            ss += v * v;
        }
        for (int o = 16; o; o >>= 1) ss += __shfl_xor_sync(~0u, ss, o);
        const float inv = rsqrtf(ss / HIDDEN + eps);
        for (int i = lane; i < HIDDEN; i += 32)
            normed[r][i] = __float2half(__half2float(x[(size_t)token * HIDDEN + i]) * inv * __half2float(gamma[i]));
    }
    __syncthreads();
    const int col = c0 + warp * 16;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.f);
    for (int k = 0; k < HIDDEN; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
        wmma::load_matrix_sync(a, &normed[0][k], HIDDEN + 8);
        wmma::load_matrix_sync(b, w + (size_t)k * out_dim + col, out_dim);
        wmma::mma_sync(acc, a, b, acc);
    }
    wmma::store_matrix_sync(buf[warp], acc, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = lane; i < 256; i += 32)
        if (t0 + i / 16 < tokens) out[(size_t)(t0 + i / 16) * out_dim + col + i % 16] = __float2half(buf[warp][i]);
}

void rmsnorm_proj(const half *x, const half *gamma, const half *w, half *out, int tokens, int out_dim, float eps,
                  cudaStream_t stream) {
    constexpr int ROWS = 16, COLS = 64, HIDDEN = 256;
    dim3 grid((tokens + ROWS - 1) / ROWS, out_dim / COLS);
    rmsnorm_proj_kernel<ROWS, COLS, HIDDEN><<<grid, COLS / 16 * 32, 0, stream>>>(x, gamma, w, out, tokens, out_dim, eps);
}
