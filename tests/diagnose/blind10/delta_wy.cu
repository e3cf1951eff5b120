// WY representation of a chunk for the (gated-less) delta rule, one thread block per chunk and head:
//
//     A = tril(diag(beta) K K^T, -1)        T = (I + A)^-1 diag(beta)        w = T K        u = T V
//
// after which the recurrent pass only needs matmuls. K is l2-normalised here. Matmuls in TF32, the inverse in fp32.

#include <mma.h>

using namespace nvcuda;

constexpr int BT = 32;          // chunk length
constexpr int NUM_WARPS = 4;
constexpr int PAD = 4;

template <typename Frag>
__device__ inline void to_tf32(Frag& f) {
    for (int i = 0; i < f.num_elements; i++) f.x[i] = wmma::__float_to_tf32(f.x[i]);
}

using FragA    = wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major>;
using FragB    = wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major>;
using FragBT   = wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major>;
using FragAcc  = wmma::fragment<wmma::accumulator, 16, 16, 8, float>;

// rows t0 .. t0+BT of a [T, D] matrix to shared memory, zeros behind the sequence's end
template <int D>
__device__ void load_chunk(float* dst, const float* src, int t0, int T) {
    for (int i = threadIdx.x; i < BT * D; i += blockDim.x) {
        int r = i / D, c = i % D;
        dst[r * (D + PAD) + c] = (t0 + r < T) ? src[(size_t)(t0 + r) * D + c] : 0.f;
    }
}

template <int D>
__device__ void l2norm_rows(float* x) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int r = warp; r < BT; r += NUM_WARPS) {
        float ss = 0.f;
        for (int c = lane; c < D; c += 32) ss += x[r * (D + PAD) + c] * x[r * (D + PAD) + c];
        for (int off = 16; off > 0; off /= 2) ss += __shfl_down_sync(0xffffffff, ss, off);
        ss = __shfl_sync(0xffffffff, ss, 0);
        float rstd = rsqrtf(ss + 1e-6f);
        for (int c = lane; c < D; c += 32) x[r * (D + PAD) + c] *= rstd;
    }
}

// out[t0:t0+BT, :] = T_mat @ X, tile by tile; a warp takes every fourth
template <int D>
__device__ void apply_T(const float* T_mat, const float* X, float* stage, float* out, int t0, int T) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float* mine = stage + warp * 16 * 16;
    for (int tile = warp; tile < (BT / 16) * (D / 16); tile += NUM_WARPS) {
        int tr = tile / (D / 16), tc = tile % (D / 16);
        FragAcc acc;
        wmma::fill_fragment(acc, 0.f);
        for (int k = 0; k < BT; k += 8) {
            FragA a;
            FragB b;
            wmma::load_matrix_sync(a, T_mat + tr * 16 * (BT + PAD) + k, BT + PAD);
            wmma::load_matrix_sync(b, X + k * (D + PAD) + tc * 16, D + PAD);
            to_tf32(a);
            to_tf32(b);
            wmma::mma_sync(acc, a, b, acc);
        }
        wmma::store_matrix_sync(mine, acc, 16, wmma::mem_row_major);
        __syncwarp();
        for (int i = lane; i < 256; i += 32) {
            int row = t0 + tr * 16 + i / 16;
            if (row < T) out[(size_t)row * D + tc * 16 + i % 16] = mine[i];
        }
        __syncwarp();
    }
}

template <int DK, int DV>
__global__ void prepare_wy_repr_fwd(const float* __restrict__ k, const float* __restrict__ v, const float* __restrict__ beta,
                                    float* __restrict__ w, float* __restrict__ u, int T) {
    extern __shared__ float smem[];
    float* s_k     = smem;                          // [BT][DK + PAD]
    float* s_v     = s_k + BT * (DK + PAD);         // [BT][DV + PAD]
    float* s_A     = s_v + BT * (DV + PAD);         // [BT][BT + PAD]
    float* s_T     = s_A + BT * (BT + PAD);         // [BT][BT + PAD]
    float* s_stage = s_T + BT * (BT + PAD);         // [NUM_WARPS][16][16]
    float* s_beta  = s_stage + NUM_WARPS * 256;     // [BT]

    int t0 = blockIdx.x * BT, bh = blockIdx.y;
    int tid = threadIdx.x, warp = tid / 32;
    k += (size_t)bh * T * DK;
    v += (size_t)bh * T * DV;
    w += (size_t)bh * T * DK;
    u += (size_t)bh * T * DV;
    beta += (size_t)bh * T;

    load_chunk<DK>(s_k, k, t0, T);
    load_chunk<DV>(s_v, v, t0, T);
    if (tid < BT) s_beta[tid] = (t0 + tid < T) ? beta[t0 + tid] : 0.f;
    __syncthreads();
    l2norm_rows<DK>(s_k);
    __syncthreads();

    // K K^T: one 16x16 tile per warp, the one above the diagonal is not needed
    int ti = warp / 2, tj = warp % 2;
    if (tj <= ti) {
        FragAcc acc;
        wmma::fill_fragment(acc, 0.f);
        for (int d = 0; d < DK; d += 8) {
            FragA a;
            FragBT b;
            wmma::load_matrix_sync(a, s_k + ti * 16 * (DK + PAD) + d, DK + PAD);
            wmma::load_matrix_sync(b, s_k + tj * 16 * (DK + PAD) + d, DK + PAD);
            to_tf32(a);
            to_tf32(b);
            wmma::mma_sync(acc, a, b, acc);
        }
        wmma::store_matrix_sync(s_A + ti * 16 * (BT + PAD) + tj * 16, acc, BT + PAD, wmma::mem_row_major);
    }
    __syncthreads();
    for (int i = tid; i < BT * BT; i += blockDim.x) {
        int r = i / BT, c = i % BT;
        float* a = s_A + r * (BT + PAD) + c;
        *a = (r > c) ? *a * s_beta[r] : 0.f;
    }
    __syncthreads();

    // forward substitution on the identity: lane = column, so no one waits for anyone
    if (tid < BT) {
        for (int i = 0; i < BT; i++) {
            float x = (i == tid) ? 1.f : 0.f;
            for (int j = tid; j < i; j++) x -= s_A[i * (BT + PAD) + j] * s_T[j * (BT + PAD) + tid];
            s_T[i * (BT + PAD) + tid] = x;
        }
        for (int i = 0; i < BT; i++) s_T[i * (BT + PAD) + tid] *= s_beta[tid];
    }
    __syncthreads();

    apply_T<DK>(s_T, s_k, s_stage, w, t0, T);
    apply_T<DV>(s_T, s_v, s_stage, u, t0, T);
}

template __global__ void prepare_wy_repr_fwd<32, 48>(const float*, const float*, const float*, float*, float*, int);
