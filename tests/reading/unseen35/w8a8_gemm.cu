/**
 * W8A8 量化矩阵乘法（大模型推理常用）
 *
 *   1. quantize_rows     : 按行对称量化  q = round(x / s),  s = absmax / 127
 *   2. gemm_s8_mma       : int8 Tensor Core (mma.sync.m16n8k32)，累加用 int32
 *   3. 反量化融合在 epilogue 里: y = acc * sx[行] * sw[列] + bias[列]
 *
 * X: [M, K]  激活，per-token 量化
 * W: [N, K]  权重，per-channel 量化
 * Y: [M, N]  float 输出
 *
 * 限制：K 必须是 16 的倍数（保证 16 字节对齐的向量化访存），M、N 任意。
 *
 * 编译: nvcc -O2 -arch=sm_80 w8a8_gemm.cu -o w8a8_gemm
 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include <cuda_runtime.h>

#define CUDA_CHECK(expr)                                                        \
    do {                                                                        \
        cudaError_t _s = (expr);                                                \
        if (_s != cudaSuccess) {                                                \
            printf("[%s:%d] CUDA 错误: %s\n", __FILE__, __LINE__,               \
                   cudaGetErrorString(_s));                                     \
            exit(-1);                                                           \
        }                                                                       \
    } while (0)

// ---------------------------------------------------------------------------
// 量化：一个 block 处理一行
// ---------------------------------------------------------------------------
__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
    for (int mask = 16; mask > 0; mask >>= 1)
        v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, mask));
    return v;
}

__global__ void quantize_rows(const float* __restrict__ x, int8_t* __restrict__ q,
                              float* __restrict__ scale, int cols) {
    __shared__ float warp_buf[32];
    const int row = blockIdx.x;
    const float* xr = x + (size_t)row * cols;
    int8_t* qr = q + (size_t)row * cols;

    float amax = 0.f;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) amax = fmaxf(amax, fabsf(xr[i]));
    amax = warp_max(amax);
    if (threadIdx.x % 32 == 0) warp_buf[threadIdx.x / 32] = amax;
    __syncthreads();
    // 每个 warp 都自己归约一遍，省掉一次广播
    const int num_warps = blockDim.x / 32;
    amax = (threadIdx.x % 32 < num_warps) ? warp_buf[threadIdx.x % 32] : 0.f;
    amax = warp_max(amax);

    const float s = amax > 0.f ? amax / 127.f : 1.f;   // 全零行避免除零
    const float inv = 1.f / s;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        int v = __float2int_rn(xr[i] * inv);
        v = max(-127, min(127, v));
        qr[i] = (int8_t)v;
    }
    if (threadIdx.x == 0) scale[row] = s;
}

// ---------------------------------------------------------------------------
// int8 GEMM
// ---------------------------------------------------------------------------
constexpr int TM = 64;
constexpr int TN = 64;
constexpr int TK = 64;           // 字节数 = 元素个数
constexpr int PITCH = TK + 16;   // 80 字节，行间错开 20 个 bank，读片段无冲突
constexpr int NT = 128;          // 4 个 warp，2x2 排列，每个 warp 算 32x32

__device__ __forceinline__ void mma_s8(int (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// 把 64 x 64 字节的 tile 从 global 搬到 shared，越界部分补零
__device__ __forceinline__ void load_tile(int8_t* s, const int8_t* g, int row0, int rows,
                                          int k0, int K) {
#pragma unroll
    for (int i = 0; i < (64 * TK / 16) / NT; i++) {
        int idx = threadIdx.x + i * NT;
        int r = idx / (TK / 16);
        int c = (idx % (TK / 16)) * 16;
        int4 v = make_int4(0, 0, 0, 0);
        if (row0 + r < rows && k0 + c < K)
            v = *reinterpret_cast<const int4*>(g + (size_t)(row0 + r) * K + k0 + c);
        *reinterpret_cast<int4*>(s + r * PITCH + c) = v;
    }
}

__global__ void __launch_bounds__(NT)
gemm_s8_mma(const int8_t* __restrict__ X, const int8_t* __restrict__ W,
            const float* __restrict__ sx, const float* __restrict__ sw,
            const float* __restrict__ bias, float* __restrict__ Y, int M, int N, int K) {
    __shared__ __align__(16) int8_t sX[TM * PITCH];
    __shared__ __align__(16) int8_t sW[TN * PITCH];

    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int g = lane >> 2;     // group id
    const int t = lane & 3;      // 组内线程号
    const int wm = (warp / 2) * 32;
    const int wn = (warp % 2) * 32;
    const int m0 = blockIdx.y * TM;
    const int n0 = blockIdx.x * TN;

    int acc[2][4][4];
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) acc[i][j][e] = 0;

    for (int k0 = 0; k0 < K; k0 += TK) {
        load_tile(sX, X, m0, M, k0, K);
        load_tile(sW, W, n0, N, k0, K);
        __syncthreads();

#pragma unroll
        for (int kk = 0; kk < TK; kk += 32) {
            // A 片段: a0 (行 g, k 4t..4t+3), a1 (行 g+8), a2/a3 为 k+16
            uint32_t a[2][4];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const int8_t* p = sX + (wm + i * 16 + g) * PITCH + kk + t * 4;
                a[i][0] = *reinterpret_cast<const uint32_t*>(p);
                a[i][1] = *reinterpret_cast<const uint32_t*>(p + 8 * PITCH);
                a[i][2] = *reinterpret_cast<const uint32_t*>(p + 16);
                a[i][3] = *reinterpret_cast<const uint32_t*>(p + 8 * PITCH + 16);
            }
            // B 片段: 列 g，W 本身就是 [N, K]，正好是 col 布局
#pragma unroll
            for (int j = 0; j < 4; j++) {
                uint32_t b[2];
                const int8_t* p = sW + (wn + j * 8 + g) * PITCH + kk + t * 4;
                b[0] = *reinterpret_cast<const uint32_t*>(p);
                b[1] = *reinterpret_cast<const uint32_t*>(p + 16);
#pragma unroll
                for (int i = 0; i < 2; i++) mma_s8(acc[i][j], a[i], b);
            }
        }
        __syncthreads();
    }

    // 反量化 + bias
#pragma unroll
    for (int i = 0; i < 2; i++) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int row = m0 + wm + i * 16 + g + h * 8;
            if (row >= M) continue;
            float rs = sx[row];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                int col = n0 + wn + j * 8 + t * 2;
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    if (col + e < N)
                        Y[(size_t)row * N + col + e] =
                            (float)acc[i][j][h * 2 + e] * rs * sw[col + e] + bias[col + e];
                }
            }
        }
    }
}

// ---------------------------------------------------------------------------
// 测试
// ---------------------------------------------------------------------------
int main(int argc, char** argv) {
    int M = 200, N = 328, K = 528;
    if (argc > 3) {
        M = atoi(argv[1]);
        N = atoi(argv[2]);
        K = atoi(argv[3]);
    }
    if (K % 16 != 0) {
        printf("K 必须是 16 的倍数\n");
        return 1;
    }

    std::vector<float> x((size_t)M * K), w((size_t)N * K), bias(N), y((size_t)M * N);
    srand(0);
    auto rnd = []() { return rand() / (float)RAND_MAX * 2.f - 1.f; };
    for (auto& v : x) v = rnd();
    // 各输出通道的幅值差别很大，这样才看得出 per-channel 的意义
    for (int n = 0; n < N; n++) {
        float amp = 0.01f + 0.1f * (n % 7);
        for (int k = 0; k < K; k++) w[(size_t)n * K + k] = rnd() * amp;
    }
    for (auto& v : bias) v = rnd();

    float *dx, *dw, *db, *dy, *dsx, *dsw;
    int8_t *qx, *qw;
    CUDA_CHECK(cudaMalloc(&dx, x.size() * 4));
    CUDA_CHECK(cudaMalloc(&dw, w.size() * 4));
    CUDA_CHECK(cudaMalloc(&db, N * 4));
    CUDA_CHECK(cudaMalloc(&dy, y.size() * 4));
    CUDA_CHECK(cudaMalloc(&dsx, M * 4));
    CUDA_CHECK(cudaMalloc(&dsw, N * 4));
    CUDA_CHECK(cudaMalloc(&qx, x.size()));
    CUDA_CHECK(cudaMalloc(&qw, w.size()));
    CUDA_CHECK(cudaMemcpy(dx, x.data(), x.size() * 4, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(dw, w.data(), w.size() * 4, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(db, bias.data(), N * 4, cudaMemcpyHostToDevice));

    quantize_rows<<<N, 256>>>(dw, qw, dsw, K);   // 权重只需要量化一次

    cudaEvent_t beg, end;
    CUDA_CHECK(cudaEventCreate(&beg));
    CUDA_CHECK(cudaEventCreate(&end));
    CUDA_CHECK(cudaEventRecord(beg));
    quantize_rows<<<M, 256>>>(dx, qx, dsx, K);
    dim3 grid((N + TN - 1) / TN, (M + TM - 1) / TM);
    gemm_s8_mma<<<grid, NT>>>(qx, qw, dsx, dsw, db, dy, M, N, K);
    CUDA_CHECK(cudaEventRecord(end));
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaEventSynchronize(end));
    float ms = 0;
    CUDA_CHECK(cudaEventElapsedTime(&ms, beg, end));
    CUDA_CHECK(cudaMemcpy(y.data(), dy, y.size() * 4, cudaMemcpyDeviceToHost));

    // 与 fp32 结果比较：int8 量化误差大约 1%
    double num = 0, den = 0;
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < N; j++) {
            double ref = bias[j];
            for (int k = 0; k < K; k++) ref += (double)x[(size_t)i * K + k] * w[(size_t)j * K + k];
            double d = y[(size_t)i * N + j] - ref;
            num += d * d;
            den += ref * ref;
        }
    }
    double rel = sqrt(num / den);
    printf("M=%d N=%d K=%d  耗时 %.3f ms  相对误差 %.4f%%  %s\n", M, N, K, ms, rel * 100,
           rel < 0.02 ? "通过" : "失败");

    cudaFree(dx); cudaFree(dw); cudaFree(db); cudaFree(dy);
    cudaFree(dsx); cudaFree(dsw); cudaFree(qx); cudaFree(qw);
    return rel < 0.02 ? 0 : 1;
}
