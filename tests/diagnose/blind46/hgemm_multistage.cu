// Kernel 9: multi-stage cp.async + swizzled shared memory + ldmatrix + mma.m16n8k16 + grouped rasterization
//
// C[M, N] = A[M, K] * B[K, N], all row-major halfs, fp32 accumulation. K and N have to be multiples of 8
// (16-byte copies), everything else may be ragged.
#include <cuda_fp16.h>

#define CP_ASYNC_CG(dst, src, src_bytes) \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(src_bytes) : "memory")
#define CP_ASYNC_COMMIT() asm volatile("cp.async.commit_group;\n" ::: "memory")
#define CP_ASYNC_WAIT(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n) : "memory")

#define LDMATRIX_X4(R0, R1, R2, R3, addr)                                                    \
    asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n"        \
                 : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3)                                    \
                 : "r"(addr)                                                                 \
                 : "memory")
#define LDMATRIX_X4_T(R0, R1, R2, R3, addr)                                                  \
    asm volatile("ldmatrix.sync.aligned.x4.trans.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n"  \
                 : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3)                                    \
                 : "r"(addr)                                                                 \
                 : "memory")
#define HMMA16816_F32(D, A, B)                                                               \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "                        \
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"         \
                 : "+f"(D[0]), "+f"(D[1]), "+f"(D[2]), "+f"(D[3])                            \
                 : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "r"(B[0]), "r"(B[1]))

__device__ __forceinline__ unsigned smem_addr(const half* p) {
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// XOR swizzles over 16-byte chunks. A rows are 64 bytes long, so two of them share the 32 banks.
template <int BK>
__device__ __forceinline__ int swizzle_a(int row, int chunk) {
    static_assert(BK == 32, "the A swizzle is written for 4 chunks per row");
    return row * BK + ((chunk ^ ((row >> 1) & 3)) << 3);
}
template <int BN>
__device__ __forceinline__ int swizzle_b(int row, int chunk) {
    return row * BN + ((chunk ^ (row & 7)) << 3);
}

template <int BM, int BN, int BK, int THREADS>
__device__ __forceinline__ void load_stage(half* sA, half* sB, const half* A, const half* B,
                                           int m0, int n0, int k0, int M, int N, int K) {
    #pragma unroll
    for (int i = threadIdx.x; i < BM * BK / 8; i += THREADS) {
        const int row = i / (BK / 8), chunk = i % (BK / 8);
        const int m = m0 + row, k = k0 + chunk * 8;
        const bool inside = m < M && k < K;
        const half* src_a = inside ? A + (size_t)m * K + k : A;
        CP_ASYNC_CG(smem_addr(sA + swizzle_a<BK>(row, chunk)), src_a, inside ? 16 : 0);
    }
    #pragma unroll
    for (int i = threadIdx.x; i < BK * BN / 8; i += THREADS) {
        const int row = i / (BN / 8), chunk = i % (BN / 8);
        const int k = k0 + row, n = n0 + chunk * 8;
        const bool inside = k < K && n < N;
        const half* src_b = inside ? B + (size_t)k * N + n : B;
        CP_ASYNC_CG(smem_addr(sB + swizzle_b<BN>(row, chunk)), src_b, inside ? 16 : 0);
    }
}

template <int BM, int BN, int BK, int WM, int WN, int STAGES, int GROUP_M>
__global__ void __launch_bounds__((BM / WM) * (BN / WN) * 32)
hgemm_multistage(const half* __restrict__ A, const half* __restrict__ B, half* __restrict__ C,
                 int M, int N, int K) {
    constexpr int THREADS = (BM / WM) * (BN / WN) * 32;
    constexpr int MI = WM / 16, NI = WN / 8;
    constexpr int LDC = BN + 8;
    extern __shared__ __align__(128) half smem[];
    half* sA = smem;
    half* sB = smem + STAGES * BM * BK;

    // walk GROUP_M tiles down before going one to the right: better L2 reuse of B
    const int tiles_m = (M + BM - 1) / BM;
    const int tiles_n = (N + BN - 1) / BN;
    const int tiles_per_group = GROUP_M * tiles_n;
    const int group = blockIdx.x / tiles_per_group;
    const int in_group = blockIdx.x % tiles_per_group;
    const int group_rows = min(tiles_m - group * GROUP_M, GROUP_M);
    const int m0 = (group * GROUP_M + in_group % group_rows) * BM;
    const int n0 = (in_group / group_rows) * BN;

    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int warp_m = (warp / (BN / WN)) * WM;
    const int warp_n = (warp % (BN / WN)) * WN;

    float acc[MI][NI][4];
    #pragma unroll
    for (int i = 0; i < MI; ++i)
        #pragma unroll
        for (int j = 0; j < NI; ++j)
            acc[i][j][0] = acc[i][j][1] = acc[i][j][2] = acc[i][j][3] = 0.0f;

    const int k_tiles = (K + BK - 1) / BK;

    #pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) {
        if (s < k_tiles)
            load_stage<BM, BN, BK, THREADS>(sA + s * BM * BK, sB + s * BK * BN, A, B, m0, n0, s * BK, M, N, K);
        CP_ASYNC_COMMIT();
    }

    for (int kt = 0; kt < k_tiles; ++kt) {
        CP_ASYNC_WAIT(STAGES - 2);
        __syncthreads();   // tile kt is there for all warps, and nobody reads tile kt - 1 any more

        const int next = kt + STAGES - 1;
        const int slot = next % STAGES;
        if (next < k_tiles)
            load_stage<BM, BN, BK, THREADS>(sA + slot * BM * BK, sB + slot * BK * BN,
                                            A, B, m0, n0, next * BK, M, N, K);
        CP_ASYNC_COMMIT();

        const half* tA = sA + (kt % STAGES) * BM * BK;
        const half* tB = sB + (kt % STAGES) * BK * BN;
        #pragma unroll
        for (int ks = 0; ks < BK / 16; ++ks) {
            unsigned ra[MI][4], rb[NI][2];
            #pragma unroll
            for (int i = 0; i < MI; ++i) {
                const int row = warp_m + i * 16 + lane % 16;
                const int chunk = ks * 2 + lane / 16;
                LDMATRIX_X4(ra[i][0], ra[i][1], ra[i][2], ra[i][3], smem_addr(tA + swizzle_a<BK>(row, chunk)));
            }
            #pragma unroll
            for (int j = 0; j < NI; j += 2) {
                const int row = ks * 16 + lane % 16;
                const int chunk = warp_n / 8 + j + lane / 16;
                LDMATRIX_X4_T(rb[j][0], rb[j][1], rb[j + 1][0], rb[j + 1][1], smem_addr(tB + swizzle_b<BN>(row, chunk)));
            }
            #pragma unroll
            for (int i = 0; i < MI; ++i)
                #pragma unroll
                for (int j = 0; j < NI; ++j)
                    HMMA16816_F32(acc[i][j], ra[i], rb[j]);
        }
    }

    // epilogue: through shared memory, so that C is written in 16-byte pieces
    CP_ASYNC_WAIT(0);
    __syncthreads();   // C lies over the stages
    half* sC = smem;
    #pragma unroll
    for (int i = 0; i < MI; ++i)
        #pragma unroll
        for (int j = 0; j < NI; ++j) {
            half* dst = sC + (warp_m + i * 16 + lane / 4) * LDC + warp_n + j * 8 + (lane % 4) * 2;
            *reinterpret_cast<half2*>(dst) = __floats2half2_rn(acc[i][j][0], acc[i][j][1]);
            *reinterpret_cast<half2*>(dst + 8 * LDC) = __floats2half2_rn(acc[i][j][2], acc[i][j][3]);
        }
    __syncthreads();
    for (int i = threadIdx.x; i < BM * BN / 8; i += THREADS) {
        const int row = i / (BN / 8), col = (i % (BN / 8)) * 8;
        if (m0 + row < M && n0 + col < N)
            *reinterpret_cast<uint4*>(C + (size_t)(m0 + row) * N + n0 + col) =
                *reinterpret_cast<const uint4*>(sC + row * LDC + col);
    }
}
