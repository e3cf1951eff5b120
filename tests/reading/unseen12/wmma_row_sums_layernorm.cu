// LayerNorm whose sums run on tensor cores: x times a matrix of ones gives the sum of each row.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

// 16 rows per warp; hidden must be a multiple of 16
__global__ void layernorm_tensorcore(const half* __restrict__ x, const half* __restrict__ gamma, const half* __restrict__ beta,
                                     half* __restrict__ y, int hidden, float eps)
{
    __shared__ half centered[16 * 16];
    __shared__ float sums[16 * 16];
    __shared__ float mean[16], rstd[16];
    const int lane = threadIdx.x;
    const half* xr = x + (size_t)blockIdx.x * 16 * hidden;
    half* yr = y + (size_t)blockIdx.x * 16 * hidden;

    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> ones;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(ones, __float2half(1.0f));

    // mean
    wmma::fill_fragment(acc, 0.0f);
    for (int c = 0; c < hidden; c += 16) {
        wmma::load_matrix_sync(a, xr + c, hidden);
        wmma::mma_sync(acc, a, ones, acc);
    }
    wmma::store_matrix_sync(sums, acc, 16, wmma::mem_row_major);
    __syncwarp();
    if (lane < 16) mean[lane] = sums[lane * 16] / hidden;
    __syncwarp();

    // variance
    wmma::fill_fragment(acc, 0.0f);
    float var = 0.0f;
    for (int c = 0; c < hidden; c += 16) {
        for (int i = lane; i < 256; i += 32)
            centered[i] = __float2half(__half2float(xr[(i / 16) * hidden + c + i % 16]) - mean[i / 16]);
        __syncwarp();
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> t;
        wmma::load_matrix_sync(a, centered, 16);
        wmma::load_matrix_sync(t, centered, 16);
        wmma::mma_sync(acc, a, t, acc);  // the diagonal holds the squares
        __syncwarp();
    }
    wmma::store_matrix_sync(sums, acc, 16, wmma::mem_row_major);
    __syncwarp();
    if (lane < 16) {
        var = sums[lane * 16 + lane] / hidden;
        rstd[lane] = rsqrtf(var + eps);
    }
    __syncwarp();

    for (int i = lane; i < 16 * hidden; i += 32) {
        const int r = i / hidden, c = i % hidden;
        const float n = (__half2float(xr[i]) - mean[r]) * rstd[r];
        yr[i] = __float2half(n * __half2float(gamma[c]) + __half2float(beta[c]));
    }
}

void layernorm_forward(const half* x, const half* gamma, const half* beta, half* y, int rows, int hidden, float eps,
                       cudaStream_t stream)
{
    layernorm_tensorcore<<<rows / 16, 32, 0, stream>>>(x, gamma, beta, y, hidden, eps);
}
