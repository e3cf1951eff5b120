// W8A8 linear layer:  out[m][n] = half( float(sum_k x[m][k] * w[n][k]) * x_scale[m] * w_scale[n] + bias[n] )
//
//   x        int8  [M][K]   activations, quantized per token
//   w        int8  [N][K]   weights as nn.Linear stores them, quantized per output channel
//   x_scale  float [M]      one scale per token
//   w_scale  float [N]      one scale per output channel
//   out      half  [M][N]
//
// mma.sync.m16n8k32 s8 (sm_80+). Requires K % 16 == 0 and N % 2 == 0.
#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace w8a8 {

static constexpr int TB_M = 64;
static constexpr int TB_N = 64;
static constexpr int TB_K = 64;            // bytes = int8 elements
static constexpr int WARP_M = 32;
static constexpr int WARP_N = 32;
static constexpr int THREADS = 128;        // 2 x 2 warps
static constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 32;
static constexpr int M_ITERS = WARP_M / MMA_M;
static constexpr int N_ITERS = WARP_N / MMA_N;
static constexpr int PITCH = TB_K + 16;    // 80 bytes: the 8 rows of a fragment fall into different banks
static constexpr int VECS = TB_K / 16;     // int4 per row of a tile

// D += A * B, all four of A's registers hold 4 consecutive k of one row, B's of one column
__device__ __forceinline__ void mma_s8(int32_t (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ uint32_t lds32(const int8_t *p)
{
    return *reinterpret_cast<const uint32_t *>(p);
}

// A tile of `rows` x TB_K bytes; what lies beyond the matrix becomes 0.
template <int ROWS>
__device__ __forceinline__ void load_tile(int8_t *dst, const int8_t *src, int row0, int k0, int rows, int K)
{
    for (int i = threadIdx.x; i < ROWS * VECS; i += THREADS) {
        const int r = i / VECS;
        const int c = (i % VECS) * 16;
        int4 v = make_int4(0, 0, 0, 0);
        if (row0 + r < rows && k0 + c < K)
            v = *reinterpret_cast<const int4 *>(src + (size_t)(row0 + r) * K + k0 + c);
        *reinterpret_cast<int4 *>(dst + r * PITCH + c) = v;
    }
}

__global__ void __launch_bounds__(THREADS)
gemm_dequant_kernel(const int8_t *__restrict__ x, const int8_t *__restrict__ w, const float *__restrict__ x_scale,
                    const float *__restrict__ w_scale, const half *__restrict__ bias, half *__restrict__ out,
                    int M, int N, int K)
{
    __shared__ __align__(16) int8_t s_x[TB_M * PITCH];
    __shared__ __align__(16) int8_t s_w[TB_N * PITCH];
    __shared__ float s_xscale[TB_M];
    __shared__ float s_wscale[TB_N];

    const int tid = threadIdx.x;
    const int lane = tid % 32;
    const int warp = tid / 32;
    const int group = lane / 4;    // row of the fragment (column of B)
    const int tig = lane % 4;      // thread in group
    const int warp_m = (warp / 2) * WARP_M;
    const int warp_n = (warp % 2) * WARP_N;
    const int m0 = blockIdx.y * TB_M;
    const int n0 = blockIdx.x * TB_N;

    // the scales of this tile, once
    if (tid < TB_M)
        s_xscale[tid] = (m0 + tid < M) ? x_scale[m0 + tid] : 0.0f;
    else
        s_wscale[tid - TB_M] = (n0 + tid - TB_M < N) ? w_scale[n0 + tid - TB_M] : 0.0f;

    int32_t acc[M_ITERS][N_ITERS][4];
#pragma unroll
    for (int mi = 0; mi < M_ITERS; mi++)
#pragma unroll
        for (int ni = 0; ni < N_ITERS; ni++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                acc[mi][ni][e] = 0;

    for (int k0 = 0; k0 < K; k0 += TB_K) {
        load_tile<TB_M>(s_x, x, m0, k0, M, K);
        load_tile<TB_N>(s_w, w, n0, k0, N, K);
        __syncthreads();

#pragma unroll
        for (int kk = 0; kk < TB_K; kk += MMA_K) {
            uint32_t a[M_ITERS][4];
            uint32_t b[N_ITERS][2];
#pragma unroll
            for (int mi = 0; mi < M_ITERS; mi++) {
                const int8_t *p = s_x + (warp_m + mi * MMA_M + group) * PITCH + kk + tig * 4;
                a[mi][0] = lds32(p);
                a[mi][1] = lds32(p + 8 * PITCH);
                a[mi][2] = lds32(p + 16);
                a[mi][3] = lds32(p + 8 * PITCH + 16);
            }
#pragma unroll
            for (int ni = 0; ni < N_ITERS; ni++) {
                const int8_t *p = s_w + (warp_n + ni * MMA_N + group) * PITCH + kk + tig * 4;
                b[ni][0] = lds32(p);
                b[ni][1] = lds32(p + 16);
            }
#pragma unroll
            for (int mi = 0; mi < M_ITERS; mi++)
#pragma unroll
                for (int ni = 0; ni < N_ITERS; ni++)
                    mma_s8(acc[mi][ni], a[mi], b[ni]);
        }
        __syncthreads();
    }

    // dequantize: a thread has two neighbouring columns of the rows `group` and `group + 8` of each fragment
#pragma unroll
    for (int mi = 0; mi < M_ITERS; mi++) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int lm = warp_m + mi * MMA_M + group + h * 8;
            const int m = m0 + lm;
            if (m >= M) continue;
            const float xs = s_xscale[lm];
#pragma unroll
            for (int ni = 0; ni < N_ITERS; ni++) {
                const int ln = warp_n + ni * MMA_N + tig * 2;
                const int n = n0 + ln;
                if (n >= N) continue;
                float v0 = __int2float_rn(acc[mi][ni][2 * h]) * xs * s_wscale[ln];
                float v1 = __int2float_rn(acc[mi][ni][2 * h + 1]) * xs * s_wscale[ln + 1];
                if (bias != nullptr) {
                    v0 += __half2float(bias[n]);
                    v1 += __half2float(bias[n + 1]);
                }
                *reinterpret_cast<half2 *>(out + (size_t)m * N + n) = __floats2half2_rn(v0, v1);
            }
        }
    }
}

void linear_w8a8(const int8_t *x, const int8_t *w, const float *x_scale, const float *w_scale, const half *bias,
                 half *out, int M, int N, int K, cudaStream_t stream)
{
    dim3 grid((N + TB_N - 1) / TB_N, (M + TB_M - 1) / TB_M);
    gemm_dequant_kernel<<<grid, THREADS, 0, stream>>>(x, w, x_scale, w_scale, bias, out, M, N, K);
}

}  // namespace w8a8
