// int8 x int8 -> half with per-token and per-channel scales (SmoothQuant style), mma.m16n8k32.
#include <cuda_fp16.h>
#include <cstdint>

#define DIVUP(x, y) (((x) + (y) - 1) / (y))

template <int BLOCK_M, int BLOCK_N>
struct W8A8Kernel {
    static constexpr int kWarpsM = BLOCK_M / 16;
    static constexpr int kThreads = kWarpsM * 32;

    static __device__ __forceinline__ void mma(int (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
        asm volatile(
            "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
            : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
};

template <int BLOCK_M, int BLOCK_N>
__global__ void w8a8_gemm_kernel(const int8_t *__restrict__ act, const int8_t *__restrict__ weight,
                                 const float *__restrict__ act_scale, const float *__restrict__ weight_scale,
                                 half *__restrict__ out, int M, int N, int K) {
    using Kernel = W8A8Kernel<BLOCK_M, BLOCK_N>;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int g = lane / 4, t = lane % 4;
    const int m = blockIdx.y * BLOCK_M + warp * 16;
    const int n = blockIdx.x * BLOCK_N;
    int acc[BLOCK_N / 8][4] = {};
    auto row_a = [&](int r) { return act + (size_t)(r < M ? r : M - 1) * K; };
    for (int k = 0; k < K; k += 32) {
        uint32_t a[4];
        a[0] = *(const uint32_t *)(row_a(m + g) + k + t * 4);
        a[1] = *(const uint32_t *)(row_a(m + g + 8) + k + t * 4);
        a[2] = *(const uint32_t *)(row_a(m + g) + k + t * 4 + 16);
        a[3] = *(const uint32_t *)(row_a(m + g + 8) + k + t * 4 + 16);
#pragma unroll
        for (int j = 0; j < BLOCK_N / 8; ++j) {
            const int col = n + j * 8 + g;
            const int8_t *w = weight + (size_t)(col < N ? col : N - 1) * K + k;
            uint32_t b[2] = {*(const uint32_t *)(w + t * 4), *(const uint32_t *)(w + t * 4 + 16)};
            Kernel::mma(acc[j], a, b);
        }
    }
#pragma unroll
    for (int j = 0; j < BLOCK_N / 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            int r = m + g + (e / 2) * 8, c = n + j * 8 + t * 2 + (e & 1);
            if (r < M && c < N) out[(size_t)r * N + c] = __float2half((float)acc[j][e] * act_scale[r] * weight_scale[c]);
        }
}

extern "C" void w8a8_gemm(const int8_t *act, const int8_t *weight, const float *act_scale, const float *weight_scale,
                          half *out, int M, int N, int K, cudaStream_t stream) {
    constexpr int BLOCK_M = 64, BLOCK_N = 64;
    dim3 grid(DIVUP(N, BLOCK_N), DIVUP(M, BLOCK_M));
    w8a8_gemm_kernel<BLOCK_M, BLOCK_N>
        <<<grid, W8A8Kernel<BLOCK_M, BLOCK_N>::kThreads, 0, stream>>>(act, weight, act_scale, weight_scale, out, M, N, K);
}
