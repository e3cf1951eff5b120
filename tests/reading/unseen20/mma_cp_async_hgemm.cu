// High performance HGEMM with mma.sync PTX, ldmatrix and cp.async double buffering.
//   nvcc -O3 -arch=sm_80 -std=c++17 mma_cp_async_hgemm.cu -o hgemm
//   ./hgemm [M N K]
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define CUDA_CHECK(call)                                                                  \
    do {                                                                                  \
        cudaError_t err_ = (call);                                                        \
        if (err_ != cudaSuccess) {                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(err_)); \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

#define LDMATRIX_X4(R0, R1, R2, R3, addr)                                             \
    asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n" \
                 : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3)                             \
                 : "r"(addr))

#define LDMATRIX_X4_TRANS(R0, R1, R2, R3, addr)                                             \
    asm volatile("ldmatrix.sync.aligned.x4.trans.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n" \
                 : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3)                                   \
                 : "r"(addr))

#define HMMA16816F32(D, A, B)                                                                      \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, "              \
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"                                       \
                 : "+f"((D)[0]), "+f"((D)[1]), "+f"((D)[2]), "+f"((D)[3])                         \
                 : "r"((A)[0]), "r"((A)[1]), "r"((A)[2]), "r"((A)[3]), "r"((B)[0]), "r"((B)[1]))

#define CP_ASYNC_CG(dst, src) \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(dst), "l"(src))
#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))

constexpr int BM = 128;
constexpr int BN = 128;
constexpr int BK = 32;
constexpr int WARPS_M = 2;
constexpr int WARPS_N = 4;
constexpr int WM = BM / WARPS_M;  // 64
constexpr int WN = BN / WARPS_N;  // 32
constexpr int MT = WM / 16;       // 4
constexpr int NT = WN / 8;        // 4
constexpr int THREADS = 32 * WARPS_M * WARPS_N;
constexpr int LDA_S = BK + 8;
constexpr int LDB_S = BN + 8;

__device__ __forceinline__ uint32_t smem_u32(const void* p) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void load_stage(const half* __restrict__ A, const half* __restrict__ B,
                                           half* sA, half* sB, int kt, int N, int K) {
    const int tid = threadIdx.x;
#pragma unroll
    for (int i = 0; i < BM * BK / 8 / THREADS; ++i) {
        int v = tid + i * THREADS;
        int r = v >> 2, c = (v & 3) << 3;
        CP_ASYNC_CG(smem_u32(sA + r * LDA_S + c), A + (size_t)(blockIdx.y * BM + r) * K + kt * BK + c);
    }
#pragma unroll
    for (int i = 0; i < BK * BN / 8 / THREADS; ++i) {
        int v = tid + i * THREADS;
        int r = v >> 4, c = (v & 15) << 3;
        CP_ASYNC_CG(smem_u32(sB + r * LDB_S + c), B + (size_t)(kt * BK + r) * N + blockIdx.x * BN + c);
    }
    CP_ASYNC_COMMIT_GROUP();
}

// C[M,N] = A[M,K] * B[K,N], all row-major
__global__ void __launch_bounds__(THREADS)
hgemm_mma_async(const half* __restrict__ A, const half* __restrict__ B, half* __restrict__ C,
                int M, int N, int K) {
    __shared__ __align__(16) half sA[2][BM * LDA_S];
    __shared__ __align__(16) half sB[2][BK * LDB_S];

    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const int wm = (warp / WARPS_N) * WM;
    const int wn = (warp % WARPS_N) * WN;

    float acc[MT][NT][4] = {};

    const int nk = K / BK;
    load_stage(A, B, sA[0], sB[0], 0, N, K);

    for (int kt = 0; kt < nk; ++kt) {
        const int cur = kt & 1;
        if (kt + 1 < nk) {
            load_stage(A, B, sA[cur ^ 1], sB[cur ^ 1], kt + 1, N, K);
            CP_ASYNC_WAIT_GROUP(1);
        } else {
            CP_ASYNC_WAIT_GROUP(0);
        }
        __syncthreads();

#pragma unroll
        for (int kk = 0; kk < BK; kk += 16) {
            uint32_t a[MT][4], b[NT][2];
#pragma unroll
            for (int i = 0; i < MT; ++i) {
                const half* p = &sA[cur][(wm + i * 16 + (lane & 15)) * LDA_S + kk + (lane >> 4) * 8];
                LDMATRIX_X4(a[i][0], a[i][1], a[i][2], a[i][3], smem_u32(p));
            }
#pragma unroll
            for (int j = 0; j < NT; j += 2) {
                const half* p = &sB[cur][(kk + (lane & 15)) * LDB_S + wn + j * 8 + (lane >> 4) * 8];
                LDMATRIX_X4_TRANS(b[j][0], b[j][1], b[j + 1][0], b[j + 1][1], smem_u32(p));
            }
#pragma unroll
            for (int i = 0; i < MT; ++i)
#pragma unroll
                for (int j = 0; j < NT; ++j) HMMA16816F32(acc[i][j], a[i], b[j]);
        }
        __syncthreads();
    }

    const int g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int i = 0; i < MT; ++i) {
#pragma unroll
        for (int j = 0; j < NT; ++j) {
            const int row = blockIdx.y * BM + wm + i * 16 + g;
            const int col = blockIdx.x * BN + wn + j * 8 + t * 2;
            *reinterpret_cast<half2*>(C + (size_t)row * N + col) =
                __floats2half2_rn(acc[i][j][0], acc[i][j][1]);
            *reinterpret_cast<half2*>(C + (size_t)(row + 8) * N + col) =
                __floats2half2_rn(acc[i][j][2], acc[i][j][3]);
        }
    }
}

int main(int argc, char** argv) {
    int M = 256, N = 256, K = 256;
    if (argc == 4) {
        M = atoi(argv[1]);
        N = atoi(argv[2]);
        K = atoi(argv[3]);
    }
    if (M % BM || N % BN || K % BK) {
        fprintf(stderr, "M, N must be multiples of 128 and K of 32\n");
        return 1;
    }
    std::vector<half> hA((size_t)M * K), hB((size_t)K * N), hC((size_t)M * N);
    srand(2023);
    for (auto& x : hA) x = __float2half((rand() % 2001 - 1000) / 1000.f);
    for (auto& x : hB) x = __float2half((rand() % 2001 - 1000) / 1000.f);

    half *dA, *dB, *dC;
    CUDA_CHECK(cudaMalloc(&dA, hA.size() * sizeof(half)));
    CUDA_CHECK(cudaMalloc(&dB, hB.size() * sizeof(half)));
    CUDA_CHECK(cudaMalloc(&dC, hC.size() * sizeof(half)));
    CUDA_CHECK(cudaMemcpy(dA, hA.data(), hA.size() * sizeof(half), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(dB, hB.data(), hB.size() * sizeof(half), cudaMemcpyHostToDevice));

    dim3 grid(N / BN, M / BM);
    hgemm_mma_async<<<grid, THREADS>>>(dA, dB, dC, M, N, K);  // warm up
    CUDA_CHECK(cudaDeviceSynchronize());

    cudaEvent_t start, stop;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));
    const int iters = 3;
    CUDA_CHECK(cudaEventRecord(start));
    for (int i = 0; i < iters; ++i) hgemm_mma_async<<<grid, THREADS>>>(dA, dB, dC, M, N, K);
    CUDA_CHECK(cudaEventRecord(stop));
    CUDA_CHECK(cudaEventSynchronize(stop));
    float ms = 0.f;
    CUDA_CHECK(cudaEventElapsedTime(&ms, start, stop));
    printf("M=%d N=%d K=%d: %.3f ms, %.2f TFLOPS\n", M, N, K, ms / iters,
           2.0 * M * N * K * iters / (ms * 1e9));

    CUDA_CHECK(cudaMemcpy(hC.data(), dC, hC.size() * sizeof(half), cudaMemcpyDeviceToHost));
    double max_err = 0;
    for (int m = 0; m < M; ++m)
        for (int n = 0; n < N; ++n) {
            float ref = 0.f;
            for (int k = 0; k < K; ++k)
                ref += __half2float(hA[(size_t)m * K + k]) * __half2float(hB[(size_t)k * N + n]);
            double err = fabs(ref - __half2float(hC[(size_t)m * N + n])) / (1.0 + fabs(ref));
            if (!(err <= max_err)) max_err = err;  // NaN, too
        }
    printf("max error %g: %s\n", max_err, max_err < 5e-3 ? "PASS" : "FAIL");
    cudaFree(dA);
    cudaFree(dB);
    cudaFree(dC);
    return max_err < 5e-3 ? 0 : 1;
}
