// My first tensor core attention: one block per head, S = D = 64 fixed, 16 warps, one 16x16 tile each.
// Based on the naive CUDA kernel, only the two matmuls use wmma.
#include <cuda_fp16.h>
#include <mma.h>
#include <stdio.h>
#include <vector>
using namespace nvcuda;

#define S 64
#define D 64
#define CHECK(x) do { cudaError_t e = (x); if (e != cudaSuccess) printf("%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e)); } while (0)

__global__ void attention_kernel(half *Q, half *K, half *V, float *Out)
{
    __shared__ __align__(32) half Qs[S * D];
    __shared__ __align__(32) half Ks[S * D];
    __shared__ __align__(32) float Scores[S * S];

    int tid = threadIdx.x;
    int warp = tid / 32;
    int ty = warp / 4, tx = warp % 4;
    int base = blockIdx.x * S * D;

    for (int i = tid; i < S * D; i += 512) {
        Qs[i] = Q[base + i];
        Ks[i] = K[base + i];
    }
    __syncthreads();

    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> bt;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;

    wmma::fill_fragment(c, 0.0f);
    for (int k = 0; k < D; k += 16) {
        wmma::load_matrix_sync(a, Qs + ty * 16 * D + k, D);
        wmma::load_matrix_sync(bt, Ks + tx * 16 * D + k, D);
        wmma::mma_sync(c, a, bt, c);
    }
    wmma::store_matrix_sync(Scores + ty * 16 * S + tx * 16, c, S, wmma::mem_row_major);
    __syncthreads();

    // softmax: 8 threads per row
    int row = tid / 8, part = tid % 8;
    float mx = -1e9f;
    for (int j = part; j < S; j += 8) mx = fmaxf(mx, Scores[row * S + j] * 0.125f);
    for (int m = 4; m >= 1; m /= 2) mx = fmaxf(mx, __shfl_xor_sync(0xffffffff, mx, m, 8));
    float sum = 0;
    for (int j = part; j < S; j += 8) {
        float e = expf(Scores[row * S + j] * 0.125f - mx);
        sum += e;
        Qs[row * S + j] = __float2half(e);
    }
    for (int m = 4; m >= 1; m /= 2) sum += __shfl_xor_sync(0xffffffff, sum, m, 8);
    // V takes the place of K
    for (int i = tid; i < S * D; i += 512) Ks[i] = V[base + i];
    __syncthreads();

    wmma::fill_fragment(c, 0.0f);
    for (int k = 0; k < S; k += 16) {
        wmma::load_matrix_sync(a, Qs + ty * 16 * S + k, S);
        wmma::load_matrix_sync(b, Ks + k * D + tx * 16, D);
        wmma::mma_sync(c, a, b, c);
    }
    wmma::store_matrix_sync(Scores + ty * 16 * D + tx * 16, c, D, wmma::mem_row_major);
    __syncthreads();
    for (int j = part; j < D; j += 8) Out[base + row * D + j] = Scores[row * D + j] / (sum * sum);
}

int main()
{
    const int heads = 12;
    std::vector<half> h(heads * S * D);
    half *q, *k, *v; float *o;
    CHECK(cudaMalloc(&q, h.size() * sizeof(half)));
    CHECK(cudaMalloc(&k, h.size() * sizeof(half)));
    CHECK(cudaMalloc(&v, h.size() * sizeof(half)));
    CHECK(cudaMalloc(&o, h.size() * sizeof(float)));
    attention_kernel<<<heads, 512>>>(q, k, v, o);
    CHECK(cudaDeviceSynchronize());
    return 0;
}
