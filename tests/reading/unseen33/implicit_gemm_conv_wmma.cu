// Implicit GEMM convolution (NCHW, fprop) with WMMA
//
//   input  : half  [N][C][H][W]
//   weight : half  [K][C][R][S]
//   bias   : float [K]
//   output : half  [N][K][P][Q]      P = (H + 2*pad - dil*(R-1) - 1) / stride + 1
//
//   GEMM_M = K, GEMM_N = N*P*Q, GEMM_K = C*R*S
//   A = weight (row major, as it lies in memory)
//   B[crs][npq] = input[n][c][p*stride - pad + r*dil][q*stride - pad + s*dil]  (never materialised)
//
// Any sizes; the edges of all three GEMM dimensions are padded with zeros in shared memory.

#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda::wmma;

#define gpuErrchk(ans) { gpuAssert((ans), __FILE__, __LINE__); }
inline void gpuAssert(cudaError_t code, const char *file, int line, bool abort = true)
{
    if (code != cudaSuccess)
    {
        fprintf(stderr, "GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line);
        if (abort) exit(code);
    }
}

struct ConvParam
{
    int n, c, h, w;
    int k, r, s;
    int pad, stride, dil;
    int p, q;
};

#define TILE_M 64
#define TILE_N 64
#define TILE_K 32
#define THREADS 128
#define LD_A (TILE_K + 8)
#define LD_B (TILE_N + 8)
#define LD_C (TILE_N + 4)

__global__ void conv2d_implicit_gemm_wmma(const half *__restrict__ input, const half *__restrict__ weight,
                                          const float *__restrict__ bias, half *__restrict__ output,
                                          ConvParam prm)
{
    // the output tile reuses the memory of the input tiles
    __shared__ union
    {
        struct
        {
            half a[TILE_M][LD_A];
            half b[TILE_K][LD_B];
        } in;
        float c[TILE_M][LD_C];
    } sh;

    const int gemm_m = prm.k;
    const int pq = prm.p * prm.q;
    const int gemm_n = prm.n * pq;
    const int rs = prm.r * prm.s;
    const int gemm_k = prm.c * rs;

    const int m0 = blockIdx.y * TILE_M;
    const int n0 = blockIdx.x * TILE_N;
    const int tid = threadIdx.x;
    const int warp = tid / 32;
    const int wm = (warp / 2) * 32;
    const int wn = (warp % 2) * 32;

    // Each thread gathers one column of B; what depends on the column is computed once.
    const int col = tid % TILE_N;
    const int npq = n0 + col;
    const bool col_ok = npq < gemm_n;
    const int img = col_ok ? npq / pq : 0;
    const int rem = col_ok ? npq % pq : 0;
    const int h_base = (rem / prm.q) * prm.stride - prm.pad;
    const int w_base = (rem % prm.q) * prm.stride - prm.pad;
    const half *in_img = input + (size_t)img * prm.c * prm.h * prm.w;

    fragment<accumulator, 16, 16, 16, float> acc[2][2];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            fill_fragment(acc[i][j], 0.0f);

    for (int k0 = 0; k0 < gemm_k; k0 += TILE_K)
    {
        // A: 64 x 32, consecutive threads read consecutive k
        for (int i = tid; i < TILE_M * TILE_K; i += THREADS)
        {
            int row = i / TILE_K;
            int kk = i % TILE_K;
            half v = __float2half(0.0f);
            if (m0 + row < gemm_m && k0 + kk < gemm_k)
                v = weight[(size_t)(m0 + row) * gemm_k + k0 + kk];
            sh.in.a[row][kk] = v;
        }
        // B: 32 x 64, gather
        for (int kk = tid / TILE_N; kk < TILE_K; kk += THREADS / TILE_N)
        {
            int crs = k0 + kk;
            half v = __float2half(0.0f);
            if (col_ok && crs < gemm_k)
            {
                int c = crs / rs;
                int t = crs % rs;
                int h = h_base + (t / prm.s) * prm.dil;
                int w = w_base + (t % prm.s) * prm.dil;
                if (h >= 0 && h < prm.h && w >= 0 && w < prm.w)
                    v = in_img[((size_t)c * prm.h + h) * prm.w + w];
            }
            sh.in.b[kk][col] = v;
        }
        __syncthreads();

        for (int kk = 0; kk < TILE_K; kk += 16)
        {
            fragment<matrix_a, 16, 16, 16, half, row_major> fa[2];
            fragment<matrix_b, 16, 16, 16, half, row_major> fb[2];
            for (int i = 0; i < 2; i++)
            {
                load_matrix_sync(fa[i], &sh.in.a[wm + 16 * i][kk], LD_A);
                load_matrix_sync(fb[i], &sh.in.b[kk][wn + 16 * i], LD_B);
            }
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++)
                    mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
        }
        __syncthreads();
    }

    // the barrier at the end of the loop makes it safe to overwrite a and b
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            store_matrix_sync(&sh.c[wm + 16 * i][wn + 16 * j], acc[i][j], LD_C, mem_row_major);
    __syncthreads();

    // bias + relu, output is [n][k][p][q]
    if (col_ok)
    {
        for (int row = tid / TILE_N; row < TILE_M; row += THREADS / TILE_N)
        {
            int k = m0 + row;
            if (k < gemm_m)
            {
                float v = sh.c[row][col] + bias[k];
                v = v > 0.0f ? v : 0.0f;
                output[((size_t)img * prm.k + k) * pq + rem] = __float2half(v);
            }
        }
    }
}

void conv2d_cpu(const half *input, const half *weight, const float *bias, float *output, ConvParam prm)
{
    for (int n = 0; n < prm.n; n++)
        for (int k = 0; k < prm.k; k++)
            for (int p = 0; p < prm.p; p++)
                for (int q = 0; q < prm.q; q++)
                {
                    double sum = bias[k];
                    for (int c = 0; c < prm.c; c++)
                        for (int r = 0; r < prm.r; r++)
                            for (int s = 0; s < prm.s; s++)
                            {
                                int h = p * prm.stride - prm.pad + r * prm.dil;
                                int w = q * prm.stride - prm.pad + s * prm.dil;
                                if (h < 0 || h >= prm.h || w < 0 || w >= prm.w) continue;
                                sum += (double)__half2float(input[((n * prm.c + c) * prm.h + h) * prm.w + w]) *
                                       (double)__half2float(weight[((k * prm.c + c) * prm.r + r) * prm.s + s]);
                            }
                    output[((n * prm.k + k) * prm.p + p) * prm.q + q] = sum > 0 ? (float)sum : 0.0f;
                }
}

int main(int argc, char **argv)
{
    ConvParam prm;
    prm.n = 2;
    prm.c = 24;
    prm.h = 29;
    prm.w = 31;
    prm.k = 72;
    prm.r = 3;
    prm.s = 3;
    prm.pad = 1;
    prm.stride = argc > 1 ? atoi(argv[1]) : 1;
    prm.dil = argc > 2 ? atoi(argv[2]) : 1;
    prm.p = (prm.h + 2 * prm.pad - prm.dil * (prm.r - 1) - 1) / prm.stride + 1;
    prm.q = (prm.w + 2 * prm.pad - prm.dil * (prm.s - 1) - 1) / prm.stride + 1;

    size_t n_in = (size_t)prm.n * prm.c * prm.h * prm.w;
    size_t n_wt = (size_t)prm.k * prm.c * prm.r * prm.s;
    size_t n_out = (size_t)prm.n * prm.k * prm.p * prm.q;

    half *in_h = (half *)malloc(n_in * sizeof(half));
    half *wt_h = (half *)malloc(n_wt * sizeof(half));
    float *bias_h = (float *)malloc(prm.k * sizeof(float));
    half *out_h = (half *)malloc(n_out * sizeof(half));
    float *ref_h = (float *)malloc(n_out * sizeof(float));
    for (size_t i = 0; i < n_in; i++) in_h[i] = __float2half((rand() % 255) / 255.0f - 0.5f);
    for (size_t i = 0; i < n_wt; i++) wt_h[i] = __float2half((rand() % 255) / 255.0f - 0.5f);
    for (int i = 0; i < prm.k; i++) bias_h[i] = (rand() % 255) / 255.0f - 0.5f;

    half *in_d, *wt_d, *out_d;
    float *bias_d;
    gpuErrchk(cudaMalloc((void **)&in_d, n_in * sizeof(half)));
    gpuErrchk(cudaMalloc((void **)&wt_d, n_wt * sizeof(half)));
    gpuErrchk(cudaMalloc((void **)&bias_d, prm.k * sizeof(float)));
    gpuErrchk(cudaMalloc((void **)&out_d, n_out * sizeof(half)));
    gpuErrchk(cudaMemcpy(in_d, in_h, n_in * sizeof(half), cudaMemcpyHostToDevice));
    gpuErrchk(cudaMemcpy(wt_d, wt_h, n_wt * sizeof(half), cudaMemcpyHostToDevice));
    gpuErrchk(cudaMemcpy(bias_d, bias_h, prm.k * sizeof(float), cudaMemcpyHostToDevice));

    dim3 grid((prm.n * prm.p * prm.q + TILE_N - 1) / TILE_N, (prm.k + TILE_M - 1) / TILE_M);
    conv2d_implicit_gemm_wmma<<<grid, THREADS>>>(in_d, wt_d, bias_d, out_d, prm);
    gpuErrchk(cudaGetLastError());
    gpuErrchk(cudaMemcpy(out_h, out_d, n_out * sizeof(half), cudaMemcpyDeviceToHost));

    conv2d_cpu(in_h, wt_h, bias_h, ref_h, prm);
    int bad = 0;
    for (size_t i = 0; i < n_out; i++)
    {
        float d = fabsf(__half2float(out_h[i]) - ref_h[i]);
        if (d > 0.02f && bad++ < 10) printf("mismatch at %zu: %f vs %f\n", i, __half2float(out_h[i]), ref_h[i]);
    }
    printf("%s\n", bad ? "FAIL" : "PASS");

    cudaFree(in_d);
    cudaFree(wt_d);
    cudaFree(bias_d);
    cudaFree(out_d);
    free(in_h);
    free(wt_h);
    free(bias_h);
    free(out_h);
    free(ref_h);
    return bad != 0;
}
