// flash attention in a few lines of wmma: causal, grouped query heads, [batch, seq, heads, dim] tensors
#include <mma.h>
#include <cuda_fp16.h>
#include <math.h>

namespace wm = nvcuda::wmma;

constexpr int Br = 32;          // queries of a block
constexpr int Bc = 32;          // keys of a tile, one per lane
constexpr int HD = 32;          // head dimension
constexpr int WARPS = Br / 16;  // each has 16 queries
constexpr int QLD = HD + 8;
constexpr int PLD = Bc + 8;
constexpr int SLD = Bc + 4;
constexpr int OLD = HD + 4;

struct Smem {
    half q[Br * QLD];
    half k[Bc * QLD];
    half v[Bc * QLD];
    half p[Br * PLD];
    float s[Br * SLD];
    float o[Br * OLD];
    float m[Br];
    float l[Br];
};

__device__ void load_rows(half* dst, const half* src, int first, int rows, int n, int row_stride) {
    for (int i = threadIdx.x; i < rows * HD; i += WARPS * 32) {
        int r = i / HD, d = i % HD;
        dst[r * QLD + d] = first + r < n ? src[(size_t)(first + r) * row_stride + d] : __float2half(0.f);
    }
}

__device__ float warp_max(float x) {
    for (int off = 16; off > 0; off >>= 1) x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, off));
    return x;
}

__device__ float warp_sum(float x) {
    for (int off = 16; off > 0; off >>= 1) x += __shfl_xor_sync(0xffffffff, x, off);
    return x;
}

__global__ void flash_fwd(const half* __restrict__ Q, const half* __restrict__ K, const half* __restrict__ V,
                          half* __restrict__ O, int seq, int heads, int kv_heads, float scale) {
    __shared__ __align__(32) Smem sm;

    const int h = blockIdx.y, b = blockIdx.z;
    const int kvh = h / (heads / kv_heads);
    const int q0 = blockIdx.x * Br;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

    const half* q = Q + ((size_t)b * seq * heads + h) * HD;
    const half* k = K + ((size_t)b * seq * kv_heads + kvh) * HD;
    const half* v = V + ((size_t)b * seq * kv_heads + kvh) * HD;
    half* out = O + ((size_t)b * seq * heads + h) * HD;

    load_rows(sm.q, q, q0, Br, seq, heads * HD);
    for (int i = threadIdx.x; i < Br * OLD; i += WARPS * 32) sm.o[i] = 0.f;
    for (int i = threadIdx.x; i < Br; i += WARPS * 32) {
        sm.m[i] = -INFINITY;
        sm.l[i] = 0.f;
    }

    const int last = min(seq, q0 + Br);  // keys behind it are masked for all queries of the block
    for (int k0 = 0; k0 < last; k0 += Bc) {
        load_rows(sm.k, k, k0, Bc, seq, kv_heads * HD);
        load_rows(sm.v, v, k0, Bc, seq, kv_heads * HD);
        __syncthreads();

        // S = Q K^T
        for (int j = 0; j < Bc / 16; ++j) {
            wm::fragment<wm::accumulator, 16, 16, 16, float> s;
            wm::fill_fragment(s, 0.f);
            for (int d = 0; d < HD; d += 16) {
                wm::fragment<wm::matrix_a, 16, 16, 16, half, wm::row_major> fq;
                wm::fragment<wm::matrix_b, 16, 16, 16, half, wm::col_major> fk;
                wm::load_matrix_sync(fq, sm.q + warp * 16 * QLD + d, QLD);
                wm::load_matrix_sync(fk, sm.k + j * 16 * QLD + d, QLD);
                wm::mma_sync(s, fq, fk, s);
            }
            wm::store_matrix_sync(sm.s + warp * 16 * SLD + j * 16, s, SLD, wm::mem_row_major);
        }
        __syncwarp();

        // online softmax, a lane for each key
        for (int r = warp * 16; r < warp * 16 + 16; ++r) {
            const int row = q0 + r, col = k0 + lane;
            const bool keep = col < seq && col <= row;
            const float x = keep ? sm.s[r * SLD + lane] * scale : -INFINITY;
            const float m_old = sm.m[r];
            const float m_new = fmaxf(m_old, warp_max(x));
            const float p = keep ? __expf(x - m_new) : 0.f;
            const float fix = __expf(m_old - m_new);
            const float l_new = fix * sm.l[r] + warp_sum(p);
            sm.p[r * PLD + lane] = __float2half(p);
            for (int d = lane; d < HD; d += 32) sm.o[r * OLD + d] *= fix;
            __syncwarp();
            if (lane == 0) {
                sm.m[r] = m_new;
                sm.l[r] = l_new;
            }
        }
        __syncwarp();

        // O += P V
        for (int n = 0; n < HD / 16; ++n) {
            float* tile = sm.o + warp * 16 * OLD + n * 16;
            wm::fragment<wm::accumulator, 16, 16, 16, float> o;
            wm::load_matrix_sync(o, tile, OLD, wm::mem_row_major);
            for (int c = 0; c < Bc; c += 16) {
                wm::fragment<wm::matrix_a, 16, 16, 16, half, wm::row_major> fp;
                wm::fragment<wm::matrix_b, 16, 16, 16, half, wm::row_major> fv;
                wm::load_matrix_sync(fp, sm.p + warp * 16 * PLD + c, PLD);
                wm::load_matrix_sync(fv, sm.v + c * QLD + n * 16, QLD);
                wm::mma_sync(o, fp, fv, o);
            }
            wm::store_matrix_sync(tile, o, OLD, wm::mem_row_major);
        }
        __syncthreads();
    }

    for (int i = threadIdx.x; i < Br * HD; i += WARPS * 32) {
        const int r = i / HD, d = i % HD;
        if (q0 + r < seq) out[(size_t)(q0 + r) * heads * HD + d] = __float2half(sm.o[r * OLD + d] / sm.l[r]);
    }
}
