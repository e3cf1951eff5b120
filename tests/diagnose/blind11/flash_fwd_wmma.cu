// Forward pass of attention, one block per 32 queries of one head; 4 warps; head dimension 64.
#include <cuda_fp16.h>
#include <math.h>
#include <mma.h>

using namespace nvcuda;

namespace fa {

constexpr int Br = 32, Bc = 32, D = 64, LD = D + 8, LS = Bc + 4, LP = Bc + 8, LO = D + 4;

struct Smem {
    half q[Br * LD];
    half k[Bc * LD];
    half v[Bc * LD];
    half p[Br * LP];
    float s[Br * LS];
    float o[Br * LO];
    float m[Br];
    float l[Br];
};

__device__ void load_tile(half *dst, const half *src, int first, int S, int rows) {
    for (int i = threadIdx.x; i < rows * D; i += blockDim.x) {
        int r = i / D, c = i % D;
        dst[r * LD + c] = first + r < S ? src[(first + r) * D + c] : __float2half(0.f);
    }
}

__global__ void flash_fwd(const half *Q, const half *K, const half *V, float *O, int S, float scale, int causal) {
    __shared__ __align__(32) Smem sm;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const size_t head = (size_t)blockIdx.y * S * D;
    const int q0 = blockIdx.x * Br;

    load_tile(sm.q, Q + head, q0, S, Br);
    for (int i = threadIdx.x; i < Br * LO; i += blockDim.x) sm.o[i] = 0.f;
    if (threadIdx.x < Br) {
        sm.m[threadIdx.x] = -INFINITY;
        sm.l[threadIdx.x] = 0.f;
    }

    const int last = causal ? min(S, q0 + Br) : S;
    for (int k0 = 0; k0 < last; k0 += Bc) {
        load_tile(sm.k, K + head, k0, S, Bc);
        load_tile(sm.v, V + head, k0, S, Bc);
        __syncthreads();

        // S = Q K^T: each warp one 16 x 16 tile
        {
            int tr = warp / 2 * 16, tc = warp % 2 * 16;
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
            wmma::fill_fragment(acc, 0.f);
            for (int d = 0; d < D; d += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
                wmma::load_matrix_sync(a, sm.q + tr * LD + d, LD);
                wmma::load_matrix_sync(b, sm.k + tc * LD + d, LD);
                wmma::mma_sync(acc, a, b, acc);
            }
            wmma::store_matrix_sync(sm.s + tr * LS + tc, acc, LS, wmma::mem_row_major);
        }
        __syncthreads();

        // online softmax, one row per warp at a time
        for (int r = warp; r < Br; r += 4) {
            int key = k0 + lane;
            float x = sm.s[r * LS + lane] * scale;
            if (key >= S || (causal && key > q0 + r)) x = -INFINITY;
            float top = x;
            for (int w = 16; w > 0; w >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, w));
            float m_old = sm.m[r];
            float m_new = fmaxf(m_old, top);
            float p = __expf(x - m_new);
            float sum = p;
            for (int w = 16; w > 0; w >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, w);
            float alpha = __expf(m_old - m_new);
            sm.p[r * LP + lane] = __float2half(p);
            for (int d = lane; d < D; d += 32) sm.o[r * LO + d] *= alpha;
            __syncwarp();
            if (lane == 0) {
                sm.m[r] = m_new;
                sm.l[r] = sm.l[r] * alpha + sum;
            }
        }
        __syncthreads();

        // O += P V: each warp 16 columns of both row tiles
        for (int tr = 0; tr < Br; tr += 16) {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
            wmma::load_matrix_sync(acc, sm.o + tr * LO + warp * 16, LO, wmma::mem_row_major);
            for (int k = 0; k < Bc; k += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
                wmma::load_matrix_sync(a, sm.p + tr * LP + k, LP);
                wmma::load_matrix_sync(b, sm.v + k * LD + warp * 16, LD);
                wmma::mma_sync(acc, a, b, acc);
            }
            wmma::store_matrix_sync(sm.o + tr * LO + warp * 16, acc, LO, wmma::mem_row_major);
        }
        __syncthreads();
    }

    for (int i = threadIdx.x; i < Br * D; i += blockDim.x) {
        int r = i / D, c = i % D;
        if (q0 + r < S) O[head + (size_t)(q0 + r) * D + c] = sm.o[r * LO + c] / sm.l[r];
    }
}

}  // namespace fa
