// Implicit GEMM 2D convolution on tensor cores, NCHW, fp16 in, fp32 out.
//
//   y[n][k][p][q] = relu( bias[k] + sum_{c,r,s} w[k][c][r][s] * x[n][c][p*stride - pad + r][q*stride - pad + s] )
//
// as a GEMM:   M = K (output channels),  N = n*P*Q (output pixels),  Kdim = C*R*S.
// The im2col matrix is never written, its elements are gathered straight into shared memory.
// Works for every size: the tails of all three GEMM dimensions are filled with zeros.
//
// build: nvcc -arch=sm_75 -O2 conv2d_igemm_wmma.cu

#include <mma.h>
#include <cuda_fp16.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>

using namespace nvcuda;

#define gpuErrchk(ans) { gpuAssert((ans), __FILE__, __LINE__); }
inline void gpuAssert(cudaError_t code, const char *file, int line, bool abort = true)
{
    if (code != cudaSuccess) {
        fprintf(stderr, "GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line);
        if (abort) exit(code);
    }
}

typedef struct {
    int n, c, h, w;      // input
    int k, r, s;         // filter
    int stride, pad;
    int p, q;            // output height and width
} conv_param_t;

#define TM 64
#define TN 64
#define TK 32
#define SKEW 8

__global__ void conv2d_igemm(const half *__restrict__ x, const half *__restrict__ w, const float *__restrict__ bias,
                             float *__restrict__ y, conv_param_t prm)
{
    __shared__ __align__(32) half As[TM][TK + SKEW];
    __shared__ __align__(32) half Bs[TK][TN + SKEW];
    __shared__ __align__(32) float Cs[TM][TN + 4];

    const int gemm_m = prm.k;
    const int gemm_n = prm.n * prm.p * prm.q;
    const int gemm_k = prm.c * prm.r * prm.s;

    const int tid = threadIdx.x;                 // 128 threads
    const int wy = (tid / 32) / 2;               // 2 x 2 warps, each 32 x 32
    const int wx = (tid / 32) % 2;
    const int m0 = blockIdx.y * TM;
    const int n0 = blockIdx.x * TN;

    // The pixel that this thread gathers is the same in every k tile
    const int bcol = tid % TN;                   // 0..63
    const int brow = tid / TN;                   // 0..1
    const int pix = n0 + bcol;
    const bool pix_ok = pix < gemm_n;
    const int img = pix / (prm.p * prm.q);
    const int rem = pix % (prm.p * prm.q);
    const int ih0 = (rem / prm.q) * prm.stride - prm.pad;
    const int iw0 = (rem % prm.q) * prm.stride - prm.pad;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            wmma::fill_fragment(acc[i][j], 0.0f);

    for (int k0 = 0; k0 < gemm_k; k0 += TK) {
        // filter, already a row-major K x (CRS) matrix
        for (int i = tid; i < TM * TK; i += blockDim.x) {
            int row = i / TK, col = i % TK;
            half v = __float2half(0.0f);
            if (m0 + row < gemm_m && k0 + col < gemm_k)
                v = w[(m0 + row) * gemm_k + k0 + col];
            As[row][col] = v;
        }
        // input patches
        for (int row = brow; row < TK; row += 2) {
            int kk = k0 + row;
            half v = __float2half(0.0f);
            if (pix_ok && kk < gemm_k) {
                int ch = kk / (prm.r * prm.s);
                int rs = kk % (prm.r * prm.s);
                int ih = ih0 + rs / prm.s;
                int iw = iw0 + rs % prm.s;
                if (ih >= 0 && ih < prm.h && iw >= 0 && iw < prm.w)
                    v = x[((img * prm.c + ch) * prm.h + ih) * prm.w + iw];
            }
            Bs[row][bcol] = v;
        }
        __syncthreads();

        for (int kk = 0; kk < TK; kk += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b[2];
            for (int i = 0; i < 2; i++) {
                wmma::load_matrix_sync(a[i], &As[wy * 32 + i * 16][kk], TK + SKEW);
                wmma::load_matrix_sync(b[i], &Bs[kk][wx * 32 + i * 16], TN + SKEW);
            }
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++)
                    wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        }
        __syncthreads();
    }

    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            wmma::store_matrix_sync(&Cs[wy * 32 + i * 16][wx * 32 + j * 16], acc[i][j], TN + 4, wmma::mem_row_major);
    __syncthreads();

    // scatter to NKPQ with bias and ReLU
    if (pix_ok) {
        for (int row = brow; row < TM; row += 2) {
            int oc = m0 + row;
            if (oc < gemm_m) {
                float v = Cs[row][bcol] + bias[oc];
                y[(img * prm.k + oc) * prm.p * prm.q + rem] = v > 0.0f ? v : 0.0f;
            }
        }
    }
}

void launch_conv(const half *x, const half *w, const float *bias, float *y, conv_param_t prm)
{
    int gemm_n = prm.n * prm.p * prm.q;
    dim3 grid((gemm_n + TN - 1) / TN, (prm.k + TM - 1) / TM);
    conv2d_igemm<<<grid, 128>>>(x, w, bias, y, prm);
}

static void conv_cpu(const half *x, const half *w, const float *bias, float *y, conv_param_t p)
{
    for (int n = 0; n < p.n; n++)
    for (int k = 0; k < p.k; k++)
    for (int oh = 0; oh < p.p; oh++)
    for (int ow = 0; ow < p.q; ow++) {
        float sum = bias[k];
        for (int c = 0; c < p.c; c++)
        for (int r = 0; r < p.r; r++)
        for (int s = 0; s < p.s; s++) {
            int ih = oh * p.stride - p.pad + r;
            int iw = ow * p.stride - p.pad + s;
            if (ih < 0 || ih >= p.h || iw < 0 || iw >= p.w) continue;
            sum += __half2float(x[((n * p.c + c) * p.h + ih) * p.w + iw]) *
                   __half2float(w[((k * p.c + c) * p.r + r) * p.s + s]);
        }
        y[((n * p.k + k) * p.p + oh) * p.q + ow] = sum > 0.0f ? sum : 0.0f;
    }
}

int main()
{
    conv_param_t prm = {2, 19, 27, 30, 70, 3, 3, 2, 1, 0, 0};
    prm.p = (prm.h + 2 * prm.pad - prm.r) / prm.stride + 1;
    prm.q = (prm.w + 2 * prm.pad - prm.s) / prm.stride + 1;

    size_t nx = (size_t)prm.n * prm.c * prm.h * prm.w;
    size_t nw = (size_t)prm.k * prm.c * prm.r * prm.s;
    size_t ny = (size_t)prm.n * prm.k * prm.p * prm.q;

    half *x, *w;
    float *bias, *y;
    gpuErrchk(cudaMallocManaged(&x, nx * sizeof(half)));
    gpuErrchk(cudaMallocManaged(&w, nw * sizeof(half)));
    gpuErrchk(cudaMallocManaged(&bias, prm.k * sizeof(float)));
    gpuErrchk(cudaMallocManaged(&y, ny * sizeof(float)));
    float *ref = (float *)malloc(ny * sizeof(float));

    for (size_t i = 0; i < nx; i++) x[i] = __float2half((float)(rand() % 17 - 8) / 8.0f);
    for (size_t i = 0; i < nw; i++) w[i] = __float2half((float)(rand() % 17 - 8) / 16.0f);
    for (int i = 0; i < prm.k; i++) bias[i] = (float)(rand() % 17 - 8) / 8.0f;

    launch_conv(x, w, bias, y, prm);
    gpuErrchk(cudaPeekAtLastError());
    gpuErrchk(cudaDeviceSynchronize());

    conv_cpu(x, w, bias, ref, prm);
    float maxerr = 0.0f;
    for (size_t i = 0; i < ny; i++) maxerr = fmaxf(maxerr, fabsf(ref[i] - y[i]));
    printf("output %d x %d x %d x %d, max error %g: %s\n", prm.n, prm.k, prm.p, prm.q, maxerr, maxerr < 1e-2f ? "PASS" : "FAIL");
    return 0;
}
