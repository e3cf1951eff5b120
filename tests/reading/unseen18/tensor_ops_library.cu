// Small kernels of a training framework: every function works on contiguous row-major tensors.
#include "cuda_runtime.h"
#include "cuda_fp16.h"
#include <mma.h>
#include <cfloat>

#define TILE 16
#define BLOCK 256
#define GRID(n) (int)(((n) + BLOCK - 1) / BLOCK)

extern "C" {

__global__ void add_kernel(const float* a, const float* b, float* out, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) out[i] = a[i] + b[i];
}

__global__ void relu_backward_kernel(const float* grad_out, const float* x, float* grad_in, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) grad_in[i] = x[i] > 0.0f ? grad_out[i] : 0.0f;
}

__global__ void transpose_kernel(const half* in, half* out, int rows, int cols) {
    __shared__ half t[TILE][TILE + 1];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    if (x < cols && y < rows) t[threadIdx.y][threadIdx.x] = in[y * cols + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    if (x < rows && y < cols) out[y * rows + x] = t[threadIdx.x][threadIdx.y];
}

__global__ void softmax_kernel(const float* in, float* out, int rows, int cols) {
    int row = blockIdx.x;
    __shared__ float buf[BLOCK];
    float m = -FLT_MAX;
    for (int c = threadIdx.x; c < cols; c += BLOCK) m = fmaxf(m, in[row * cols + c]);
    buf[threadIdx.x] = m;
    __syncthreads();
    for (int s = BLOCK / 2; s > 0; s /= 2) {
        if (threadIdx.x < s) buf[threadIdx.x] = fmaxf(buf[threadIdx.x], buf[threadIdx.x + s]);
        __syncthreads();
    }
    m = buf[0];
    __syncthreads();
    float sum = 0.0f;
    for (int c = threadIdx.x; c < cols; c += BLOCK) sum += expf(in[row * cols + c] - m);
    buf[threadIdx.x] = sum;
    __syncthreads();
    for (int s = BLOCK / 2; s > 0; s /= 2) {
        if (threadIdx.x < s) buf[threadIdx.x] += buf[threadIdx.x + s];
        __syncthreads();
    }
    for (int c = threadIdx.x; c < cols; c += BLOCK) out[row * cols + c] = expf(in[row * cols + c] - m) / buf[0];
}

// out (m x n) = a (m x k) * b (k x n); one warp computes one tile, any sizes
__global__ void matmul_tensor_core_kernel(const half* a, const half* b, float* out, int m, int n, int k) {
    __shared__ half sa[TILE * TILE], sb[TILE * TILE];
    __shared__ float so[TILE * TILE];
    int row = blockIdx.y * TILE, col = blockIdx.x * TILE;
    nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, TILE, TILE, TILE, half, nvcuda::wmma::row_major> fa;
    nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, TILE, TILE, TILE, half, nvcuda::wmma::row_major> fb;
    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, TILE, TILE, TILE, float> fc;
    nvcuda::wmma::fill_fragment(fc, 0.0f);
    for (int p = 0; p < k; p += TILE) {
        for (int i = threadIdx.x; i < TILE * TILE; i += 32) {
            int r = i / TILE, c = i % TILE;
            sa[i] = row + r < m && p + c < k ? a[(row + r) * k + p + c] : (half)0.0f;
            sb[i] = p + r < k && col + c < n ? b[(p + r) * n + col + c] : (half)0.0f;
        }
        __syncthreads();
        nvcuda::wmma::load_matrix_sync(fa, sa, TILE);
        nvcuda::wmma::load_matrix_sync(fb, sb, TILE);
        nvcuda::wmma::mma_sync(fc, fa, fb, fc);
        __syncthreads();
    }
    nvcuda::wmma::store_matrix_sync(so, fc, TILE, nvcuda::wmma::mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < TILE * TILE; i += 32)
        if (row + i / TILE < m && col + i % TILE < n) out[(row + i / TILE) * n + col + i % TILE] = so[i];
}

__global__ void layernorm_kernel(const float* x, const float* gamma, const float* beta, float* y, int cols, float eps) {
    const float* in = x + blockIdx.x * cols;
    float s = 0.0f, s2 = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 32) { s += in[c]; s2 += in[c] * in[c]; }
    for (int d = 16; d; d /= 2) { s += __shfl_xor_sync(0xffffffff, s, d); s2 += __shfl_xor_sync(0xffffffff, s2, d); }
    float mean = s / cols, rstd = rsqrtf(s2 / cols - mean * mean + eps);
    for (int c = threadIdx.x; c < cols; c += 32) y[blockIdx.x * cols + c] = (in[c] - mean) * rstd * gamma[c] + beta[c];
}

void tensor_add(float* a, float* b, float* out, int size) { add_kernel<<<GRID(size), BLOCK>>>(a, b, out, size); }
void tensor_relu_backward(float* g, float* x, float* out, int size) { relu_backward_kernel<<<GRID(size), BLOCK>>>(g, x, out, size); }
void tensor_transpose(half* in, half* out, int rows, int cols) {
    transpose_kernel<<<dim3((cols + TILE - 1) / TILE, (rows + TILE - 1) / TILE), dim3(TILE, TILE)>>>(in, out, rows, cols);
}
void tensor_softmax(float* in, float* out, int rows, int cols) { softmax_kernel<<<rows, BLOCK>>>(in, out, rows, cols); }
void tensor_matmul(half* a, half* b, float* out, int m, int n, int k) {
    matmul_tensor_core_kernel<<<dim3((n + TILE - 1) / TILE, (m + TILE - 1) / TILE), 32>>>(a, b, out, m, n, k);
}
void tensor_layernorm(float* x, float* gamma, float* beta, float* y, int rows, int cols) {
    layernorm_kernel<<<rows, 32>>>(x, gamma, beta, y, cols, 1e-5f);
}

}
