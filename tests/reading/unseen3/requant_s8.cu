// int8 GEMM with requantisation: out[m][n] = clamp(round((sum_k a[m][k] * w[n][k] + bias[n]) * multiplier[n])).
// IMMA m16n8k32; 32 x 32 per block, four warps.
#include <cuda_runtime.h>
#include <stdint.h>
#include <cstdio>
#include <vector>

#define CEIL(a, b) (((a) + (b)-1) / (b))

static __device__ __forceinline__ void imma(int (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__global__ void gemm_s8_requant(const int8_t *a, const int8_t *w, const int32_t *bias, const float *multiplier, int8_t *out,
                                int M, int N, int K)
{
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int row = blockIdx.y * 32 + warp / 2 * 16 + lane / 4;
    const int col = blockIdx.x * 32 + warp % 2 * 16;

    int acc[2][4] = {};
    for (int k = lane % 4 * 4; k < K; k += 32) {
        uint32_t fa[4];
        fa[0] = *(const uint32_t *)(a + row * K + k);
        fa[1] = *(const uint32_t *)(a + (row + 8) * K + k);
        fa[2] = *(const uint32_t *)(a + row * K + k + 16);
        fa[3] = *(const uint32_t *)(a + (row + 8) * K + k + 16);
        for (int j = 0; j < 2; j++) {
            const int8_t *p = w + (col + j * 8 + lane / 4) * K + k;
            uint32_t fb[2] = {*(const uint32_t *)p, *(const uint32_t *)(p + 16)};
            imma(acc[j], fa, fb);
        }
    }
    for (int j = 0; j < 2; j++)
        for (int e = 0; e < 4; e++) {
            int r = row + e / 2 * 8;
            int c = col + j * 8 + lane % 4 * 2 + e % 2;
            float v = (float)(acc[j][e] + bias[c]) * multiplier[c];
            int q = __float2int_rn(v);
            out[r * N + c] = (int8_t)max(-128, min(127, q));
        }
}

int main()
{
    const int M = 128, N = 96, K = 256;
    std::vector<int8_t> a(M * K), w(N * K), out(M * N);
    std::vector<int32_t> bias(N, 100);
    std::vector<float> multiplier(N, 1.0f / 2048);
    for (size_t i = 0; i < a.size(); i++) a[i] = (int8_t)(i * 37 % 255 - 127);
    for (size_t i = 0; i < w.size(); i++) w[i] = (int8_t)(i * 53 % 255 - 127);
    int8_t *da, *dw, *dout;
    int32_t *dbias;
    float *dmul;
    cudaMalloc(&da, a.size());
    cudaMalloc(&dw, w.size());
    cudaMalloc(&dout, out.size());
    cudaMalloc(&dbias, N * sizeof(int32_t));
    cudaMalloc(&dmul, N * sizeof(float));
    cudaMemcpy(da, a.data(), a.size(), cudaMemcpyHostToDevice);
    cudaMemcpy(dw, w.data(), w.size(), cudaMemcpyHostToDevice);
    cudaMemcpy(dbias, bias.data(), N * sizeof(int32_t), cudaMemcpyHostToDevice);
    cudaMemcpy(dmul, multiplier.data(), N * sizeof(float), cudaMemcpyHostToDevice);
    gemm_s8_requant<<<dim3(CEIL(N, 32), CEIL(M, 32)), 128>>>(da, dw, dbias, dmul, dout, M, N, K);
    cudaMemcpy(out.data(), dout, out.size(), cudaMemcpyDeviceToHost);
    printf("%d\n", out[0]);
    return 0;
}
