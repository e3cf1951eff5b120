// ln_dense_act.cu
//
// The first half of a pre-norm MLP block in two launches:
//
//     h = act( (layer_norm(x) * gamma + beta) @ W + b )
//
// A warp per row finds mean and 1/std; the matrix product normalises x while it brings it to shared memory, so that the
// normalised activations are never written. W is stored [in, out], as flax does it. All in bf16, sums in float.

#include <cuda_bf16.h>
#include <mma.h>

using bf16 = __nv_bfloat16;

struct Identity {
    __device__ static float apply(float v) { return v; }
};
struct SquaredRelu {
    __device__ static float apply(float v) {
        v = fmaxf(v, 0.f);
        return v * v;
    }
};
struct GeluTanh {
    __device__ static float apply(float v) {
        const float inner = 0.7978845608028654f * (v + 0.044715f * v * v * v);
        return 0.5f * v * (1.f + tanhf(inner));
    }
};

enum Activation { ACT_NONE = 0, ACT_RELU2 = 1, ACT_GELU = 2 };

__inline__ __device__ float warp_sum(float v) {
    #pragma unroll
    for (int mask = 16; mask > 0; mask /= 2)
        v += __shfl_xor_sync(0xffffffff, v, mask);
    return v;
}

// stats[row] = (mean, rstd)
__global__ void layer_norm_stats(float2* stats, const bf16* x, int rows, int width, float eps) {
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    const bf16* xr = x + (size_t)row * width;

    float sum = 0.f;
    for (int i = threadIdx.x; i < width; i += 32)
        sum += __bfloat162float(xr[i]);
    const float mean = warp_sum(sum) / width;

    float sq = 0.f;
    for (int i = threadIdx.x; i < width; i += 32) {
        const float d = __bfloat162float(xr[i]) - mean;
        sq += d * d;
    }
    const float var = warp_sum(sq) / width;
    if (threadIdx.x == 0)
        stats[row] = make_float2(mean, rsqrtf(var + eps));
}

template <class Act>
__global__ void ln_dense_kernel(bf16* out, const bf16* x, const float2* stats, const float* gamma, const float* beta,
                                const bf16* weight, const float* bias, int rows, int width, int out_width) {
    using namespace nvcuda;
    // tile of the output: 32 x 64, by eight warps in two rows of four
    constexpr int TILE_M = 32, TILE_N = 64, TILE_K = 32;
    constexpr int LDX = TILE_K + 16, LDW = TILE_N + 16;

    __shared__ __align__(32) bf16 x_s[TILE_M * LDX];
    __shared__ __align__(32) bf16 w_s[TILE_K * LDW];
    __shared__ __align__(32) float out_s[TILE_M * TILE_N];
    __shared__ float2 stats_s[TILE_M];

    const int m0 = blockIdx.y * TILE_M;
    const int n0 = blockIdx.x * TILE_N;
    const int warp_m = threadIdx.x / 32 / 4 * 16;
    const int warp_n = threadIdx.x / 32 % 4 * 16;

    if (threadIdx.x < TILE_M)
        stats_s[threadIdx.x] = m0 + threadIdx.x < rows ? stats[m0 + threadIdx.x] : make_float2(0.f, 0.f);
    __syncthreads();

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.f);

    for (int k0 = 0; k0 < width; k0 += TILE_K) {
        for (int i = threadIdx.x; i < TILE_M * TILE_K; i += blockDim.x) {
            const int m = i / TILE_K, k = i % TILE_K;
            float v = 0.f;
            if (m0 + m < rows && k0 + k < width) {
                v = __bfloat162float(x[(size_t)(m0 + m) * width + k0 + k]);
                v = (v - stats_s[m].x) * stats_s[m].y * gamma[k0 + k] + beta[k0 + k];
            }
            x_s[m * LDX + k] = __float2bfloat16(v);
        }
        for (int i = threadIdx.x; i < TILE_K * TILE_N; i += blockDim.x) {
            const int k = i / TILE_N, n = i % TILE_N;
            w_s[k * LDW + n] = k0 + k < width && n0 + n < out_width ? weight[(size_t)(k0 + k) * out_width + n0 + n]
                                                                   : __float2bfloat16(0.f);
        }
        __syncthreads();

        #pragma unroll
        for (int k = 0; k < TILE_K; k += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> a;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::row_major> b;
            wmma::load_matrix_sync(a, x_s + warp_m * LDX + k, LDX);
            wmma::load_matrix_sync(b, w_s + k * LDW + warp_n, LDW);
            wmma::mma_sync(acc, a, b, acc);
        }
        __syncthreads();
    }

    wmma::store_matrix_sync(out_s + warp_m * TILE_N + warp_n, acc, TILE_N, wmma::mem_row_major);
    __syncthreads();

    for (int i = threadIdx.x; i < TILE_M * TILE_N; i += blockDim.x) {
        const int m = m0 + i / TILE_N, n = n0 + i % TILE_N;
        if (m < rows && n < out_width)
            out[(size_t)m * out_width + n] = __float2bfloat16(Act::apply(out_s[i] + bias[n]));
    }
}

// workspace: rows * sizeof(float2)
void ln_dense_act(bf16* out, const bf16* x, const float* gamma, const float* beta, const bf16* weight,
                  const float* bias, int rows, int width, int out_width, float eps, Activation act, void* workspace,
                  cudaStream_t stream) {
    float2* stats = (float2*)workspace;
    layer_norm_stats<<<(rows + 3) / 4, dim3(32, 4), 0, stream>>>(stats, x, rows, width, eps);

    dim3 grid((out_width + 63) / 64, (rows + 31) / 32);
    switch (act) {
        case ACT_NONE:
            ln_dense_kernel<Identity><<<grid, 256, 0, stream>>>(out, x, stats, gamma, beta, weight, bias, rows, width,
                                                                out_width);
            break;
        case ACT_RELU2:
            ln_dense_kernel<SquaredRelu><<<grid, 256, 0, stream>>>(out, x, stats, gamma, beta, weight, bias, rows,
                                                                   width, out_width);
            break;
        case ACT_GELU:
            ln_dense_kernel<GeluTanh><<<grid, 256, 0, stream>>>(out, x, stats, gamma, beta, weight, bias, rows, width,
                                                                out_width);
            break;
    }
}
