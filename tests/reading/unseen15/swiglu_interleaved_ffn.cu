// Fused gate/up projection: rows of W alternate gate, up, gate, up, ... so that both halves of a pair sit
// in the same tile.
//   h = x W^T                    x [tokens, d_model], W [2 * d_ff, d_model]
//   y[t, i] = silu(h[t, 2i]) * h[t, 2i + 1]     y [tokens, d_ff]
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

constexpr int M_TILE = 64, N_TILE = 64, K_TILE = 32, THREADS = 256;

__device__ __forceinline__ float silu(float v) { return v / (1.0f + __expf(-v)); }

__global__ void __launch_bounds__(THREADS)
swiglu_interleaved(const half *__restrict__ x, const half *__restrict__ w_gate_up, half *__restrict__ y, int tokens,
                   int d_ff, int d_model)
{
    extern __shared__ __align__(128) unsigned char smem[];
    half (*xs)[K_TILE + 8] = reinterpret_cast<half (*)[K_TILE + 8]>(smem);
    half (*ws)[K_TILE + 8] = reinterpret_cast<half (*)[K_TILE + 8]>(smem + sizeof(half) * M_TILE * (K_TILE + 8));
    float (*hs)[N_TILE + 4] = reinterpret_cast<float (*)[N_TILE + 4]>(smem);

    const int t0 = blockIdx.y * M_TILE, n0 = blockIdx.x * N_TILE;
    const int warp = threadIdx.x >> 5;
    const int wr = warp >> 1, wc = warp & 1;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c0, c1;
    wmma::fill_fragment(c0, 0.0f);
    wmma::fill_fragment(c1, 0.0f);

    for (int k0 = 0; k0 < d_model; k0 += K_TILE) {
        const int r = threadIdx.x / 4, c = threadIdx.x % 4 * 8;
        const int4 zero = make_int4(0, 0, 0, 0);
        *reinterpret_cast<int4 *>(&xs[r][c]) =
            t0 + r < tokens ? *reinterpret_cast<const int4 *>(x + (size_t)(t0 + r) * d_model + k0 + c) : zero;
        *reinterpret_cast<int4 *>(&ws[r][c]) =
            n0 + r < 2 * d_ff ? *reinterpret_cast<const int4 *>(w_gate_up + (size_t)(n0 + r) * d_model + k0 + c) : zero;
        __syncthreads();
        for (int k = 0; k < K_TILE; k += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b0, b1;
            wmma::load_matrix_sync(a, &xs[wr * 16][k], K_TILE + 8);
            wmma::load_matrix_sync(b0, &ws[wc * 32][k], K_TILE + 8);
            wmma::load_matrix_sync(b1, &ws[wc * 32 + 16][k], K_TILE + 8);
            wmma::mma_sync(c0, a, b0, c0);
            wmma::mma_sync(c1, a, b1, c1);
        }
        __syncthreads();
    }
    wmma::store_matrix_sync(&hs[wr * 16][wc * 32], c0, N_TILE + 4, wmma::mem_row_major);
    wmma::store_matrix_sync(&hs[wr * 16][wc * 32 + 16], c1, N_TILE + 4, wmma::mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < M_TILE * N_TILE / 2; i += THREADS) {
        const int r = i / (N_TILE / 2), p = i % (N_TILE / 2);
        const int t = t0 + r, f = n0 / 2 + p;
        if (t < tokens && f < d_ff) y[(size_t)t * d_ff + f] = __float2half(silu(hs[r][2 * p]) * hs[r][2 * p + 1]);
    }
}

void swiglu_interleaved_forward(const half *x, const half *w_gate_up, half *y, int tokens, int d_ff, int d_model,
                                cudaStream_t stream)
{
    size_t smem = sizeof(half) * (M_TILE + N_TILE) * (K_TILE + 8);
    size_t stage = sizeof(float) * M_TILE * (N_TILE + 4);
    if (stage > smem) smem = stage;
    dim3 grid((2 * d_ff + N_TILE - 1) / N_TILE, (tokens + M_TILE - 1) / M_TILE);
    swiglu_interleaved<<<grid, THREADS, smem, stream>>>(x, w_gate_up, y, tokens, d_ff, d_model);
}
