// y = relu(x * w^T + b), fp16 in, fp16 out, fp32 accumulate.     x: [M, K]   w: [N, K]   b: [N]   y: [M, N]
//
// "Slice-K": small M*N does not give us enough warps, so the 4 warps of a block are arranged 2 (rows) x 2 (k slices).
// Both k slices work on the same 64x64 tile, slice 0 on the even k16 steps of every stage and slice 1 on the odd ones;
// at the end slice 1 hands its accumulators to slice 0 through shared memory.
//
// ldmatrix + mma.m16n8k16 + cp.async, two stages.   K % 8 == 0 and N % 8 == 0 is required, M is arbitrary.

#include <cuda_fp16.h>
#include <stdint.h>

#define BM 64
#define BN 64
#define BK 32
#define STAGES 2
#define PAD 8
#define LDS_ROW (BK + PAD)

#define THREADS 128
#define WARPS_M 2
#define SLICES 2

#define WM (BM / WARPS_M)  // 32
#define TM (WM / 16)       // 2
#define TN (BN / 8)        // 8

#define DIV_CEIL(a, b) (((a) + (b)-1) / (b))

#define CP_ASYNC_CG_ZFILL(dst, src, bytes) \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(bytes))
#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))

#define LDMATRIX_X4(R0, R1, R2, R3, addr)                                               \
    asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n" \
                 : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3)                               \
                 : "r"(addr))

#define HMMA16816F32(RD0, RD1, RD2, RD3, RA0, RA1, RA2, RA3, RB0, RB1)                                      \
    asm volatile(                                                                                           \
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, " \
        "{%0, %1, %2, %3};\n"                                                                               \
        : "+f"(RD0), "+f"(RD1), "+f"(RD2), "+f"(RD3)                                                        \
        : "r"(RA0), "r"(RA1), "r"(RA2), "r"(RA3), "r"(RB0), "r"(RB1))

struct SmemTiles {
    half x[STAGES][BM][LDS_ROW];
    half w[STAGES][BN][LDS_ROW];
};

union Smem {
    SmemTiles tiles;
    float partial[WARPS_M][TM * TN * 4][32];  // accumulators of slice 1, one column per lane
};

__device__ __forceinline__ uint32_t smem_addr(const void *p) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void load_stage(Smem &sm, int stage, const half *x, const half *w, int M, int N, int K,
                                           int row0, int col0, int k0) {
    // 64 rows x 4 chunks of 16 bytes, for x and for w: two chunks of each per thread
#pragma unroll
    for (int it = 0; it < BM * BK / 8 / THREADS; ++it) {
        const int idx = it * THREADS + threadIdx.x;
        const int r = idx / (BK / 8);
        const int c = idx % (BK / 8) * 8;
        const int gk = k0 + c;

        const int gm = row0 + r;
        const bool x_ok = gm < M && gk < K;
        const half *x_src = x_ok ? x + (size_t)gm * K + gk : x;
        CP_ASYNC_CG_ZFILL(smem_addr(&sm.tiles.x[stage][r][c]), x_src, x_ok ? 16 : 0);

        const int gn = col0 + r;
        const bool w_ok = gn < N && gk < K;
        const half *w_src = w_ok ? w + (size_t)gn * K + gk : w;
        CP_ASYNC_CG_ZFILL(smem_addr(&sm.tiles.w[stage][r][c]), w_src, w_ok ? 16 : 0);
    }
}

__global__ void __launch_bounds__(THREADS)
    linear_relu_slicek(const half *__restrict__ x, const half *__restrict__ w, const half *__restrict__ bias,
                       half *__restrict__ y, int M, int N, int K) {
    __shared__ __align__(16) Smem sm;

    const int warp_id = threadIdx.x / 32;
    const int lane_id = threadIdx.x % 32;
    const int warp_m = warp_id % WARPS_M;
    const int slice = warp_id / WARPS_M;

    const int row0 = blockIdx.y * BM;
    const int col0 = blockIdx.x * BN;

    float acc[TM][TN][4];
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j)
#pragma unroll
            for (int r = 0; r < 4; ++r) acc[i][j][r] = 0.f;

    const int k_iters = DIV_CEIL(K, BK);

    load_stage(sm, 0, x, w, M, N, K, row0, col0, 0);
    CP_ASYNC_COMMIT_GROUP();

    for (int it = 0; it < k_iters; ++it) {
        if (it + 1 < k_iters) {
            load_stage(sm, (it + 1) % STAGES, x, w, M, N, K, row0, col0, (it + 1) * BK);
            CP_ASYNC_COMMIT_GROUP();
            CP_ASYNC_WAIT_GROUP(1);
        } else {
            CP_ASYNC_WAIT_GROUP(0);
        }
        __syncthreads();

        const int s = it % STAGES;
        const int kk = slice * 16;

        uint32_t RA[TM][4];
        uint32_t RB[TN][2];

#pragma unroll
        for (int i = 0; i < TM; ++i) {
            const int r = warp_m * WM + i * 16 + lane_id % 16;
            const int c = kk + (lane_id / 16) * 8;
            LDMATRIX_X4(RA[i][0], RA[i][1], RA[i][2], RA[i][3], smem_addr(&sm.tiles.x[s][r][c]));
        }

#pragma unroll
        for (int j = 0; j < TN; j += 2) {
            // matrices: (n 0-7, k 0-7) (n 0-7, k 8-15) (n 8-15, k 0-7) (n 8-15, k 8-15)
            const int r = j * 8 + (lane_id / 16) * 8 + lane_id % 8;
            const int c = kk + (lane_id / 8 % 2) * 8;
            LDMATRIX_X4(RB[j][0], RB[j][1], RB[j + 1][0], RB[j + 1][1], smem_addr(&sm.tiles.w[s][r][c]));
        }

#pragma unroll
        for (int i = 0; i < TM; ++i)
#pragma unroll
            for (int j = 0; j < TN; ++j)
                HMMA16816F32(acc[i][j][0], acc[i][j][1], acc[i][j][2], acc[i][j][3], RA[i][0], RA[i][1], RA[i][2],
                             RA[i][3], RB[j][0], RB[j][1]);

        __syncthreads();
    }

    // slice 1 -> shared memory -> slice 0. The tiles are dead by now, we reuse their memory.
    if (slice == 1) {
#pragma unroll
        for (int i = 0; i < TM; ++i)
#pragma unroll
            for (int j = 0; j < TN; ++j)
#pragma unroll
                for (int r = 0; r < 4; ++r) sm.partial[warp_m][(i * TN + j) * 4 + r][lane_id] = acc[i][j][r];
    }
    __syncthreads();

    if (slice != 0) return;

#pragma unroll
    for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) {
#pragma unroll
            for (int r = 0; r < 4; ++r) acc[i][j][r] += sm.partial[warp_m][(i * TN + j) * 4 + r][lane_id];

            const int gn = col0 + j * 8 + (lane_id % 4) * 2;
            if (gn >= N) continue;
            const float2 b = __half22float2(*reinterpret_cast<const half2 *>(bias + gn));

#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const int gm = row0 + warp_m * WM + i * 16 + lane_id / 4 + h * 8;
                if (gm < M) {
                    const float v0 = fmaxf(acc[i][j][2 * h] + b.x, 0.f);
                    const float v1 = fmaxf(acc[i][j][2 * h + 1] + b.y, 0.f);
                    *reinterpret_cast<half2 *>(y + (size_t)gm * N + gn) = __floats2half2_rn(v0, v1);
                }
            }
        }
    }
}

void linear_relu(const half *x, const half *w, const half *bias, half *y, int M, int N, int K, cudaStream_t stream) {
    dim3 grid(DIV_CEIL(N, BN), DIV_CEIL(M, BM));
    linear_relu_slicek<<<grid, THREADS, 0, stream>>>(x, w, bias, y, M, N, K);
}
