// HGEMM: C = A * B, A [M, K] row-major, B [K, N] row-major, C [M, N] row-major, half 输入输出, float 累加
// mma.sync.m16n8k16 + ldmatrix + cp.async 双缓冲 (double buffer)
// 要求: M % 128 == 0, N % 128 == 0, K % 32 == 0, sm_80 及以上
// nvcc -O3 -arch=sm_80 hgemm_mma_ldmatrix_db.cu -o hgemm -lcublas
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <cstdint>
#include <vector>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cublas_v2.h>

#define LDST128BITS(value) (reinterpret_cast<float4 *>(&(value))[0])
#define LDST32BITS(value) (reinterpret_cast<half2 *>(&(value))[0])

#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))
// cg 只走 L2, 16 字节
#define CP_ASYNC_CG(dst, src, bytes) \
    asm volatile("cp.async.cg.shared.global [%0], [%1], %2;\n" ::"r"(dst), "l"(src), "n"(bytes))

#define LDMATRIX_X4(R0, R1, R2, R3, addr)                                             \
    asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n" \
                 : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3)                             \
                 : "r"(addr))
#define LDMATRIX_X2_T(R0, R1, addr)                                                 \
    asm volatile("ldmatrix.sync.aligned.x2.trans.m8n8.shared.b16 {%0, %1}, [%2];\n" \
                 : "=r"(R0), "=r"(R1)                                               \
                 : "r"(addr))

#define HMMA16816F32(D, A, B)                                                                    \
    asm volatile(                                                                                \
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "                                     \
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"                      \
        : "+f"(D[0]), "+f"(D[1]), "+f"(D[2]), "+f"(D[3])                                         \
        : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "r"(B[0]), "r"(B[1]))

constexpr int BM = 128;
constexpr int BN = 128;
constexpr int BK = 32;
constexpr int MMA_M = 16;
constexpr int MMA_N = 8;
constexpr int MMA_K = 16;
constexpr int WARPS_M = 2;              // 2 x 4 = 8 个 warp
constexpr int WARPS_N = 4;
constexpr int WM = BM / WARPS_M;        // 64
constexpr int WN = BN / WARPS_N;        // 32
constexpr int TM = WM / MMA_M;          // 4
constexpr int TN = WN / MMA_N;          // 4
constexpr int PAD = 8;                  // 8 个 half, 避免 bank conflict
constexpr int THREADS = 32 * WARPS_M * WARPS_N;

__global__ void __launch_bounds__(THREADS)
hgemm_mma_m16n8k16_db_kernel(const half *__restrict__ A, const half *__restrict__ B, half *__restrict__ C,
                             int M, int N, int K) {
    __shared__ __align__(16) half s_a[2][BM][BK + PAD];
    __shared__ __align__(16) half s_b[2][BK][BN + PAD];

    const int tid = threadIdx.x;
    const int warp_id = tid / 32;
    const int lane_id = tid % 32;
    const int warp_m = warp_id / WARPS_N;
    const int warp_n = warp_id % WARPS_N;
    const int block_m = blockIdx.y * BM;
    const int block_n = blockIdx.x * BN;

    float acc[TM][TN][4] = {};

    // global -> shared, A: 128x32 = 512 个 16B, B: 32x128 = 512 个 16B, 每线程各 2 个
    auto load_tile = [&](int stage, int k0) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            int c = tid + i * THREADS;
            int row = c / (BK / 8);
            int col = (c % (BK / 8)) * 8;
            uint32_t dst = (uint32_t)__cvta_generic_to_shared(&s_a[stage][row][col]);
            CP_ASYNC_CG(dst, &A[(size_t)(block_m + row) * K + k0 + col], 16);
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            int c = tid + i * THREADS;
            int row = c / (BN / 8);
            int col = (c % (BN / 8)) * 8;
            uint32_t dst = (uint32_t)__cvta_generic_to_shared(&s_b[stage][row][col]);
            CP_ASYNC_CG(dst, &B[(size_t)(k0 + row) * N + block_n + col], 16);
        }
    };

    const int num_k_tiles = K / BK;
    load_tile(0, 0);
    CP_ASYNC_COMMIT_GROUP();

    for (int kt = 0; kt < num_k_tiles; ++kt) {
        const int cur = kt & 1;
        // 等当前 stage 到齐; 同步之后上一轮的 stage 也没有人再读了
        CP_ASYNC_WAIT_GROUP(0);
        __syncthreads();

        if (kt + 1 < num_k_tiles) {
            load_tile(cur ^ 1, (kt + 1) * BK);
            CP_ASYNC_COMMIT_GROUP();
        }

#pragma unroll
        for (int kk = 0; kk < BK; kk += MMA_K) {
            uint32_t ra[TM][4];
            uint32_t rb[TN][2];
#pragma unroll
            for (int i = 0; i < TM; ++i) {
                int row = warp_m * WM + i * MMA_M + lane_id % 16;
                int col = kk + (lane_id / 16) * 8;
                uint32_t addr = (uint32_t)__cvta_generic_to_shared(&s_a[cur][row][col]);
                LDMATRIX_X4(ra[i][0], ra[i][1], ra[i][2], ra[i][3], addr);
            }
#pragma unroll
            for (int j = 0; j < TN; ++j) {
                // B 是 row-major [K, N], 需要 trans
                int row = kk + lane_id % 16;
                int col = warp_n * WN + j * MMA_N;
                uint32_t addr = (uint32_t)__cvta_generic_to_shared(&s_b[cur][row][col]);
                LDMATRIX_X2_T(rb[j][0], rb[j][1], addr);
            }
#pragma unroll
            for (int i = 0; i < TM; ++i) {
#pragma unroll
                for (int j = 0; j < TN; ++j) {
                    HMMA16816F32(acc[i][j], ra[i], rb[j]);
                }
            }
        }
    }

    // 写回: c0 c1 在 row = lane / 4, c2 c3 在 row + 8
#pragma unroll
    for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) {
            int row = block_m + warp_m * WM + i * MMA_M + lane_id / 4;
            int col = block_n + warp_n * WN + j * MMA_N + (lane_id % 4) * 2;
            LDST32BITS(C[(size_t)row * N + col]) = __floats2half2_rn(acc[i][j][0], acc[i][j][1]);
            LDST32BITS(C[(size_t)(row + 8) * N + col]) = __floats2half2_rn(acc[i][j][2], acc[i][j][3]);
        }
    }
}

void hgemm_mma_db(const half *A, const half *B, half *C, int M, int N, int K, cudaStream_t stream = 0) {
    dim3 block(THREADS);
    dim3 grid(N / BN, M / BM);
    hgemm_mma_m16n8k16_db_kernel<<<grid, block, 0, stream>>>(A, B, C, M, N, K);
}

int main(int argc, char **argv) {
    const int M = argc > 1 ? atoi(argv[1]) : 1024;
    const int N = argc > 2 ? atoi(argv[2]) : 2048;
    const int K = argc > 3 ? atoi(argv[3]) : 512;
    if (M % BM || N % BN || K % BK) {
        printf("M, N 必须是 128 的倍数, K 必须是 32 的倍数\n");
        return 1;
    }

    std::vector<half> hA((size_t)M * K), hB((size_t)K * N), hC((size_t)M * N), hR((size_t)M * N);
    srand(2023);
    for (auto &x : hA) x = __float2half((rand() / (float)RAND_MAX) - 0.5f);
    for (auto &x : hB) x = __float2half((rand() / (float)RAND_MAX) - 0.5f);

    half *dA, *dB, *dC, *dR;
    cudaMalloc(&dA, hA.size() * sizeof(half));
    cudaMalloc(&dB, hB.size() * sizeof(half));
    cudaMalloc(&dC, hC.size() * sizeof(half));
    cudaMalloc(&dR, hR.size() * sizeof(half));
    cudaMemcpy(dA, hA.data(), hA.size() * sizeof(half), cudaMemcpyHostToDevice);
    cudaMemcpy(dB, hB.data(), hB.size() * sizeof(half), cudaMemcpyHostToDevice);

    hgemm_mma_db(dA, dB, dC, M, N, K);

    // cublas 是 col-major, 所以算 C^T = B^T * A^T
    cublasHandle_t handle;
    cublasCreate(&handle);
    float alpha = 1.f, beta = 0.f;
    cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, N, M, K, &alpha, dB, CUDA_R_16F, N, dA, CUDA_R_16F, K, &beta, dR,
                 CUDA_R_16F, N, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT_TENSOR_OP);

    cudaMemcpy(hC.data(), dC, hC.size() * sizeof(half), cudaMemcpyDeviceToHost);
    cudaMemcpy(hR.data(), dR, hR.size() * sizeof(half), cudaMemcpyDeviceToHost);
    float max_err = 0.f;
    for (size_t i = 0; i < hC.size(); ++i)
        max_err = fmaxf(max_err, fabsf(__half2float(hC[i]) - __half2float(hR[i])));
    printf("M=%d N=%d K=%d max_err=%f\n", M, N, K, max_err);

    cudaEvent_t start, stop;
    cudaEventCreate(&start);
    cudaEventCreate(&stop);
    const int iters = 20;
    cudaEventRecord(start);
    for (int i = 0; i < iters; ++i) hgemm_mma_db(dA, dB, dC, M, N, K);
    cudaEventRecord(stop);
    cudaEventSynchronize(stop);
    float ms = 0.f;
    cudaEventElapsedTime(&ms, start, stop);
    printf("time %.4f ms, %.2f TFLOPS\n", ms / iters, 2.0 * M * N * K * 1e-9 * iters / ms);

    cublasDestroy(handle);
    cudaFree(dA);
    cudaFree(dB);
    cudaFree(dC);
    cudaFree(dR);
    return max_err < 0.05f ? 0 : 1;
}
