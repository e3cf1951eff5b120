// Tensor core GEMM written with inline PTX: cp.async + ldmatrix + mma.m16n8k16, XOR swizzled shared memory.
//   C (MxN, row major, float) = A (MxK, row major, half) * B (KxN, column major, half)
// build: nvcc -O3 -arch=sm_80 -std=c++17 ptx_ldmatrix_gemm_tn.cu -o gemm_tn
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define CUDA_CHECK(expr)                                                                      \
    do {                                                                                      \
        cudaError_t err_ = (expr);                                                            \
        if (err_ != cudaSuccess) {                                                            \
            fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(err_));      \
            exit(EXIT_FAILURE);                                                               \
        }                                                                                     \
    } while (0)

constexpr int kBlockM = 64;
constexpr int kBlockN = 64;
constexpr int kBlockK = 32;
constexpr int kWarpM = 32;
constexpr int kWarpN = 32;
constexpr int kThreads = 128;
constexpr int kChunk = 8;                        // halves in 16 bytes
constexpr int kChunksPerRow = kBlockK / kChunk;  // 4

__device__ __forceinline__ uint32_t smem_u32(const void* p) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void cp_async16(void* dst, const void* src) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;\n" ::"r"(smem_u32(dst)), "l"(src));
}

__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], uint32_t addr) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(addr));
}

__device__ __forceinline__ void ldmatrix_x2(uint32_t (&r)[2], uint32_t addr) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];\n"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(addr));
}

__device__ __forceinline__ void mma16816(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// element offset of a 16-byte chunk; four chunks a row, two rows share 128 bytes
__device__ __forceinline__ int swizzle(int row, int chunk) {
    return row * kBlockK + ((chunk ^ ((row >> 1) & 3)) * kChunk);
}

__device__ __forceinline__ void load_tile(half* smem, const half* gmem, int ld) {
#pragma unroll
    for (int i = threadIdx.x; i < kBlockM * kChunksPerRow; i += kThreads) {
        const int row = i / kChunksPerRow;
        const int chunk = i % kChunksPerRow;
        cp_async16(smem + swizzle(row, chunk), gmem + (size_t)row * ld + chunk * kChunk);
    }
}

__global__ void __launch_bounds__(kThreads) gemm_tn_kernel(const half* __restrict__ A, const half* __restrict__ B,
                                                           float* __restrict__ C, int M, int N, int K) {
    __shared__ __align__(128) half As[2][kBlockM * kBlockK];
    __shared__ __align__(128) half Bs[2][kBlockN * kBlockK];

    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int warp_m = (warp >> 1) * kWarpM;
    const int warp_n = (warp & 1) * kWarpN;

    const half* gA = A + (size_t)blockIdx.y * kBlockM * K;
    const half* gB = B + (size_t)blockIdx.x * kBlockN * K;

    float acc[2][4][4] = {};

    load_tile(As[0], gA, K);
    load_tile(Bs[0], gB, K);
    asm volatile("cp.async.commit_group;\n" ::);

    const int tiles = K / kBlockK;
    for (int t = 0; t < tiles; ++t) {
        if (t + 1 < tiles) {
            load_tile(As[(t + 1) & 1], gA + (t + 1) * kBlockK, K);
            load_tile(Bs[(t + 1) & 1], gB + (t + 1) * kBlockK, K);
        }
        asm volatile("cp.async.commit_group;\n" ::);
        asm volatile("cp.async.wait_group 1;\n" ::);
        __syncthreads();

        const half* sA = As[t & 1];
        const half* sB = Bs[t & 1];
#pragma unroll
        for (int kk = 0; kk < kBlockK / 16; ++kk) {
            uint32_t a[2][4], b[4][2];
#pragma unroll
            for (int mi = 0; mi < 2; ++mi) {
                const int row = warp_m + mi * 16 + (lane & 15);
                ldmatrix_x4(a[mi], smem_u32(sA + swizzle(row, kk * 2 + (lane >> 4))));
            }
#pragma unroll
            for (int ni = 0; ni < 4; ++ni) {
                const int row = warp_n + ni * 8 + (lane & 7);
                ldmatrix_x2(b[ni], smem_u32(sB + swizzle(row, kk * 2 + ((lane >> 3) & 1))));
            }
#pragma unroll
            for (int mi = 0; mi < 2; ++mi)
#pragma unroll
                for (int ni = 0; ni < 4; ++ni) mma16816(acc[mi][ni], a[mi], b[ni]);
        }
        __syncthreads();
    }

    const int group = lane >> 2, quad = lane & 3;
#pragma unroll
    for (int mi = 0; mi < 2; ++mi) {
#pragma unroll
        for (int ni = 0; ni < 4; ++ni) {
            const int row = blockIdx.y * kBlockM + warp_m + mi * 16 + group;
            const int col = blockIdx.x * kBlockN + warp_n + ni * 8 + quad * 2;
            *reinterpret_cast<float2*>(&C[(size_t)row * N + col]) = make_float2(acc[mi][ni][0], acc[mi][ni][1]);
            *reinterpret_cast<float2*>(&C[(size_t)(row + 8) * N + col]) = make_float2(acc[mi][ni][2], acc[mi][ni][3]);
        }
    }
}

int main(int argc, char** argv) {
    const int M = argc > 1 ? atoi(argv[1]) : 192;
    const int N = argc > 2 ? atoi(argv[2]) : 128;
    const int K = argc > 3 ? atoi(argv[3]) : 160;
    if (M % kBlockM || N % kBlockN || K % kBlockK) {
        fprintf(stderr, "M and N must be multiples of 64, K of 32\n");
        return 1;
    }
    std::vector<half> hA((size_t)M * K), hB((size_t)K * N);
    std::vector<float> hC((size_t)M * N);
    srand(2024);
    for (auto& x : hA) x = __float2half(rand() / (float)RAND_MAX - 0.5f);
    for (auto& x : hB) x = __float2half(rand() / (float)RAND_MAX - 0.5f);

    half *dA, *dB;
    float* dC;
    CUDA_CHECK(cudaMalloc(&dA, hA.size() * sizeof(half)));
    CUDA_CHECK(cudaMalloc(&dB, hB.size() * sizeof(half)));
    CUDA_CHECK(cudaMalloc(&dC, hC.size() * sizeof(float)));
    CUDA_CHECK(cudaMemcpy(dA, hA.data(), hA.size() * sizeof(half), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(dB, hB.data(), hB.size() * sizeof(half), cudaMemcpyHostToDevice));

    dim3 grid(N / kBlockN, M / kBlockM);
    gemm_tn_kernel<<<grid, kThreads>>>(dA, dB, dC, M, N, K);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(hC.data(), dC, hC.size() * sizeof(float), cudaMemcpyDeviceToHost));

    float max_err = 0.f;
    for (int i = 0; i < M; ++i) {
        for (int j = 0; j < N; ++j) {
            float ref = 0.f;
            for (int k = 0; k < K; ++k) ref += __half2float(hA[(size_t)i * K + k]) * __half2float(hB[(size_t)j * K + k]);
            max_err = fmaxf(max_err, fabsf(ref - hC[(size_t)i * N + j]));
        }
    }
    printf("M=%d N=%d K=%d max error %g: %s\n", M, N, K, max_err, max_err < 1e-3f ? "PASS" : "FAIL");
    cudaFree(dA);
    cudaFree(dB);
    cudaFree(dC);
    return max_err < 1e-3f ? 0 : 2;
}
