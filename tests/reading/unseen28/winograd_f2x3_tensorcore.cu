/*
 * Non-fused Winograd convolution F(2x2, 3x3) with the element-wise stage on tensor cores.
 *
 *   x : [N, C, H, W]   fp16        w : [K, C, 3, 3]  fp16
 *   y : [N, K, H, W]   fp16        stride 1, padding 1 (cross-correlation, as in cuDNN/PyTorch)
 *
 *   H, W even;  C a multiple of 16;  K a multiple of 64
 *
 * Stages
 *   1. U[xi][k][c] = (G g G^T)[xi]                   xi = 0..15
 *   2. V[xi][p][c] = (B^T d B)[xi]                   p  = image tile, padded to a multiple of 64
 *   3. Mt[xi][p][k] = sum_c V[xi][p][c] U[xi][k][c]  16 independent GEMMs (wmma)
 *   4. y tile = A^T m A
 */
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <stddef.h>

namespace winograd {

using namespace nvcuda;

enum { ALPHA = 4, XI = ALPHA * ALPHA, GEMM_TILE = 64, GEMM_K = 16 };

struct Shape {
    int n, c, h, w, k;
    __host__ __device__ int tiles_w() const { return w / 2; }
    __host__ __device__ int tiles_per_image() const { return (h / 2) * (w / 2); }
    __host__ __device__ int tiles() const { return n * tiles_per_image(); }
    __host__ __device__ int padded_tiles() const { return (tiles() + GEMM_TILE - 1) / GEMM_TILE * GEMM_TILE; }
};

// G * g * G^T
__global__ void filter_transform(const half *__restrict__ w, half *__restrict__ U, Shape s)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= s.k * s.c) return;
    float g[3][3], t[4][3];
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) g[i][j] = __half2float(w[(size_t)idx * 9 + i * 3 + j]);
    for (int j = 0; j < 3; j++) {
        t[0][j] = g[0][j];
        t[1][j] = 0.5f * (g[0][j] + g[1][j] + g[2][j]);
        t[2][j] = 0.5f * (g[0][j] - g[1][j] + g[2][j]);
        t[3][j] = g[2][j];
    }
    for (int i = 0; i < 4; i++) {
        float u[4];
        u[0] = t[i][0];
        u[1] = 0.5f * (t[i][0] + t[i][1] + t[i][2]);
        u[2] = 0.5f * (t[i][0] - t[i][1] + t[i][2]);
        u[3] = t[i][2];
        for (int j = 0; j < 4; j++) U[(size_t)(i * 4 + j) * s.k * s.c + idx] = __float2half(u[j]);
    }
}

// B^T * d * B, one thread per (tile, channel); channels are the fast index of V
__global__ void input_transform(const half *__restrict__ x, half *__restrict__ V, Shape s)
{
    int c = blockIdx.y * blockDim.x + threadIdx.x;
    int p = blockIdx.x;
    if (c >= s.c) return;
    float d[4][4], t[4][4];
    if (p < s.tiles()) {
        int n  = p / s.tiles_per_image();
        int th = p % s.tiles_per_image() / s.tiles_w();
        int tw = p % s.tiles_w();
        const half *xc = x + ((size_t)n * s.c + c) * s.h * s.w;
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) {
                int ih = th * 2 - 1 + i, iw = tw * 2 - 1 + j;
                bool in = ih >= 0 && ih < s.h && iw >= 0 && iw < s.w;
                d[i][j] = in ? __half2float(xc[ih * s.w + iw]) : 0.f;
            }
    } else {
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) d[i][j] = 0.f;
    }
    for (int j = 0; j < 4; j++) {
        t[0][j] = d[0][j] - d[2][j];
        t[1][j] = d[1][j] + d[2][j];
        t[2][j] = d[2][j] - d[1][j];
        t[3][j] = d[1][j] - d[3][j];
    }
    size_t plane = (size_t)s.padded_tiles() * s.c;
    half *v = V + (size_t)p * s.c + c;
    for (int i = 0; i < 4; i++) {
        v[(i * 4 + 0) * plane] = __float2half(t[i][0] - t[i][2]);
        v[(i * 4 + 1) * plane] = __float2half(t[i][1] + t[i][2]);
        v[(i * 4 + 2) * plane] = __float2half(t[i][2] - t[i][1]);
        v[(i * 4 + 3) * plane] = __float2half(t[i][1] - t[i][3]);
    }
}

// 64 x 64 block tile, 4 warps in 2 x 2, blockIdx.z = xi
__global__ void __launch_bounds__(128)
tile_gemm(const half *__restrict__ V, const half *__restrict__ U, float *__restrict__ Mt, int P, int K, int C)
{
    __shared__ __align__(32) half sv[GEMM_TILE][GEMM_K + 8];
    __shared__ __align__(32) half su[GEMM_TILE][GEMM_K + 8];
    V  += (size_t)blockIdx.z * P * C;
    U  += (size_t)blockIdx.z * K * C;
    Mt += (size_t)blockIdx.z * P * K;
    const int p0 = blockIdx.x * GEMM_TILE, k0 = blockIdx.y * GEMM_TILE;
    const int wy = threadIdx.x / 64, wx = threadIdx.x / 32 % 2;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) wmma::fill_fragment(acc[i][j], 0.f);

    const int r = threadIdx.x / 2, q = threadIdx.x % 2 * 8;
    for (int c0 = 0; c0 < C; c0 += GEMM_K) {
        *(uint4 *)&sv[r][q] = *(const uint4 *)(V + (size_t)(p0 + r) * C + c0 + q);
        *(uint4 *)&su[r][q] = *(const uint4 *)(U + (size_t)(k0 + r) * C + c0 + q);
        __syncthreads();
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a[2];
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b[2];
        for (int i = 0; i < 2; i++) {
            wmma::load_matrix_sync(a[i], &sv[wy * 32 + i * 16][0], GEMM_K + 8);
            wmma::load_matrix_sync(b[i], &su[wx * 32 + i * 16][0], GEMM_K + 8);
        }
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2; j++) wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        __syncthreads();
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            wmma::store_matrix_sync(Mt + (size_t)(p0 + wy * 32 + i * 16) * K + k0 + wx * 32 + j * 16, acc[i][j], K,
                                    wmma::mem_row_major);
}

// A^T * m * A
__global__ void output_transform(const float *__restrict__ Mt, half *__restrict__ y, Shape s)
{
    int k = blockIdx.y * blockDim.x + threadIdx.x;
    int p = blockIdx.x;
    if (k >= s.k) return;
    size_t plane = (size_t)s.padded_tiles() * s.k;
    const float *m = Mt + (size_t)p * s.k + k;
    float t[2][4];
    for (int j = 0; j < 4; j++) {
        float m0 = m[j * plane], m1 = m[(4 + j) * plane], m2 = m[(8 + j) * plane], m3 = m[(12 + j) * plane];
        t[0][j] = m0 + m1 + m2;
        t[1][j] = m1 - m2 - m3;
    }
    int n  = p / s.tiles_per_image();
    int th = p % s.tiles_per_image() / s.tiles_w();
    int tw = p % s.tiles_w();
    half *o = y + (((size_t)n * s.k + k) * s.h + th * 2) * s.w + tw * 2;
    for (int i = 0; i < 2; i++) {
        o[i * s.w]     = __float2half(t[i][0] + t[i][1] + t[i][2]);
        o[i * s.w + 1] = __float2half(t[i][1] - t[i][2] - t[i][3]);
    }
}

size_t workspace_bytes(const Shape &s)
{
    size_t p = s.padded_tiles();
    return XI * (p * s.k * sizeof(float) + p * s.c * sizeof(half) + (size_t)s.k * s.c * sizeof(half));
}

// returns 0, or -1 where the shape is not supported
int conv2d_forward(const half *x, const half *w, half *y, const Shape &s, void *workspace, cudaStream_t stream)
{
    if (s.h % 2 || s.w % 2 || s.c % GEMM_K || s.k % GEMM_TILE) return -1;
    const int p = s.padded_tiles();
    float *Mt = (float *)workspace;
    half *V   = (half *)(Mt + (size_t)XI * p * s.k);
    half *U   = V + (size_t)XI * p * s.c;

    filter_transform<<<(s.k * s.c + 127) / 128, 128, 0, stream>>>(w, U, s);
    input_transform<<<dim3(p, (s.c + 63) / 64), 64, 0, stream>>>(x, V, s);
    tile_gemm<<<dim3(p / GEMM_TILE, s.k / GEMM_TILE, XI), 128, 0, stream>>>(V, U, Mt, p, s.k, s.c);
    output_transform<<<dim3(s.tiles(), (s.k + 63) / 64), 64, 0, stream>>>(Mt, y, s);
    return cudaGetLastError() == cudaSuccess ? 0 : -1;
}

}  // namespace winograd
