// W8A16 linear with asymmetric group-wise quantised weights
//
//   out[m][n] = sum_k in[m][k] * (qweight[k][n] - zeros[k / group][n]) * scales[k / group][n]  (+ bias[n])
//
//   in      M x K  half          qweight K x N uint8
//   scales  K/group x N half     zeros   K/group x N uint8
//   out     M x N  half          bias    N half or NULL
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <stdint.h>

using namespace nvcuda::wmma;

#define TILE_M 64
#define TILE_N 64
#define TILE_K 32
#define SKEW 8

struct __align__(8) uchar8 { uint8_t v[8]; };

static __device__ __forceinline__ void dequant_store(half *dst, const uchar8 q, const uchar8 z, const half *scale)
{
    half r[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int d = (int)q.v[i] - (int)z.v[i];  // -255..255, exact in half
        r[i] = __hmul(__int2half_rn(d), scale[i]);
    }
    *(uint4 *)dst = *(const uint4 *)r;
}

__global__ void __launch_bounds__(128) w8a16_gemm_kernel(const half *__restrict__ in, const uint8_t *__restrict__ qweight,
                                                          const half *__restrict__ scales,
                                                          const uint8_t *__restrict__ zeros,
                                                          const half *__restrict__ bias, half *__restrict__ out, int M,
                                                          int N, int K, int group)
{
    // the float tile of the epilogue takes the place of the two operand tiles
    __shared__ __align__(32) unsigned char raw[TILE_M * (TILE_N + 4) * sizeof(float)];
    half(*As)[TILE_K + SKEW] = (half(*)[TILE_K + SKEW])raw;
    half(*Bs)[TILE_N + SKEW] = (half(*)[TILE_N + SKEW])(raw + TILE_M * (TILE_K + SKEW) * sizeof(half));
    float(*Cs)[TILE_N + 4]   = (float(*)[TILE_N + 4])raw;

    const int m_base = blockIdx.y * TILE_M;
    const int n_base = blockIdx.x * TILE_N;
    const int wid    = threadIdx.x >> 5;
    const int wm     = (wid & 1) * 32;
    const int wn     = (wid >> 1) * 32;

    fragment<accumulator, 16, 16, 16, float> c[2][2];
    for (int i = 0; i < 4; ++i) fill_fragment(c[i >> 1][i & 1], 0.0f);

    for (int k0 = 0; k0 < K; k0 += TILE_K) {
        // activations: 64 x 32, 16 bytes at a time
        for (int i = threadIdx.x; i < TILE_M * TILE_K / 8; i += 128) {
            const int r = i >> 2, col = (i & 3) * 8;
            uint4 v = make_uint4(0u, 0u, 0u, 0u);
            if (m_base + r < M) v = *(const uint4 *)(in + (size_t)(m_base + r) * K + k0 + col);
            *(uint4 *)&As[r][col] = v;
        }
        // weights: 32 x 64 bytes, 8 at a time; the k rows of a tile are all in one group
        const size_t g_row = (size_t)(k0 / group) * N + n_base;
        for (int i = threadIdx.x; i < TILE_K * TILE_N / 8; i += 128) {
            const int r = i >> 3, col = (i & 7) * 8;
            const uchar8 q = *(const uchar8 *)(qweight + (size_t)(k0 + r) * N + n_base + col);
            const uchar8 z = *(const uchar8 *)(zeros + g_row + col);
            dequant_store(&Bs[r][col], q, z, scales + g_row + col);
        }
        __syncthreads();

#pragma unroll
        for (int kk = 0; kk < TILE_K; kk += 16) {
            fragment<matrix_a, 16, 16, 16, half, row_major> a[2];
            fragment<matrix_b, 16, 16, 16, half, row_major> b[2];
            load_matrix_sync(a[0], &As[wm][kk], TILE_K + SKEW);
            load_matrix_sync(a[1], &As[wm + 16][kk], TILE_K + SKEW);
            load_matrix_sync(b[0], &Bs[kk][wn], TILE_N + SKEW);
            load_matrix_sync(b[1], &Bs[kk][wn + 16], TILE_N + SKEW);
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 2; ++j) mma_sync(c[i][j], a[i], b[j], c[i][j]);
        }
        __syncthreads();
    }

    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            store_matrix_sync(&Cs[wm + i * 16][wn + j * 16], c[i][j], TILE_N + 4, mem_row_major);
    __syncthreads();

    for (int i = threadIdx.x; i < TILE_M * TILE_N / 2; i += 128) {
        const int r = i / (TILE_N / 2), col = i % (TILE_N / 2) * 2;
        if (m_base + r >= M) break;
        float x = Cs[r][col], y = Cs[r][col + 1];
        if (bias) {
            x += __half2float(bias[n_base + col]);
            y += __half2float(bias[n_base + col + 1]);
        }
        *(half2 *)(out + (size_t)(m_base + r) * N + n_base + col) = __floats2half2_rn(x, y);
    }
}

// 0: ok, 1: bad shape, 2: CUDA error
extern "C" int w8a16_gemm_forward(const void *in, const void *qweight, const void *scales, const void *zeros,
                                  const void *bias, void *out, int M, int N, int K, int group_size, void *stream)
{
    if (group_size <= 0) group_size = K;  // one scale per output channel
    if (M <= 0 || N % TILE_N || K % TILE_K || group_size % TILE_K || K % group_size) return 1;
    dim3 grid(N / TILE_N, (M + TILE_M - 1) / TILE_M);
    w8a16_gemm_kernel<<<grid, 128, 0, (cudaStream_t)stream>>>((const half *)in, (const uint8_t *)qweight,
                                                              (const half *)scales, (const uint8_t *)zeros,
                                                              (const half *)bias, (half *)out, M, N, K, group_size);
    return cudaGetLastError() == cudaSuccess ? 0 : 2;
}
