// C (f32, M x N) = A (f16, M x K) * B^T (f16, N x K) with mma.sync.m16n8k16, ldmatrix and two cp.async buffers.
#include <cuda_fp16.h>
#include <stdint.h>

constexpr int kBM = 64, kBN = 64, kBK = 32, kLd = kBK + 8, kThreads = 128;

__device__ __forceinline__ void cp_async16(void *dst, const void *src, bool ok) {
    uint32_t d = (uint32_t)__cvta_generic_to_shared(dst);
    int bytes = ok ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(d), "l"(src), "r"(bytes));
}

__device__ __forceinline__ void ldsm_x4(uint32_t (&r)[4], const half *p) {
    uint32_t a = (uint32_t)__cvta_generic_to_shared(p);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a));
}

__device__ __forceinline__ void mma16816(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ void fetch(half (*dst)[kLd], const half *src, int row0, int rows, int k0, int K) {
    for (int i = threadIdx.x; i < 64 * kBK / 8; i += kThreads) {
        int r = i / (kBK / 8), c = i % (kBK / 8) * 8;
        bool ok = row0 + r < rows && k0 + c < K;
        cp_async16(&dst[r][c], ok ? src + (size_t)(row0 + r) * K + k0 + c : src, ok);
    }
}

__global__ void __launch_bounds__(kThreads) mma_gemm(const half *A, const half *B, float *C, int M, int N, int K) {
    __shared__ __align__(16) half sA[2][kBM][kLd];
    __shared__ __align__(16) half sB[2][kBN][kLd];

    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const int m0 = blockIdx.y * kBM, n0 = blockIdx.x * kBN;
    const int wm = (warp >> 1) * 32, wn = (warp & 1) * 32;
    float acc[2][4][4] = {};

    const int tiles = (K + kBK - 1) / kBK;
    fetch(sA[0], A, m0, M, 0, K);
    fetch(sB[0], B, n0, N, 0, K);
    asm volatile("cp.async.commit_group;\n");

    int cur = 0;
    for (int t = 0; t < tiles; ++t) {
        if (t + 1 < tiles) {
            fetch(sA[cur ^ 1], A, m0, M, (t + 1) * kBK, K);
            fetch(sB[cur ^ 1], B, n0, N, (t + 1) * kBK, K);
        }
        asm volatile("cp.async.commit_group;\n");
        asm volatile("cp.async.wait_group 1;\n");
        __syncthreads();

        #pragma unroll
        for (int kk = 0; kk < kBK; kk += 16) {
            uint32_t a[2][4], b[2][4];
            for (int i = 0; i < 2; ++i)
                ldsm_x4(a[i], &sA[cur][wm + i * 16 + (lane & 15)][kk + (lane >> 4) * 8]);
            for (int j = 0; j < 2; ++j)
                ldsm_x4(b[j], &sB[cur][wn + j * 16 + (lane & 7) + (lane >> 4) * 8][kk + ((lane >> 3) & 1) * 8]);
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 4; ++j)
                    mma16816(acc[i][j], a[i], b[j >> 1][(j & 1) * 2], b[j >> 1][(j & 1) * 2 + 1]);
        }
        __syncthreads();
        cur ^= 1;
    }

    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 4; ++j) {
            int col = n0 + wn + j * 8 + (lane & 3) * 2;
            for (int h = 0; h < 2; ++h) {
                int row = m0 + wm + i * 16 + (lane >> 2) + h * 8;
                if (row >= M) continue;
                if (col < N) C[(size_t)row * N + col] = acc[i][j][h * 2];
                if (col + 1 < N) C[(size_t)row * N + col + 1] = acc[i][j][h * 2 + 1];
            }
        }
}
