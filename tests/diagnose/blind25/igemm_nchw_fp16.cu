/* ---------------------------------------------------------------------------------------------
 * implicit GEMM convolution, NCHW, fp16 in / fp32 accumulate / fp16 out, tensor cores (wmma)
 *
 *   out[n][k][oh][ow] = relu( bias[k] + sum_{c,r,s} in[n][c][oh*u - p + r*dr][ow*v - q + s*ds] * weight[k][c][r][s] )
 *
 *   GEMM M : k                (filters)
 *   GEMM N : n * oh * ow      (output pixels)
 *   GEMM K : c * r * s
 *
 * weight is [k][c*r*s], i.e. matrix A as it is; matrix B (im2col) never exists in global memory.
 * Step 4: double buffering in shared memory, next tile is read to registers while this one is multiplied.
 * --------------------------------------------------------------------------------------------- */
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda::wmma;

#define BM 32
#define BN 64
#define BK 32
#define THREADS 128
#define A_PER_THREAD (BM * BK / THREADS) /* 8 */
#define B_PER_THREAD (BN * BK / THREADS) /* 16 */
#define A_LD (BK + 8)
#define B_LD (BN + 8)
#define C_LD (BN + 4)

typedef struct
{
    const half *in;
    const half *weight;
    const half *bias;
    half *out;
    int n, c, h, w;  // input
    int k, r, s;     // filters
    int u, v;        // stride along h and w
    int p, q;        // padding along h and w
    int dr, ds;      // dilation along h and w
    int oh, ow;      // output
} conv_param_t;

__global__ void __launch_bounds__(THREADS) implgemm_nchw(conv_param_t param)
{
    __shared__ __align__(32) half smem_a[2][BM * A_LD];
    __shared__ __align__(32) half smem_b[2][BK * B_LD];
    __shared__ __align__(32) float smem_c[BM * C_LD];

    const int tid = threadIdx.x;
    const int warp = tid / 32;
    const int warp_y = warp / 2;  // 16 filters each
    const int warp_x = warp % 2;  // 32 pixels each

    const int crs = param.c * param.r * param.s;
    const int rs = param.r * param.s;
    const int ohow = param.oh * param.ow;
    const int pixels = param.n * ohow;

    // what this thread reads of the weights: one filter, 8 neighbours along crs
    const int a_row = tid / (BK / A_PER_THREAD);
    const int a_col = tid % (BK / A_PER_THREAD) * A_PER_THREAD;
    const int filter = blockIdx.y * BM + a_row;

    // what this thread reads of the input: one pixel, every second row of crs
    const int b_col = tid % BN;
    const int b_row = tid / BN;
    const int pixel = blockIdx.x * BN + b_col;
    const int img = pixel / ohow;
    const int pos_h = pixel % ohow / param.ow * param.u - param.p;
    const int pos_w = pixel % ohow % param.ow * param.v - param.q;
    const half *in_img = param.in + (size_t)img * param.c * param.h * param.w;

    half reg_a[A_PER_THREAD];
    half reg_b[B_PER_THREAD];

#define LDG_A(k0)                                                                              \
    for (int i = 0; i < A_PER_THREAD; ++i)                                                     \
    {                                                                                          \
        const int kk = (k0) + a_col + i;                                                       \
        reg_a[i] = (filter < param.k && kk < crs) ? param.weight[(size_t)filter * crs + kk]    \
                                                  : __float2half(0.f);                         \
    }

#define LDG_B(k0)                                                                              \
    for (int i = 0; i < B_PER_THREAD; ++i)                                                     \
    {                                                                                          \
        const int kk = (k0) + b_row + i * (THREADS / BN);                                      \
        const int cur_c = kk / rs;                                                             \
        const int cur_r = kk % rs / param.s;                                                   \
        const int cur_s = kk % rs % param.s;                                                   \
        const int cur_h = pos_h + cur_r * param.dr;                                            \
        const int cur_w = pos_w + cur_s * param.ds;                                            \
        const bool inside = cur_h >= 0 && cur_h < param.h && cur_w >= 0 && cur_w < param.w;    \
        reg_b[i] = (pixel < pixels && kk < crs && inside)                                      \
                       ? in_img[(cur_c * param.h + cur_h) * param.w + cur_w]                   \
                       : __float2half(0.f);                                                    \
    }

#define STS(buf)                                                                               \
    for (int i = 0; i < A_PER_THREAD; ++i)                                                     \
        smem_a[buf][a_row * A_LD + a_col + i] = reg_a[i];                                      \
    for (int i = 0; i < B_PER_THREAD; ++i)                                                     \
        smem_b[buf][(b_row + i * (THREADS / BN)) * B_LD + b_col] = reg_b[i];

    fragment<matrix_a, 16, 16, 16, half, row_major> frag_a;
    fragment<matrix_b, 16, 16, 16, half, row_major> frag_b[2];
    fragment<accumulator, 16, 16, 16, float> frag_c[2];
    fill_fragment(frag_c[0], 0.f);
    fill_fragment(frag_c[1], 0.f);

    LDG_A(0)
    LDG_B(0)
    STS(0)
    __syncthreads();

    int cur = 0;
    for (int k0 = 0; k0 < crs; k0 += BK)
    {
        const bool more = k0 + BK < crs;
        if (more)
        {
            LDG_A(k0 + BK)
            LDG_B(k0 + BK)
        }

        for (int kk = 0; kk < BK; kk += 16)
        {
            load_matrix_sync(frag_a, &smem_a[cur][warp_y * 16 * A_LD + kk], A_LD);
            for (int j = 0; j < 2; ++j)
            {
                load_matrix_sync(frag_b[j], &smem_b[cur][kk * B_LD + warp_x * 32 + j * 16], B_LD);
                mma_sync(frag_c[j], frag_a, frag_b[j], frag_c[j]);
            }
        }

        if (more)
        {
            STS(cur ^ 1)
            __syncthreads();
            cur ^= 1;
        }
    }

    for (int j = 0; j < 2; ++j)
        store_matrix_sync(&smem_c[warp_y * 16 * C_LD + warp_x * 32 + j * 16], frag_c[j], C_LD, mem_row_major);
    __syncthreads();

    // write back: neighbours in a warp are neighbours in the picture
    if (pixel < pixels)
    {
        const int out_hw = pixel % ohow;
        for (int row = b_row; row < BM; row += THREADS / BN)
        {
            const int out_k = blockIdx.y * BM + row;
            if (out_k < param.k)
            {
                float val = smem_c[row * C_LD + b_col] + __half2float(param.bias[out_k]);
                val = val > 0.f ? val : 0.f;
                param.out[((size_t)img * param.k + out_k) * ohow + out_hw] = __float2half(val);
            }
        }
    }
}

void launch_implgemm_nchw(conv_param_t param)
{
    param.oh = (param.h + 2 * param.p - param.dr * (param.r - 1) - 1) / param.u + 1;
    param.ow = (param.w + 2 * param.q - param.ds * (param.s - 1) - 1) / param.v + 1;
    dim3 grid((param.n * param.oh * param.ow + BN - 1) / BN, (param.k + BM - 1) / BM);
    implgemm_nchw<<<grid, THREADS>>>(param);
}
