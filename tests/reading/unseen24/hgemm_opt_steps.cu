// HGEMM 优化之路 (Ampere)
//
//   C = A * B      A: M x K 行主序, B: K x N 行主序, C: M x N 行主序, 全部为 half
//
//   v1  naive WMMA, 每个 warp 计算一个 16x16 的 tile, 直接从 global memory 读
//   v2  shared memory 分块 128x128x32, 8 个 warp, padding 消除 bank conflict
//   v3  v2 + cp.async + double buffer
//   v4  mma.sync.m16n8k16 + ldmatrix + swizzle, 三级流水线 (dynamic smem)
//
// v2 之后要求 M, N 是 128 的倍数, K 是 32 的倍数.
// 编译: nvcc -arch=sm_80 -O3 -std=c++17 hgemm_opt_steps.cu -o hgemm
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <vector>

using namespace nvcuda;

#define OFFSET(row, col, ld) ((row) * (ld) + (col))
#define FLOAT4(pointer) (reinterpret_cast<float4 *>(&(pointer))[0])
#define CFLOAT4(pointer) (reinterpret_cast<const float4 *>(&(pointer))[0])

#define CP_ASYNC_CG(dst, src) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(dst), "l"(src))
#define CP_ASYNC_COMMIT() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))

#define LDMATRIX_X4(R0, R1, R2, R3, addr)                                                  \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"      \
                 : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3)                                  \
                 : "r"(addr))
#define LDMATRIX_X2_TRANS(R0, R1, addr)                                                    \
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];\n"        \
                 : "=r"(R0), "=r"(R1)                                                      \
                 : "r"(addr))
#define HMMA16816(RD0, RD1, RA0, RA1, RA2, RA3, RB0, RB1, RC0, RC1)                        \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, "            \
                 "{%2, %3, %4, %5}, {%6, %7}, {%8, %9};\n"                                 \
                 : "=r"(RD0), "=r"(RD1)                                                    \
                 : "r"(RA0), "r"(RA1), "r"(RA2), "r"(RA3), "r"(RB0), "r"(RB1), "r"(RC0), "r"(RC1))

constexpr int BM = 128, BN = 128, BK = 32;
constexpr int APAD = 8, BPAD = 8;

// ---------------------------------------------------------------- v1
__global__ void hgemm_v1_naive(const half *A, const half *B, half *C, int M, int N, int K) {
    const int row = blockIdx.y * 16;
    const int col = blockIdx.x * 16;
    if (row >= M || col >= N) return;

    wmma::fragment<wmma::accumulator, 16, 16, 16, half> c_frag;
    wmma::fill_fragment(c_frag, __float2half(0.0f));
    for (int k = 0; k < K; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a_frag;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b_frag;
        wmma::load_matrix_sync(a_frag, A + OFFSET(row, k, K), K);
        wmma::load_matrix_sync(b_frag, B + OFFSET(k, col, N), N);
        wmma::mma_sync(c_frag, a_frag, b_frag, c_frag);
    }
    wmma::store_matrix_sync(C + OFFSET(row, col, N), c_frag, N, wmma::mem_row_major);
}

// ---------------------------------------------------------------- v2
__global__ void __launch_bounds__(256) hgemm_v2_smem(const half *A, const half *B, half *C, int M, int N, int K) {
    __shared__ __align__(32) half s_a[BM][BK + APAD];
    __shared__ __align__(32) half s_b[BK][BN + BPAD];

    const int tid = threadIdx.x, wid = tid >> 5;
    const int warp_m = wid & 3;   // 4 个 warp 沿 M, 每个 32 行
    const int warp_n = wid >> 2;  // 2 个 warp 沿 N, 每个 64 列

    wmma::fragment<wmma::accumulator, 16, 16, 16, half> acc[2][4];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++) wmma::fill_fragment(acc[i][j], __float2half(0.0f));

    for (int k0 = 0; k0 < K; k0 += BK) {
        // 128x32 = 512 个 float4, 每个线程搬 2 个
        for (int i = tid; i < BM * BK / 8; i += 256) {
            const int r = i / (BK / 8), c = (i % (BK / 8)) * 8;
            FLOAT4(s_a[r][c]) = CFLOAT4(A[OFFSET(blockIdx.y * BM + r, k0 + c, K)]);
        }
        for (int i = tid; i < BK * BN / 8; i += 256) {
            const int r = i / (BN / 8), c = (i % (BN / 8)) * 8;
            FLOAT4(s_b[r][c]) = CFLOAT4(B[OFFSET(k0 + r, blockIdx.x * BN + c, N)]);
        }
        __syncthreads();

        for (int kk = 0; kk < BK; kk += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb[4];
            for (int i = 0; i < 2; i++) wmma::load_matrix_sync(fa[i], &s_a[warp_m * 32 + i * 16][kk], BK + APAD);
            for (int j = 0; j < 4; j++) wmma::load_matrix_sync(fb[j], &s_b[kk][warp_n * 64 + j * 16], BN + BPAD);
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 4; j++) wmma::mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
        }
        __syncthreads();
    }

    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++) {
            const int row = blockIdx.y * BM + warp_m * 32 + i * 16;
            const int col = blockIdx.x * BN + warp_n * 64 + j * 16;
            wmma::store_matrix_sync(C + OFFSET(row, col, N), acc[i][j], N, wmma::mem_row_major);
        }
}

// ---------------------------------------------------------------- v3
__global__ void __launch_bounds__(256) hgemm_v3_async(const half *A, const half *B, half *C, int M, int N, int K) {
    __shared__ __align__(32) half s_a[2][BM][BK + APAD];
    __shared__ __align__(32) half s_b[2][BK][BN + BPAD];

    const int tid = threadIdx.x, wid = tid >> 5;
    const int warp_m = wid & 3, warp_n = wid >> 2;

    // 每个线程固定负责 A 的 2 个 float4 和 B 的 2 个 float4
    const int a_r = tid >> 2, a_c = (tid & 3) * 8;   // 64 行 / 次
    const int b_r = tid >> 4, b_c = (tid & 15) * 8;  // 16 行 / 次
    const half *a_ptr = A + OFFSET(blockIdx.y * BM + a_r, a_c, K);
    const half *b_ptr = B + OFFSET(b_r, blockIdx.x * BN + b_c, N);

    auto load_stage = [&](int s, int k0) {
        CP_ASYNC_CG((uint32_t)__cvta_generic_to_shared(&s_a[s][a_r][a_c]), a_ptr + k0);
        CP_ASYNC_CG((uint32_t)__cvta_generic_to_shared(&s_a[s][a_r + 64][a_c]), a_ptr + k0 + 64 * K);
        CP_ASYNC_CG((uint32_t)__cvta_generic_to_shared(&s_b[s][b_r][b_c]), b_ptr + k0 * N);
        CP_ASYNC_CG((uint32_t)__cvta_generic_to_shared(&s_b[s][b_r + 16][b_c]), b_ptr + (k0 + 16) * N);
        CP_ASYNC_COMMIT();
    };

    wmma::fragment<wmma::accumulator, 16, 16, 16, half> acc[2][4];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++) wmma::fill_fragment(acc[i][j], __float2half(0.0f));

    load_stage(0, 0);
    const int k_tiles = K / BK;
    for (int t = 0; t < k_tiles; t++) {
        const int cur = t & 1;
        CP_ASYNC_WAIT(0);
        __syncthreads();  // 同时保证上一轮的 buffer 已经用完
        if (t + 1 < k_tiles) load_stage(cur ^ 1, (t + 1) * BK);

        for (int kk = 0; kk < BK; kk += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb[4];
            for (int i = 0; i < 2; i++) wmma::load_matrix_sync(fa[i], &s_a[cur][warp_m * 32 + i * 16][kk], BK + APAD);
            for (int j = 0; j < 4; j++) wmma::load_matrix_sync(fb[j], &s_b[cur][kk][warp_n * 64 + j * 16], BN + BPAD);
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 4; j++) wmma::mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
        }
    }

    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++) {
            const int row = blockIdx.y * BM + warp_m * 32 + i * 16;
            const int col = blockIdx.x * BN + warp_n * 64 + j * 16;
            wmma::store_matrix_sync(C + OFFSET(row, col, N), acc[i][j], N, wmma::mem_row_major);
        }
}

// ---------------------------------------------------------------- v4
// A tile 每行 64B (4 个 16B chunk), B tile 每行 256B (16 个 chunk).
// swizzle: chunk 编号与行号异或, 这样 ldmatrix 的 8 行落在不同的 bank.
__device__ __forceinline__ int swz_a(int r, int chunk) { return r * BK + ((chunk ^ ((r >> 1) & 3)) << 3); }
__device__ __forceinline__ int swz_b(int r, int chunk) { return r * BN + ((chunk ^ (r & 7)) << 3); }

constexpr int STAGES = 3;
constexpr int STAGE_HALFS = BM * BK + BK * BN;
constexpr int V4_SMEM = STAGES * STAGE_HALFS * (int)sizeof(half);

__global__ void __launch_bounds__(256) hgemm_v4_mma(const half *A, const half *B, half *C, int M, int N, int K) {
    extern __shared__ __align__(128) half smem[];
    const int tid = threadIdx.x, wid = tid >> 5, lane = tid & 31;
    const int warp_m = (wid >> 2) * 64;  // 2 x 4 个 warp, 每个 64x32
    const int warp_n = (wid & 3) * 32;
    const int bm = blockIdx.y * BM, bn = blockIdx.x * BN;
    const int k_tiles = K / BK;

    auto load_stage = [&](int t) {
        half *sa = smem + (t % STAGES) * STAGE_HALFS;
        half *sb = sa + BM * BK;
        for (int i = tid; i < BM * 4; i += 256) {
            const int r = i >> 2, ch = i & 3;
            CP_ASYNC_CG((uint32_t)__cvta_generic_to_shared(sa + swz_a(r, ch)), A + OFFSET(bm + r, t * BK + ch * 8, K));
        }
        for (int i = tid; i < BK * 16; i += 256) {
            const int r = i >> 4, ch = i & 15;
            CP_ASYNC_CG((uint32_t)__cvta_generic_to_shared(sb + swz_b(r, ch)), B + OFFSET(t * BK + r, bn + ch * 8, N));
        }
    };

    uint32_t RC[4][4][2] = {};
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < k_tiles) load_stage(s);
        CP_ASYNC_COMMIT();
    }

    for (int t = 0; t < k_tiles; t++) {
        CP_ASYNC_WAIT(STAGES - 2);
        __syncthreads();
        if (t + STAGES - 1 < k_tiles) load_stage(t + STAGES - 1);
        CP_ASYNC_COMMIT();  // 可能为空, 但 group 的数目必须一致

        const half *sa = smem + (t % STAGES) * STAGE_HALFS;
        const half *sb = sa + BM * BK;
#pragma unroll
        for (int kk = 0; kk < BK / 16; kk++) {
            uint32_t RA[4][4], RB[4][2];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int r = warp_m + i * 16 + (lane & 15), ch = kk * 2 + (lane >> 4);
                LDMATRIX_X4(RA[i][0], RA[i][1], RA[i][2], RA[i][3], (uint32_t)__cvta_generic_to_shared(sa + swz_a(r, ch)));
            }
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const int r = kk * 16 + (lane & 15), ch = warp_n / 8 + j;
                LDMATRIX_X2_TRANS(RB[j][0], RB[j][1], (uint32_t)__cvta_generic_to_shared(sb + swz_b(r, ch)));
            }
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    HMMA16816(RC[i][j][0], RC[i][j][1], RA[i][0], RA[i][1], RA[i][2], RA[i][3], RB[j][0], RB[j][1],
                              RC[i][j][0], RC[i][j][1]);
        }
    }

    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            const int r = bm + warp_m + i * 16 + (lane >> 2);
            const int c = bn + warp_n + j * 8 + (lane & 3) * 2;
            *reinterpret_cast<uint32_t *>(&C[OFFSET(r, c, N)]) = RC[i][j][0];
            *reinterpret_cast<uint32_t *>(&C[OFFSET(r + 8, c, N)]) = RC[i][j][1];
        }
}

// ---------------------------------------------------------------- 测试
static void launch(int version, const half *A, const half *B, half *C, int M, int N, int K) {
    dim3 grid(N / BN, M / BM);
    switch (version) {
        case 1: hgemm_v1_naive<<<dim3(N / 16, M / 16), 32>>>(A, B, C, M, N, K); break;
        case 2: hgemm_v2_smem<<<grid, 256>>>(A, B, C, M, N, K); break;
        case 3: hgemm_v3_async<<<grid, 256>>>(A, B, C, M, N, K); break;
        case 4:
            cudaFuncSetAttribute(hgemm_v4_mma, cudaFuncAttributeMaxDynamicSharedMemorySize, V4_SMEM);
            hgemm_v4_mma<<<grid, 256, V4_SMEM>>>(A, B, C, M, N, K);
            break;
    }
}

int main(int argc, char **argv) {
    const int M = argc > 1 ? atoi(argv[1]) : 128;
    const int N = argc > 2 ? atoi(argv[2]) : 256;
    const int K = argc > 3 ? atoi(argv[3]) : 160;
    std::vector<half> hA(M * K), hB(K * N), hC(M * N);
    std::vector<float> ref(M * N, 0.f);
    for (auto &v : hA) v = __float2half(rand() % 1000 / 1000.f - 0.5f);
    for (auto &v : hB) v = __float2half(rand() % 1000 / 1000.f - 0.5f);
    for (int i = 0; i < M; i++)
        for (int k = 0; k < K; k++) {
            const float a = __half2float(hA[OFFSET(i, k, K)]);
            for (int j = 0; j < N; j++) ref[OFFSET(i, j, N)] += a * __half2float(hB[OFFSET(k, j, N)]);
        }

    half *dA, *dB, *dC;
    cudaMalloc(&dA, hA.size() * sizeof(half));
    cudaMalloc(&dB, hB.size() * sizeof(half));
    cudaMalloc(&dC, hC.size() * sizeof(half));
    cudaMemcpy(dA, hA.data(), hA.size() * sizeof(half), cudaMemcpyHostToDevice);
    cudaMemcpy(dB, hB.data(), hB.size() * sizeof(half), cudaMemcpyHostToDevice);

    int bad = 0;
    for (int version = 1; version <= 4; version++) {
        cudaMemset(dC, 0, hC.size() * sizeof(half));
        cudaEvent_t beg, end;
        cudaEventCreate(&beg);
        cudaEventCreate(&end);
        cudaEventRecord(beg);
        launch(version, dA, dB, dC, M, N, K);
        cudaEventRecord(end);
        cudaEventSynchronize(end);
        float ms = 0.f;
        cudaEventElapsedTime(&ms, beg, end);
        cudaMemcpy(hC.data(), dC, hC.size() * sizeof(half), cudaMemcpyDeviceToHost);
        float max_err = 0.f;
        for (int i = 0; i < M * N; i++) {
            const float e = fabsf(__half2float(hC[i]) - ref[i]);
            if (!(e <= max_err)) max_err = e;  // NaN 也算错误
        }
        const bool ok = max_err < 5e-2f;
        printf("v%d: max error %.5f, %.3f ms, %.2f TFLOPS  [%s]\n", version, max_err, ms, 2e-9 * M * N * K / ms, ok ? "OK" : "FAIL");
        bad += !ok;
    }
    cudaFree(dA);
    cudaFree(dB);
    cudaFree(dC);
    return bad;
}
