// W8A8 linear: int8 activations (one scale per token), int8 weights (one scale per output channel)
//
//   out[m][n] = half( a_scale[m] * w_scale[n] * sum_k a[m][k] * w[n][k] + bias[n] )
//
//   a   : [M, K] int8 row-major            w : [N, K] int8 row-major (nn.Linear layout)
//   out : [M, N] half
//
// This file has no host code on purpose, it is compiled at run time with cupy.RawModule:
//
//   mod = cupy.RawModule(code=open('w8a8_gemm_s8.cu').read(), backend='nvcc',
//                        options=('-std=c++17', '-arch=sm_80'))
//   ker = mod.get_function('w8a8_gemm')
//   ker((N // 128, (M + 127) // 128), (256,), (a, w, a_scale, w_scale, bias, out, M, N, K))
//
// M is free, N has to be a multiple of 128 and K a multiple of 64.
// Accumulation in int32 cannot overflow for K <= 131072.

#include <cuda_fp16.h>
#include <stdint.h>

#define BM 128
#define BN 128
#define BK 64          // bytes == int8 elements
#define STAGES 3
#define THREADS 256    // 8 warps, 2 along M x 4 along N, warp tile 64 x 32

// a row of a tile is 64 bytes = 4 chunks of 16; two rows per 128-byte line -> xor every 2nd row
__device__ __forceinline__ int swz(int row, int chunk)
{
    return row * BK + ((chunk ^ ((row >> 1) & 3)) << 4);
}

__device__ __forceinline__ void cp_async_zfill(uint32_t dst, const void *src, bool valid)
{
    int n = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" : : "r"(dst), "l"(src), "r"(n));
}

__device__ __forceinline__ void ldsm_x4(uint32_t *r, uint32_t addr)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr));
}

__device__ __forceinline__ void imma_16832(int *d, const uint32_t *a, uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};\n"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1),
                   "r"(d[0]), "r"(d[1]), "r"(d[2]), "r"(d[3]));
}

extern "C" __global__ void __launch_bounds__(THREADS)
w8a8_gemm(const int8_t *__restrict__ a, const int8_t *__restrict__ w,
          const float *__restrict__ a_scale, const float *__restrict__ w_scale,
          const half *__restrict__ bias, half *__restrict__ out, int M, int N, int K)
{
    __shared__ __align__(128) int8_t sA[STAGES][BM * BK];
    __shared__ __align__(128) int8_t sW[STAGES][BN * BK];

    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp_m = (tid >> 5) & 1;
    const int warp_n = tid >> 6;
    const int m0 = blockIdx.y * BM;
    const int n0 = blockIdx.x * BN;
    const int k_tiles = K / BK;

    auto load = [&](int tile, int stage) {
        const uint32_t pa = (uint32_t)__cvta_generic_to_shared(sA[stage]);
        const uint32_t pw = (uint32_t)__cvta_generic_to_shared(sW[stage]);
#pragma unroll
        for (int i = 0; i < BM * BK / 16 / THREADS; ++i) {
            const int idx = tid + i * THREADS;
            const int row = idx >> 2, chunk = idx & 3;
            const int m = m0 + row;
            const int8_t *ga = a + (size_t)(m < M ? m : M - 1) * K + tile * BK + chunk * 16;
            const int8_t *gw = w + (size_t)(n0 + row) * K + tile * BK + chunk * 16;
            cp_async_zfill(pa + swz(row, chunk), ga, m < M);
            cp_async_zfill(pw + swz(row, chunk), gw, true);
        }
    };

    int acc[4][4][4] = {};

#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) {
        if (s < k_tiles) load(s, s);
        asm volatile("cp.async.commit_group;\n" : :);
    }

    for (int kt = 0; kt < k_tiles; ++kt) {
        asm volatile("cp.async.wait_group %0;\n" : : "n"(STAGES - 2));
        __syncthreads();   // tile kt is visible, and everyone has left tile kt - 1

        const int next = kt + STAGES - 1;
        if (next < k_tiles) load(next, next % STAGES);
        asm volatile("cp.async.commit_group;\n" : :);

        const uint32_t pa = (uint32_t)__cvta_generic_to_shared(sA[kt % STAGES]);
        const uint32_t pw = (uint32_t)__cvta_generic_to_shared(sW[kt % STAGES]);
#pragma unroll
        for (int ks = 0; ks < BK / 32; ++ks) {
            uint32_t fa[4][4], fw[2][4];
#pragma unroll
            for (int i = 0; i < 4; ++i)
                ldsm_x4(fa[i], pa + swz(warp_m * 64 + i * 16 + (lane & 15), ks * 2 + (lane >> 4)));
#pragma unroll
            for (int j = 0; j < 2; ++j)
                ldsm_x4(fw[j], pw + swz(warp_n * 32 + j * 16 + (lane & 7) + ((lane & 16) >> 1),
                                        ks * 2 + ((lane >> 3) & 1)));
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    imma_16832(acc[i][j], fa[i], fw[j >> 1][(j & 1) * 2], fw[j >> 1][(j & 1) * 2 + 1]);
        }
    }

    // dequantise in the epilogue
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int m = m0 + warp_m * 64 + i * 16 + (lane >> 2) + h * 8;
            if (m >= M) continue;
            const float sa = a_scale[m];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const int n = n0 + warp_n * 32 + j * 8 + (lane & 3) * 2;
                const float v0 = acc[i][j][2 * h] * (sa * w_scale[n]) + __half2float(bias[n]);
                const float v1 = acc[i][j][2 * h + 1] * (sa * w_scale[n + 1]) + __half2float(bias[n + 1]);
                *reinterpret_cast<half2 *>(out + (size_t)m * N + n) = __floats2half2_rn(v0, v1);
            }
        }
    }
}
