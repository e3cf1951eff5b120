// Persistent bf16 GEMM, D = gelu_tanh(A * B + bias): as many blocks as SMs, each walks over output tiles. The cp.async pipeline
// does not drain between tiles: loads run STAGES - 1 k-blocks ahead in a flat sequence of (tile, k-block) pairs.
#include <cstdint>
#include <cuda_bf16.h>

using bf16 = __nv_bfloat16;

struct GemmParams {
    const bf16* A;      // M x K, row major
    const bf16* B;      // K x N, row major
    const bf16* bias;   // N
    bf16* D;            // M x N
    int M, N, K;
    int group_m;        // rows of tiles that are walked together, for L2
};

template <int BM_, int BN_, int BK_, int STAGES_>
struct Config {
    static constexpr int BM = BM_, BN = BN_, BK = BK_, STAGES = STAGES_;
    static constexpr int THREADS = 128;
    static constexpr int A_CHUNKS = BM * BK / 8, B_CHUNKS = BK * BN / 8;   // of 16 bytes
    static constexpr int STAGE_ELEMS = BM * BK + BK * BN;
    static_assert(BK == 32 && BN == 64, "swizzles are written for 64-byte rows of A, 128-byte rows of B");
};

__device__ __forceinline__ uint32_t smem_u32(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__device__ __forceinline__ void cp_async16(uint32_t dst, const void* src, bool pred) {
    const int bytes = pred ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(bytes) : "memory");
}

__device__ __forceinline__ void ldsm_x4(uint32_t (&r)[4], uint32_t addr) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr) : "memory");
}

__device__ __forceinline__ void ldsm_x4_t(uint32_t (&r)[4], uint32_t addr) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr) : "memory");
}

__device__ __forceinline__ void mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ int swz_a(int row, int chunk) { return row * 32 + (chunk ^ ((row >> 1) & 3)) * 8; }
__device__ __forceinline__ int swz_b(int row, int chunk) { return row * 64 + (chunk ^ (row & 7)) * 8; }

__device__ __forceinline__ float gelu_tanh(float v) {
    return 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
}

template <class Cfg>
__global__ void __launch_bounds__(Cfg::THREADS) persistent_gemm(GemmParams p) {
    extern __shared__ __align__(128) bf16 smem[];
    const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    const int warp_m = warp >> 1, warp_n = warp & 1;

    const int tiles_m = (p.M + Cfg::BM - 1) / Cfg::BM, tiles_n = (p.N + Cfg::BN - 1) / Cfg::BN;
    const int k_blocks = (p.K + Cfg::BK - 1) / Cfg::BK;
    const int num_tiles = tiles_m * tiles_n;
    const int my_tiles = (num_tiles - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x;
    const int total = my_tiles * k_blocks;

    auto tile_origin = [&](int nth, int& m0, int& n0) {
        const int tile = blockIdx.x + nth * gridDim.x;
        const int per_group = p.group_m * tiles_n;
        const int group = tile / per_group;
        const int first_m = group * p.group_m;
        const int rows = min(tiles_m - first_m, p.group_m);
        m0 = (first_m + tile % per_group % rows) * Cfg::BM;
        n0 = tile % per_group / rows * Cfg::BN;
    };

    auto issue = [&](int step) {
        if (step < total) {
            int m0, n0;
            tile_origin(step / k_blocks, m0, n0);
            const int k0 = step % k_blocks * Cfg::BK;
            bf16* sA = smem + step % Cfg::STAGES * Cfg::STAGE_ELEMS;
            bf16* sB = sA + Cfg::BM * Cfg::BK;
#pragma unroll
            for (int i = tid; i < Cfg::A_CHUNKS; i += Cfg::THREADS) {
                const int r = i / 4, c = i % 4;
                const bool ok = m0 + r < p.M && k0 + c * 8 < p.K;
                cp_async16(smem_u32(sA + swz_a(r, c)), ok ? p.A + (size_t)(m0 + r) * p.K + k0 + c * 8 : p.A, ok);
            }
#pragma unroll
            for (int i = tid; i < Cfg::B_CHUNKS; i += Cfg::THREADS) {
                const int r = i / 8, c = i % 8;
                const bool ok = k0 + r < p.K && n0 + c * 8 < p.N;
                cp_async16(smem_u32(sB + swz_b(r, c)), ok ? p.B + (size_t)(k0 + r) * p.N + n0 + c * 8 : p.B, ok);
            }
        }
        asm volatile("cp.async.commit_group;\n" ::: "memory");
    };

    float acc[2][4][4];
    auto clear = [&] {
#pragma unroll
        for (int i = 0; i < 32; ++i) (&acc[0][0][0])[i] = 0.0f;
    };

    auto store_tile = [&](int nth) {
        int m0, n0;
        tile_origin(nth, m0, n0);
#pragma unroll
        for (int mi = 0; mi < 2; ++mi)
#pragma unroll
            for (int ni = 0; ni < 4; ++ni) {
                const int col = n0 + warp_n * 32 + ni * 8 + (lane & 3) * 2;
                if (col >= p.N) continue;
                const float2 b = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(p.bias + col));
#pragma unroll
                for (int h = 0; h < 2; ++h) {
                    const int row = m0 + warp_m * 32 + mi * 16 + h * 8 + (lane >> 2);
                    if (row < p.M)
                        *reinterpret_cast<__nv_bfloat162*>(p.D + (size_t)row * p.N + col) = __floats2bfloat162_rn(
                            gelu_tanh(acc[mi][ni][h * 2] + b.x), gelu_tanh(acc[mi][ni][h * 2 + 1] + b.y));
                }
            }
    };

    for (int s = 0; s < Cfg::STAGES - 1; ++s) issue(s);
    clear();
    for (int step = 0; step < total; ++step) {
        asm volatile("cp.async.wait_group %0;\n" ::"n"(Cfg::STAGES - 2) : "memory");
        __syncthreads();
        issue(step + Cfg::STAGES - 1);   // into the stage that was multiplied last time

        const bf16* sA = smem + step % Cfg::STAGES * Cfg::STAGE_ELEMS;
        const bf16* sB = sA + Cfg::BM * Cfg::BK;
#pragma unroll
        for (int kk = 0; kk < 2; ++kk) {
            uint32_t a[2][4], b[2][4];
#pragma unroll
            for (int mi = 0; mi < 2; ++mi)
                ldsm_x4(a[mi], smem_u32(sA + swz_a(warp_m * 32 + mi * 16 + (lane & 15), kk * 2 + (lane >> 4))));
#pragma unroll
            for (int nj = 0; nj < 2; ++nj)
                ldsm_x4_t(b[nj], smem_u32(sB + swz_b(kk * 16 + (lane & 15), warp_n * 4 + nj * 2 + (lane >> 4))));
#pragma unroll
            for (int mi = 0; mi < 2; ++mi)
#pragma unroll
                for (int ni = 0; ni < 4; ++ni) mma_bf16(acc[mi][ni], a[mi], b[ni >> 1][(ni & 1) * 2], b[ni >> 1][(ni & 1) * 2 + 1]);
        }
        if (step % k_blocks == k_blocks - 1) {
            store_tile(step / k_blocks);
            clear();
        }
    }
    asm volatile("cp.async.wait_group 0;\n" ::: "memory");
}

template __global__ void persistent_gemm<Config<64, 64, 32, 3>>(GemmParams);
