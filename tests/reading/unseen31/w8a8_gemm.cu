/*
 * W8A8 linear layer (SmoothQuant style): int8 activations with one scale per token, int8
 * weights with one scale per output channel, int32 accumulation on tensor cores, fp16 out.
 *
 *     out[m][n] = half( acc[m][n] * a_scale[m] * w_scale[n] + bias[n] )
 *     acc[m][n] = sum_k qA[m][k] * qW[n][k]
 *
 * qA is [M, K] row major, qW is [N, K] row major (the layout of nn.Linear.weight), so both
 * operands are contiguous in k and "row.col" needs no transposition.
 *
 * Requirements: K % 16 == 0, N % 8 == 0, any M. SM80 or newer.
 */
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

#define BLOCK_M 128
#define BLOCK_N 128
#define BLOCK_K 64
#define SMEM_STRIDE (BLOCK_K + 16)      /* bytes; 80 = 5 * 16, an odd number of 16 byte units */
#define NUM_THREADS 256
#define WARP_M 64
#define WARP_N 32
#define M_TILES (WARP_M / 16)
#define N_TILES (WARP_N / 8)

__device__ __forceinline__ void cp_async16_zfill(void *smem, const void *gmem, bool valid)
{
    unsigned int dst = (unsigned int)__cvta_generic_to_shared(smem);
    int src_size = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n"
                 :: "r"(dst), "l"(gmem), "r"(src_size));
}

__device__ __forceinline__ void ldmatrix_x4(unsigned int *r, const void *smem)
{
    unsigned int addr = (unsigned int)__cvta_generic_to_shared(smem);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr));
}

__device__ __forceinline__ void mma_s8(int *d, const unsigned int *a, const unsigned int *b)
{
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/*
 * Per-token symmetric quantisation, one block per token.
 */
__global__ void quant_per_token_kernel(const half *__restrict__ x, int8_t *__restrict__ q,
                                       float *__restrict__ scale, int K)
{
    __shared__ float warp_max[32];
    const half *row = x + (size_t)blockIdx.x * K;
    int8_t *qrow = q + (size_t)blockIdx.x * K;

    float amax = 0.f;
    for (int k = threadIdx.x; k < K; k += blockDim.x)
        amax = fmaxf(amax, fabsf(__half2float(row[k])));

    for (int off = 16; off; off /= 2)
        amax = fmaxf(amax, __shfl_xor_sync(0xffffffff, amax, off));
    if (threadIdx.x % 32 == 0)
        warp_max[threadIdx.x / 32] = amax;
    __syncthreads();
    for (int w = 0; w < blockDim.x / 32; ++w)
        amax = fmaxf(amax, warp_max[w]);

    float s = amax > 0.f ? amax / 127.f : 1.f;
    if (threadIdx.x == 0)
        scale[blockIdx.x] = s;

    float inv = 1.f / s;
    for (int k = threadIdx.x; k < K; k += blockDim.x) {
        int v = __float2int_rn(__half2float(row[k]) * inv);
        qrow[k] = (int8_t)max(-127, min(127, v));
    }
}

/*
 * grid = (ceil(N / 128), ceil(M / 128)), 256 threads, 8 warps as 2 (m) x 4 (n).
 */
template <bool HAS_BIAS>
__global__ void __launch_bounds__(NUM_THREADS)
w8a8_gemm_kernel(const int8_t *__restrict__ qA, const int8_t *__restrict__ qW,
                 const float *__restrict__ a_scale, const float *__restrict__ w_scale,
                 const half *__restrict__ bias, half *__restrict__ out,
                 int M, int N, int K)
{
    __shared__ __align__(16) int8_t As[2][BLOCK_M * SMEM_STRIDE];
    __shared__ __align__(16) int8_t Ws[2][BLOCK_N * SMEM_STRIDE];

    const int tid = threadIdx.x;
    const int lane = tid % 32;
    const int warp = tid / 32;
    const int warp_m = (warp % 2) * WARP_M;
    const int warp_n = (warp / 2) * WARP_N;
    const int block_m = blockIdx.y * BLOCK_M;
    const int block_n = blockIdx.x * BLOCK_N;

    /* 64 bytes of k are 4 chunks of 16: 64 rows per pass, 2 passes for each operand */
    const int ld_row = tid / 4;
    const int ld_col = (tid % 4) * 16;

    int acc[M_TILES][N_TILES][4] = {};

    auto load_stage = [&](int stage, int k0) {
        const int k = k0 + ld_col;
        #pragma unroll
        for (int p = 0; p < 2; ++p) {
            const int r = ld_row + p * 64;
            const bool a_ok = block_m + r < M && k < K;
            const bool w_ok = block_n + r < N && k < K;
            cp_async16_zfill(&As[stage][r * SMEM_STRIDE + ld_col],
                             a_ok ? qA + (size_t)(block_m + r) * K + k : qA, a_ok);
            cp_async16_zfill(&Ws[stage][r * SMEM_STRIDE + ld_col],
                             w_ok ? qW + (size_t)(block_n + r) * K + k : qW, w_ok);
        }
        asm volatile("cp.async.commit_group;\n" ::);
    };

    const int k_iters = (K + BLOCK_K - 1) / BLOCK_K;
    load_stage(0, 0);

    for (int it = 0; it < k_iters; ++it) {
        const int cur = it & 1;
        if (it + 1 < k_iters) {
            load_stage(cur ^ 1, (it + 1) * BLOCK_K);
            asm volatile("cp.async.wait_group 1;\n" ::);
        } else {
            asm volatile("cp.async.wait_group 0;\n" ::);
        }
        __syncthreads();

        #pragma unroll
        for (int kk = 0; kk < BLOCK_K; kk += 32) {
            unsigned int a[M_TILES][4];
            unsigned int b[N_TILES][2];

            #pragma unroll
            for (int i = 0; i < M_TILES; ++i) {
                const int r = warp_m + i * 16 + lane % 16;
                const int c = kk + (lane / 16) * 16;
                ldmatrix_x4(a[i], &As[cur][r * SMEM_STRIDE + c]);
            }
            /* one x4 brings the fragments of two n tiles */
            #pragma unroll
            for (int j = 0; j < N_TILES; j += 2) {
                const int r = warp_n + j * 8 + lane % 8 + (lane / 16) * 8;
                const int c = kk + ((lane / 8) % 2) * 16;
                unsigned int t[4];
                ldmatrix_x4(t, &Ws[cur][r * SMEM_STRIDE + c]);
                b[j][0] = t[0];
                b[j][1] = t[1];
                b[j + 1][0] = t[2];
                b[j + 1][1] = t[3];
            }

            #pragma unroll
            for (int i = 0; i < M_TILES; ++i)
                #pragma unroll
                for (int j = 0; j < N_TILES; ++j)
                    mma_s8(acc[i][j], a[i], b[j]);
        }
        __syncthreads();    /* the buffer is overwritten by the next iteration's load */
    }

    /* dequantise and store, two neighbouring columns at a time (N is even) */
    #pragma unroll
    for (int i = 0; i < M_TILES; ++i) {
        #pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int row = block_m + warp_m + i * 16 + lane / 4 + h * 8;
            if (row >= M)
                continue;
            const float sa = a_scale[row];
            #pragma unroll
            for (int j = 0; j < N_TILES; ++j) {
                const int col = block_n + warp_n + j * 8 + (lane % 4) * 2;
                if (col >= N)
                    continue;
                float v0 = (float)acc[i][j][h * 2 + 0] * sa * w_scale[col];
                float v1 = (float)acc[i][j][h * 2 + 1] * sa * w_scale[col + 1];
                if (HAS_BIAS) {
                    v0 += __half2float(bias[col]);
                    v1 += __half2float(bias[col + 1]);
                }
                *(half2 *)(out + (size_t)row * N + col) = __floats2half2_rn(v0, v1);
            }
        }
    }
}

/* x [M, K] half -> out [M, N] half; qA, a_scale are workspace of M * K bytes and M floats */
extern "C" int w8a8_linear_forward(const half *x, const int8_t *qW, const float *w_scale,
                                   const half *bias, half *out, int8_t *qA, float *a_scale,
                                   int M, int N, int K, cudaStream_t stream)
{
    if (K % 16 != 0 || N % 8 != 0 || M <= 0)
        return -1;

    quant_per_token_kernel<<<M, 256, 0, stream>>>(x, qA, a_scale, K);

    dim3 grid((N + BLOCK_N - 1) / BLOCK_N, (M + BLOCK_M - 1) / BLOCK_M);
    if (bias)
        w8a8_gemm_kernel<true><<<grid, NUM_THREADS, 0, stream>>>(qA, qW, a_scale, w_scale, bias, out, M, N, K);
    else
        w8a8_gemm_kernel<false><<<grid, NUM_THREADS, 0, stream>>>(qA, qW, a_scale, w_scale, NULL, out, M, N, K);
    return cudaGetLastError() == cudaSuccess ? 0 : -2;
}
