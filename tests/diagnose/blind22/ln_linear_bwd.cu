// Backward of  z = LayerNorm(x) @ W^T  with respect to x, gamma and beta, in one kernel:
//   dh  = dz @ W                                  (tensor cores, [rows, out] x [out, C])
//   dxh = dh * gamma
//   dx  = rstd * (dxh - mean_c(dxh) - xh * mean_c(dxh * xh))
//   dgamma_part[block] = sum_rows(dh * xh),  dbeta_part[block] = sum_rows(dh)    (summed by a second, tiny kernel)
// A block owns 32 complete rows: 2 x 2 warps, each 16 rows x C/2 columns.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

typedef __nv_bfloat16 bf16;
typedef __nv_bfloat162 bf162;

#define ROWS 32
#define KT 32

#define LDSM_X4(R, P)                                                                                   \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"                      \
                 : "=r"((R)[0]), "=r"((R)[1]), "=r"((R)[2]), "=r"((R)[3])                               \
                 : "r"((unsigned)__cvta_generic_to_shared(P)))
#define LDSM_X4_T(R, P)                                                                                 \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"                \
                 : "=r"((R)[0]), "=r"((R)[1]), "=r"((R)[2]), "=r"((R)[3])                               \
                 : "r"((unsigned)__cvta_generic_to_shared(P)))
#define MMA(D, A, B0, B1)                                                                               \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "                                 \
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"                              \
                 : "+f"((D)[0]), "+f"((D)[1]), "+f"((D)[2]), "+f"((D)[3])                               \
                 : "r"((A)[0]), "r"((A)[1]), "r"((A)[2]), "r"((A)[3]), "r"(B0), "r"(B1))

__device__ __forceinline__ float quad_sum(float v)
{
    v += __shfl_xor_sync(~0u, v, 1);
    v += __shfl_xor_sync(~0u, v, 2);
    return v;
}

template <int C>
__global__ void __launch_bounds__(128)
ln_linear_backward(const bf16 *__restrict__ dz, const bf16 *__restrict__ w, const bf16 *__restrict__ x,
                   const float *__restrict__ mean, const float *__restrict__ rstd, const bf16 *__restrict__ gamma,
                   bf16 *__restrict__ dx, float *__restrict__ dgamma_part, float *__restrict__ dbeta_part,
                   int rows, int out)
{
    constexpr int NT = C / 2 / 8;                          // n tiles of a warp
    __shared__ __align__(16) bf16 s_dz[ROWS][KT + 8];
    __shared__ __align__(16) bf16 s_w[KT][C + 8];
    __shared__ float s_red[2][ROWS][2];                    // two sums, of either half of the columns
    __shared__ float s_dg[2][C], s_db[2][C];               // of either half of the rows

    const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    const int wr = warp >> 1, wc = warp & 1;
    const int g = lane >> 2, t = lane & 3;
    const int row0 = blockIdx.x * ROWS;

    float dh[NT][4];
    for (int n = 0; n < NT; n++)
        for (int e = 0; e < 4; e++) dh[n][e] = 0.f;

    for (int k0 = 0; k0 < out; k0 += KT) {
        {   // 32 x 32 of dz: one vector of 8 per thread
            const int r = tid >> 2, c = (tid & 3) * 8;
            uint4 v = make_uint4(0, 0, 0, 0);
            if (row0 + r < rows && k0 + c < out) v = *(const uint4 *)(dz + (size_t)(row0 + r) * out + k0 + c);
            *(uint4 *)&s_dz[r][c] = v;
        }
        for (int i = tid; i < KT * C / 8; i += 128) {
            const int r = i / (C / 8), c = i % (C / 8) * 8;
            uint4 v = make_uint4(0, 0, 0, 0);
            if (k0 + r < out) v = *(const uint4 *)(w + (size_t)(k0 + r) * C + c);
            *(uint4 *)&s_w[r][c] = v;
        }
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < KT; kk += 16) {
            unsigned a[4];
            LDSM_X4(a, &s_dz[wr * 16 + (lane & 15)][kk + (lane >> 4) * 8]);
#pragma unroll
            for (int n = 0; n < NT; n += 2) {
                unsigned b[4];
                LDSM_X4_T(b, &s_w[kk + (lane & 15)][wc * (C / 2) + n * 8 + (lane >> 4) * 8]);
                MMA(dh[n], a, b[0], b[1]);
                MMA(dh[n + 1], a, b[2], b[3]);
            }
        }
        __syncthreads();
    }

    // normalised inputs of this thread's elements, and the row sums
    float xh[NT][4], sum1[2] = {0.f, 0.f}, sum2[2] = {0.f, 0.f}, rs[2];
    for (int h = 0; h < 2; h++) {
        const int row = row0 + wr * 16 + g + 8 * h;
        const bool ok = row < rows;
        const float mu = ok ? mean[row] : 0.f;
        rs[h] = ok ? rstd[row] : 0.f;
        for (int n = 0; n < NT; n++) {
            const int col = wc * (C / 2) + n * 8 + 2 * t;
            float2 xv = make_float2(0.f, 0.f);
            if (ok) xv = __bfloat1622float2(*(const bf162 *)(x + (size_t)row * C + col));
            const float2 gv = __bfloat1622float2(*(const bf162 *)(gamma + col));
            xh[n][2 * h] = (xv.x - mu) * rs[h];
            xh[n][2 * h + 1] = (xv.y - mu) * rs[h];
            const float d0 = dh[n][2 * h] * gv.x, d1 = dh[n][2 * h + 1] * gv.y;
            sum1[h] += d0 + d1;
            sum2[h] += d0 * xh[n][2 * h] + d1 * xh[n][2 * h + 1];
        }
        sum1[h] = quad_sum(sum1[h]);
        sum2[h] = quad_sum(sum2[h]);
        if (t == 0) {
            s_red[0][wr * 16 + g + 8 * h][wc] = sum1[h];
            s_red[1][wr * 16 + g + 8 * h][wc] = sum2[h];
        }
    }

    // column sums over the 16 rows of the warp: lanes of equal t
    for (int n = 0; n < NT; n++)
        for (int e = 0; e < 2; e++) {
            float dg = dh[n][e] * xh[n][e] + dh[n][e + 2] * xh[n][e + 2];
            float db = dh[n][e] + dh[n][e + 2];
            for (int m = 4; m < 32; m <<= 1) {
                dg += __shfl_xor_sync(~0u, dg, m);
                db += __shfl_xor_sync(~0u, db, m);
            }
            if (g == 0) {
                s_dg[wr][wc * (C / 2) + n * 8 + 2 * t + e] = dg;
                s_db[wr][wc * (C / 2) + n * 8 + 2 * t + e] = db;
            }
        }
    __syncthreads();

    for (int h = 0; h < 2; h++) {
        const int r = wr * 16 + g + 8 * h, row = row0 + r;
        if (row >= rows) continue;
        const float m1 = (s_red[0][r][0] + s_red[0][r][1]) / C;
        const float m2 = (s_red[1][r][0] + s_red[1][r][1]) / C;
        for (int n = 0; n < NT; n++) {
            const int col = wc * (C / 2) + n * 8 + 2 * t;
            const float2 gv = __bfloat1622float2(*(const bf162 *)(gamma + col));
            const float v0 = rs[h] * (dh[n][2 * h] * gv.x - m1 - xh[n][2 * h] * m2);
            const float v1 = rs[h] * (dh[n][2 * h + 1] * gv.y - m1 - xh[n][2 * h + 1] * m2);
            *(bf162 *)(dx + (size_t)row * C + col) = __floats2bfloat162_rn(v0, v1);
        }
    }
    for (int c = tid; c < C; c += 128) {
        dgamma_part[(size_t)blockIdx.x * C + c] = s_dg[0][c] + s_dg[1][c];
        dbeta_part[(size_t)blockIdx.x * C + c] = s_db[0][c] + s_db[1][c];
    }
}

template __global__ void ln_linear_backward<128>(const bf16 *, const bf16 *, const bf16 *, const float *, const float *,
                                                 const bf16 *, bf16 *, float *, float *, int, int);
