// Binary matrix multiplication for binarised networks: bits are +1 / -1, packed 32 to a word.
//   out[i][j] = K - 2 * popc(a_row_i XOR b_row_j)
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#include <mma.h>

using namespace nvcuda;
using namespace nvcuda::wmma::experimental;

#define CEIL(a, b) (((a) + (b) - 1) / (b))

// a: M rows of K/32 words, b: N rows of K/32 words. A warp for each 8 x 8 tile.
__global__ void bmm_xnor(const unsigned* __restrict__ a, const unsigned* __restrict__ b, int* __restrict__ out, int M,
                         int N, int K)
{
    const int tile_n = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    const int tile_m = blockIdx.y;
    if (tile_n * 8 >= N) return;

    wmma::fragment<wmma::matrix_a, 8, 8, 128, precision::b1, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 8, 8, 128, precision::b1, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 8, 8, 128, int> fc;
    wmma::fill_fragment(fc, 0);

    for (int k = 0; k < K; k += 128) {
        wmma::load_matrix_sync(fa, a + (tile_m * 8 * K + k) / 32, K);
        wmma::load_matrix_sync(fb, b + (tile_n * 8 * K + k) / 32, K);
        wmma::bmma_sync(fc, fa, fb, fc);
    }
#pragma unroll
    for (int i = 0; i < fc.num_elements; i++) fc.x[i] = K - 2 * fc.x[i];
    wmma::store_matrix_sync(out + tile_m * 8 * N + tile_n * 8, fc, N, wmma::mem_row_major);
}

int main()
{
    const int M = 64, N = 48, K = 512;
    std::vector<unsigned> a(M * K / 32), b(N * K / 32);
    std::vector<int> out(M * N);
    for (auto& w : a) w = ((unsigned)rand() << 16) ^ (unsigned)rand();
    for (auto& w : b) w = ((unsigned)rand() << 16) ^ (unsigned)rand();

    unsigned *da, *db;
    int* dout;
    cudaMalloc((void**)&da, a.size() * 4);
    cudaMalloc((void**)&db, b.size() * 4);
    cudaMalloc((void**)&dout, out.size() * 4);
    cudaMemcpy(da, a.data(), a.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(db, b.data(), b.size() * 4, cudaMemcpyHostToDevice);

    bmm_xnor<<<dim3(CEIL(N, 32), M / 8), 128>>>(da, db, dout, M, N, K);

    cudaMemcpy(out.data(), dout, out.size() * 4, cudaMemcpyDeviceToHost);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            int dot = 0;
            for (int k = 0; k < K; k++) {
                int x = (a[(i * K + k) / 32] >> (k % 32)) & 1, y = (b[(j * K + k) / 32] >> (k % 32)) & 1;
                dot += x == y ? 1 : -1;
            }
            if (dot != out[i * N + j]) {
                printf("mismatch at %d %d: %d != %d\n", i, j, out[i * N + j], dot);
                return 1;
            }
        }
    puts("ok");
    cudaFree(da);
    cudaFree(db);
    cudaFree(dout);
    return 0;
}
