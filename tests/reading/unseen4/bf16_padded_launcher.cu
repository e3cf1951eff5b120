// bf16 GEMM with padded shared memory; from a matmul ladder: "Kernel 3: block tiling".
#include <cuda_bf16.h>
#include <mma.h>
#include <cstdint>

namespace gemm_v3 {

constexpr int kBlockM = 64;
constexpr int kBlockN = 64;
constexpr int kBlockK = 32;
constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;
constexpr int kPad = 8;
constexpr int kLdA = kBlockK + kPad;
constexpr int kLdB = kBlockN + kPad;

using bf16 = __nv_bfloat16;

__host__ __device__ constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

__global__ void __launch_bounds__(kThreads)
matmul_bf16_kernel(const bf16 *__restrict__ A, const bf16 *__restrict__ B, bf16 *__restrict__ C, int M, int N, int K) {
    using namespace nvcuda::wmma;
    __shared__ bf16 As[kBlockM * kLdA];
    __shared__ bf16 Bs[kBlockK * kLdB];
    __shared__ float Cs[kWarps][16 * 20];

    const int tid = threadIdx.x;
    const int warp = tid / 32;
    const int lane = tid % 32;
    const int wm = warp / 2, wn = warp % 2;
    const int row0 = blockIdx.y * kBlockM;
    const int col0 = blockIdx.x * kBlockN;

    fragment<accumulator, 16, 16, 16, float> acc[2][2];
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) fill_fragment(acc[i][j], 0.f);

    for (int k0 = 0; k0 < K; k0 += kBlockK) {
        for (int idx = tid; idx < kBlockM * kBlockK; idx += kThreads) {
            int r = idx / kBlockK, c = idx % kBlockK;
            bool ok = (row0 + r < M) && (k0 + c < K);
            As[r * kLdA + c] = ok ? A[(int64_t)(row0 + r) * K + k0 + c] : __float2bfloat16(0.f);
        }
        for (int idx = tid; idx < kBlockK * kBlockN; idx += kThreads) {
            int r = idx / kBlockN, c = idx % kBlockN;
            bool ok = (k0 + r < K) && (col0 + c < N);
            Bs[r * kLdB + c] = ok ? B[(int64_t)(k0 + r) * N + col0 + c] : __float2bfloat16(0.f);
        }
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < kBlockK; kk += 16) {
            fragment<matrix_a, 16, 16, 16, bf16, row_major> a[2];
            fragment<matrix_b, 16, 16, 16, bf16, row_major> b[2];
            for (int i = 0; i < 2; ++i) load_matrix_sync(a[i], &As[(wm * 32 + i * 16) * kLdA + kk], kLdA);
            for (int j = 0; j < 2; ++j) load_matrix_sync(b[j], &Bs[kk * kLdB + wn * 32 + j * 16], kLdB);
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 2; ++j) mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        }
        __syncthreads();
    }

    for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < 2; ++j) {
            store_matrix_sync(Cs[warp], acc[i][j], 20, mem_row_major);
            __syncwarp();
            for (int e = lane; e < 256; e += 32) {
                int r = row0 + wm * 32 + i * 16 + e / 16;
                int c = col0 + wn * 32 + j * 16 + e % 16;
                if (r < M && c < N) C[(int64_t)r * N + c] = __float2bfloat16(Cs[warp][(e / 16) * 20 + e % 16]);
            }
            __syncwarp();
        }
    }
}

}  // namespace gemm_v3

void runKernel3(int M, int N, int K, __nv_bfloat16 *A, __nv_bfloat16 *B, __nv_bfloat16 *C) {
    using namespace gemm_v3;
    dim3 grid(ceil_div(N, kBlockN), ceil_div(M, kBlockM));
    matmul_bf16_kernel<<<grid, kThreads>>>(A, B, C, M, N, K);
}
