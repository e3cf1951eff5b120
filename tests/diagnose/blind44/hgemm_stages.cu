// HGEMM with cp.async stages, ldmatrix and mma.m16n8k16, and a fused epilogue:
//
//     D = act(alpha * A * B + beta * C + bias)
//
// A: M x K, B: K x N, C and D: M x N, all row-major halfs; bias: N halfs. N and K are multiples of 8.
// Sums are floats. grid: (ceil(N / BN), ceil(M / BM))
#include <cuda_fp16.h>

#define CP_ASYNC_CG(dst, src, bytes) \
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(bytes))
#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))
#define LDMATRIX_X4(R0, R1, R2, R3, addr) \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n" \
                 : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3) : "r"(addr))
#define LDMATRIX_X4_T(R0, R1, R2, R3, addr) \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n" \
                 : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3) : "r"(addr))
#define HMMA16816_F32(D0, D1, D2, D3, A0, A1, A2, A3, B0, B1) \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n" \
                 : "+f"(D0), "+f"(D1), "+f"(D2), "+f"(D3) \
                 : "r"(A0), "r"(A1), "r"(A2), "r"(A3), "r"(B0), "r"(B1))

struct Identity {
    static __device__ __forceinline__ float apply(float x) { return x; }
};

struct GeluTanh {
    static __device__ __forceinline__ float apply(float x) {
        const float kBeta = 0.7978845608f; // sqrt(2 / pi)
        return 0.5f * x * (1.0f + tanhf(kBeta * (x + 0.044715f * x * x * x)));
    }
};

template <int BM_, int BN_, int BK_, int WM_, int WN_, int STAGES_>
struct TileConfig {
    static constexpr int BM = BM_, BN = BN_, BK = BK_, WM = WM_, WN = WN_, STAGES = STAGES_;
    static constexpr int THREADS = (BM / WM) * (BN / WN) * 32;
    static constexpr int LDA = BK + 8, LDB = BN + 8; // halfs; the padding keeps ldmatrix free of bank conflicts
    static constexpr int LDC = BN + 8;               // floats of the epilogue
};

using Tile64x64x32 = TileConfig<64, 64, 32, 32, 32, 3>;
using Tile64x32x32 = TileConfig<64, 32, 32, 32, 16, 2>;

template <typename Cfg, typename Act>
__global__ void __launch_bounds__(Cfg::THREADS)
hgemm_stages_kernel(const half* __restrict__ A, const half* __restrict__ B, const half* __restrict__ C,
                    const half* __restrict__ bias, half* __restrict__ D, int M, int N, int K, float alpha, float beta)
{
    constexpr int BM = Cfg::BM, BN = Cfg::BN, BK = Cfg::BK, STAGES = Cfg::STAGES;
    constexpr int LDA = Cfg::LDA, LDB = Cfg::LDB, LDC = Cfg::LDC;
    constexpr int MI = Cfg::WM / 16, NI = Cfg::WN / 8;

    extern __shared__ __align__(128) half smem[];
    half* s_a = smem;                      // STAGES x BM x LDA
    half* s_b = smem + STAGES * BM * LDA;  // STAGES x BK x LDB

    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    const int warp_m = warp / (BN / Cfg::WN) * Cfg::WM;
    const int warp_n = warp % (BN / Cfg::WN) * Cfg::WN;
    const int by = blockIdx.y * BM, bx = blockIdx.x * BN;
    const int k_tiles = (K + BK - 1) / BK;

    auto load_stage = [&](int stage, int kt) {
        for (int i = tid; i < BM * BK / 8; i += Cfg::THREADS) {
            const int row = i / (BK / 8), col = i % (BK / 8) * 8;
            const int gm = by + row, gk = kt * BK + col;
            const bool in = gm < M && gk < K;
            const unsigned dst = __cvta_generic_to_shared(s_a + (stage * BM + row) * LDA + col);
            CP_ASYNC_CG(dst, in ? A + (size_t)gm * K + gk : A, in ? 16 : 0);
        }
        for (int i = tid; i < BK * BN / 8; i += Cfg::THREADS) {
            const int row = i / (BN / 8), col = i % (BN / 8) * 8;
            const int gk = kt * BK + row, gn = bx + col;
            const bool in = gk < K && gn < N;
            const unsigned dst = __cvta_generic_to_shared(s_b + (stage * BK + row) * LDB + col);
            CP_ASYNC_CG(dst, in ? B + (size_t)gk * N + gn : B, in ? 16 : 0);
        }
    };

    float acc[MI][NI][4] = {};

    auto compute_stage = [&](int stage) {
        #pragma unroll
        for (int kk = 0; kk < BK; kk += 16) {
            unsigned ra[MI][4], rb[NI][2];
            #pragma unroll
            for (int i = 0; i < MI; ++i) {
                const int row = warp_m + i * 16 + lane % 16, col = kk + lane / 16 * 8;
                const unsigned addr = __cvta_generic_to_shared(s_a + (stage * BM + row) * LDA + col);
                LDMATRIX_X4(ra[i][0], ra[i][1], ra[i][2], ra[i][3], addr);
            }
            #pragma unroll
            for (int j = 0; j < NI; j += 2) {
                const int row = kk + lane % 16, col = warp_n + j * 8 + lane / 16 * 8;
                const unsigned addr = __cvta_generic_to_shared(s_b + (stage * BK + row) * LDB + col);
                LDMATRIX_X4_T(rb[j][0], rb[j][1], rb[j + 1][0], rb[j + 1][1], addr);
            }
            #pragma unroll
            for (int i = 0; i < MI; ++i)
                #pragma unroll
                for (int j = 0; j < NI; ++j)
                    HMMA16816_F32(acc[i][j][0], acc[i][j][1], acc[i][j][2], acc[i][j][3],
                                  ra[i][0], ra[i][1], ra[i][2], ra[i][3], rb[j][0], rb[j][1]);
        }
    };

    // prologue: fill all stages but one
    #pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) {
        load_stage(s, s);
        CP_ASYNC_COMMIT_GROUP();
    }
    CP_ASYNC_WAIT_GROUP(STAGES - 2);
    __syncthreads();

    // tile kt is loaded while tile kt - (STAGES - 1) is multiplied
    for (int kt = STAGES - 1; kt < k_tiles; ++kt) {
        load_stage(kt % STAGES, kt);
        CP_ASYNC_COMMIT_GROUP();
        compute_stage((kt + 1) % STAGES);
        CP_ASYNC_WAIT_GROUP(STAGES - 2);
        __syncthreads();
    }

    // the last STAGES - 1 tiles
    CP_ASYNC_WAIT_GROUP(0);
    __syncthreads();
    for (int kt = max(k_tiles - (STAGES - 1), 0); kt < k_tiles; ++kt)
        compute_stage(kt % STAGES);
    __syncthreads();

    // epilogue: through shared memory, so that a thread writes 8 neighbours
    float* s_c = reinterpret_cast<float*>(smem);
    #pragma unroll
    for (int i = 0; i < MI; ++i)
        #pragma unroll
        for (int j = 0; j < NI; ++j) {
            const int row = warp_m + i * 16 + lane / 4, col = warp_n + j * 8 + lane % 4 * 2;
            *reinterpret_cast<float2*>(s_c + row * LDC + col) = make_float2(acc[i][j][0], acc[i][j][1]);
            *reinterpret_cast<float2*>(s_c + (row + 8) * LDC + col) = make_float2(acc[i][j][2], acc[i][j][3]);
        }
    __syncthreads();

    for (int i = tid; i < BM * BN / 8; i += Cfg::THREADS) {
        const int row = i / (BN / 8), col = i % (BN / 8) * 8;
        const int gm = by + row, gn = bx + col;
        if (gm >= M || gn >= N) continue;
        const uint4 c_vec = *reinterpret_cast<const uint4*>(C + (size_t)gm * N + gn);
        const uint4 b_vec = *reinterpret_cast<const uint4*>(bias + gn);
        const half* c8 = reinterpret_cast<const half*>(&c_vec);
        const half* b8 = reinterpret_cast<const half*>(&b_vec);
        uint4 d_vec;
        half* d8 = reinterpret_cast<half*>(&d_vec);
        #pragma unroll
        for (int e = 0; e < 8; ++e) {
            const float x = alpha * s_c[row * LDC + col + e] + beta * __half2float(c8[e]) + __half2float(b8[e]);
            d8[e] = __float2half(Act::apply(x));
        }
        *reinterpret_cast<uint4*>(D + (size_t)gm * N + gn) = d_vec;
    }
}
