// W8A8 linear layer: y = (xq * wq^T) * sx[m] * sw[n] + bias[n]
//   x : [M, K] half, quantized per token by quant.cuh        M: any
//   wq: [N, K] int8, quantized per output channel            N % 64 == 0, K % 64 == 0
//   y : [M, N] half
// mma.sync.m16n8k32 s8 (sm_80+)
//
// 주의: K 방향은 64 바이트씩, 공유 메모리 행은 80 바이트 (뱅크 충돌 방지)
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#include "quant.cuh"

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { \
    printf("%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e_)); exit(1); } } while (0)

constexpr int BM = 64, BN = 64, BK = 64;
constexpr int LD = BK + 16;

__device__ __forceinline__ void mma_s8(int (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ uint32_t lds32(const int8_t *p) { return *reinterpret_cast<const uint32_t *>(p); }

__global__ void __launch_bounds__(128)
gemm_w8a8(const int8_t *__restrict__ xq, const float *__restrict__ sx, const int8_t *__restrict__ wq,
          const float *__restrict__ sw, const half *__restrict__ bias, half *__restrict__ y, int M, int N, int K) {
    __shared__ __align__(16) int8_t sA[BM * LD];
    __shared__ __align__(16) int8_t sB[BN * LD];

    const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    const int g = lane >> 2, t = lane & 3;
    const int wm = (warp & 1) * 32, wn = (warp >> 1) * 32;
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;

    int acc[2][4][4] = {};

    for (int k0 = 0; k0 < K; k0 += BK) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {            // 64 rows x 4 chunks of 16 bytes
            const int id = tid + i * 128;
            const int r = id >> 2, c = (id & 3) * 16;
            int4 va = make_int4(0, 0, 0, 0);
            if (m0 + r < M) va = *reinterpret_cast<const int4 *>(xq + (size_t)(m0 + r) * K + k0 + c);
            *reinterpret_cast<int4 *>(sA + r * LD + c) = va;
            *reinterpret_cast<int4 *>(sB + r * LD + c) =
                *reinterpret_cast<const int4 *>(wq + (size_t)(n0 + r) * K + k0 + c);
        }
        __syncthreads();

#pragma unroll
        for (int kk = 0; kk < BK; kk += 32) {
            uint32_t a[2][4], b[4][2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int8_t *p = sA + (wm + i * 16 + g) * LD + kk + t * 4;
                a[i][0] = lds32(p);
                a[i][1] = lds32(p + 8 * LD);
                a[i][2] = lds32(p + 16);
                a[i][3] = lds32(p + 8 * LD + 16);
            }
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const int8_t *p = sB + (wn + j * 8 + g) * LD + kk + t * 4;
                b[j][0] = lds32(p);
                b[j][1] = lds32(p + 16);
            }
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) mma_s8(acc[i][j], a[i], b[j]);
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int m = m0 + wm + i * 16 + g + h * 8;
            if (m >= M) continue;
            const float s = sx[m];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const int n = n0 + wn + j * 8 + t * 2;
                const float v0 = acc[i][j][2 * h] * s * sw[n] + __half2float(bias[n]);
                const float v1 = acc[i][j][2 * h + 1] * s * sw[n + 1] + __half2float(bias[n + 1]);
                *reinterpret_cast<half2 *>(y + (size_t)m * N + n) = __floats2half2_rn(v0, v1);
            }
        }
}

void linear_w8a8(const half *x, int8_t *xq, float *sx, const int8_t *wq, const float *sw, const half *bias, half *y,
                 int M, int N, int K, cudaStream_t st) {
    quant_per_token<<<M, kQuantThreads, 0, st>>>(x, xq, sx, K);
    gemm_w8a8<<<dim3(N / BN, (M + BM - 1) / BM), 128, 0, st>>>(xq, sx, wq, sw, bias, y, M, N, K);
}

int main() {
    const int M = 77, N = 192, K = 320;
    std::vector<half> x(M * K), bias(N), y(M * N);
    std::vector<int8_t> wq(N * K);
    std::vector<float> w(N * K), sw(N);
    srand(7);
    for (auto &v : x) v = __float2half((rand() % 2001 - 1000) / 500.f);
    for (auto &v : bias) v = __float2half((rand() % 2001 - 1000) / 1000.f);
    for (auto &v : w) v = (rand() % 2001 - 1000) / 5000.f;
    for (int n = 0; n < N; ++n) {
        float a = 0.f;
        for (int k = 0; k < K; ++k) a = fmaxf(a, fabsf(w[n * K + k]));
        sw[n] = a / 127.f;
        for (int k = 0; k < K; ++k) wq[n * K + k] = (int8_t)lrintf(w[n * K + k] / sw[n]);
    }

    half *dx, *dbias, *dy;
    int8_t *dxq, *dwq;
    float *dsx, *dsw;
    CK(cudaMalloc(&dx, x.size() * 2)); CK(cudaMalloc(&dbias, N * 2)); CK(cudaMalloc(&dy, y.size() * 2));
    CK(cudaMalloc(&dxq, M * K)); CK(cudaMalloc(&dwq, N * K));
    CK(cudaMalloc(&dsx, M * 4)); CK(cudaMalloc(&dsw, N * 4));
    CK(cudaMemcpy(dx, x.data(), x.size() * 2, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(dbias, bias.data(), N * 2, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(dwq, wq.data(), N * K, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(dsw, sw.data(), N * 4, cudaMemcpyHostToDevice));
    linear_w8a8(dx, dxq, dsx, dwq, dsw, dbias, dy, M, N, K, 0);
    CK(cudaGetLastError());
    CK(cudaMemcpy(y.data(), dy, y.size() * 2, cudaMemcpyDeviceToHost));

    double num = 0, den = 0;
    for (int m = 0; m < M; ++m)
        for (int n = 0; n < N; ++n) {
            double r = __half2float(bias[n]);
            for (int k = 0; k < K; ++k) r += (double)__half2float(x[m * K + k]) * w[n * K + k];
            const double d = r - __half2float(y[m * N + n]);
            num += d * d;
            den += r * r;
        }
    const double rel = sqrt(num / den);
    printf("relative error %.5f %s\n", rel, rel < 0.02 ? "PASS" : "FAIL");
    cudaFree(dx); cudaFree(dbias); cudaFree(dy); cudaFree(dxq); cudaFree(dwq); cudaFree(dsx); cudaFree(dsw);
    return rel < 0.02 ? 0 : 1;
}
