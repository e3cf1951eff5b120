// fused gate/up projection of a llama MLP:  out = silu(x Wg^T) * (x Wu^T)
// bf16 in, fp32 accumulate, mma.m16n8k16.  one warp = 16 rows x 16 columns of both products
#include <cuda_bf16.h>
#include <cstdint>

typedef __nv_bfloat16 bf16;

#define BM 32
#define BN 32
#define BK 32
#define PAD 8
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))

__device__ inline void mma16816(float* c, const uint32_t* a, const uint32_t* b) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ inline uint32_t ld2(const bf16* p) { return *reinterpret_cast<const uint32_t*>(p); }

__device__ inline float silu(float x) { return x / (1.0f + expf(-x)); }

// copies a 32 x 32 tile, 8 values per thread; c is a multiple of 8 (so is k)
__device__ inline void load_tile(bf16 (*dst)[BK + PAD], const bf16* src, int rows, int k, int r0, int k0) {
    int r = threadIdx.x / 4, c = threadIdx.x % 4 * 8;
    uint4 v = make_uint4(0, 0, 0, 0);
    if (r0 + r < rows && k0 + c < k) v = *reinterpret_cast<const uint4*>(src + (size_t)(r0 + r) * k + k0 + c);
    *reinterpret_cast<uint4*>(&dst[r][c]) = v;
}

extern "C" __global__ void swiglu_up_kernel(bf16* __restrict__ out, const bf16* __restrict__ x,
                                            const bf16* __restrict__ w_gate, const bf16* __restrict__ w_up,
                                            int tokens, int ffn, int dim) {
    __shared__ __align__(16) bf16 xs[BM][BK + PAD];
    __shared__ __align__(16) bf16 gs[BN][BK + PAD];
    __shared__ __align__(16) bf16 us[BN][BK + PAD];

    const int wid = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int gid = lane >> 2, tig = lane & 3;  // "groupID" and "threadID_in_group" of the PTX manual
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    const int wm = (wid & 1) * 16, wn = (wid >> 1) * 16;

    float gate[2][4] = {}, up[2][4] = {};

    for (int k0 = 0; k0 < dim; k0 += BK) {
        load_tile(xs, x, tokens, dim, row0, k0);
        load_tile(gs, w_gate, ffn, dim, col0, k0);
        load_tile(us, w_up, ffn, dim, col0, k0);
        __syncthreads();

#pragma unroll
        for (int kk = 0; kk < BK; kk += 16) {
            uint32_t a[4];
            a[0] = ld2(&xs[wm + gid][kk + tig * 2]);
            a[1] = ld2(&xs[wm + gid + 8][kk + tig * 2]);
            a[2] = ld2(&xs[wm + gid][kk + tig * 2 + 8]);
            a[3] = ld2(&xs[wm + gid + 8][kk + tig * 2 + 8]);
#pragma unroll
            for (int j = 0; j < 2; j++) {
                uint32_t b[2];
                b[0] = ld2(&gs[wn + j * 8 + gid][kk + tig * 2]);
                b[1] = ld2(&gs[wn + j * 8 + gid][kk + tig * 2 + 8]);
                mma16816(gate[j], a, b);
                b[0] = ld2(&us[wn + j * 8 + gid][kk + tig * 2]);
                b[1] = ld2(&us[wn + j * 8 + gid][kk + tig * 2 + 8]);
                mma16816(up[j], a, b);
            }
        }
        __syncthreads();
    }

    // c0, c1: row gid; c2, c3: row gid + 8
#pragma unroll
    for (int j = 0; j < 2; j++) {
        const int col = col0 + wn + j * 8 + tig * 2;
        for (int h = 0; h < 2; h++) {
            const int row = row0 + wm + gid + h * 8;
            if (row >= tokens) continue;
            for (int e = 0; e < 2; e++) {
                if (col + e >= ffn) continue;
                float g = gate[j][h * 2 + e], u = up[j][h * 2 + e];
                out[(size_t)row * ffn + col + e] = __float2bfloat16(silu(g) * u);
            }
        }
    }
}
