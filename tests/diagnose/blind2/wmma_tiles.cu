// Step 3: tensor core matmul with shared memory tiles.
//
//   C = alpha * A * B + beta * C      A: MxK  B: KxN  C: MxN, all row major
//
// 4 warps in a block, every warp makes a 32x32 piece of a 64x64 tile (2x2 fragments).
// Works for any M, N, K (tiles over the border are filled with zeros).

#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

const int TILE_M = 64;
const int TILE_N = 64;
const int TILE_K = 32;
const int PAD = 8;              // avoids bank conflicts
const int LDA_S = TILE_K + PAD;
const int LDB_S = TILE_N + PAD;
const int LDC_S = TILE_N + 4;
const int THREADS = 128;

__global__ void matmul_tc(const half *A, const half *B, float *C, int M, int N, int K, float alpha, float beta)
{
    __shared__ __align__(32) half As[TILE_M * LDA_S];
    __shared__ __align__(32) half Bs[TILE_K * LDB_S];
    __shared__ __align__(32) float Cs[TILE_M * LDC_S];

    int tid = threadIdx.x;
    int warpId = tid / 32;
    int warpRow = warpId / 2;
    int warpCol = warpId % 2;
    int rowStart = blockIdx.y * TILE_M;
    int colStart = blockIdx.x * TILE_N;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            wmma::fill_fragment(acc[i][j], 0.0f);

    for (int k0 = 0; k0 < K; k0 += TILE_K) {
        // load the A tile
        for (int idx = tid; idx < TILE_M * TILE_K; idx += THREADS) {
            int r = idx / TILE_K;
            int c = idx % TILE_K;
            half v = __float2half(0.0f);
            if (rowStart + r < M && k0 + c < K)
                v = A[(rowStart + r) * K + k0 + c];
            As[r * LDA_S + c] = v;
        }
        // load the B tile
        for (int idx = tid; idx < TILE_K * TILE_N; idx += THREADS) {
            int r = idx / TILE_N;
            int c = idx % TILE_N;
            half v = __float2half(0.0f);
            if (k0 + r < K && colStart + c < N)
                v = B[(k0 + r) * N + colStart + c];
            Bs[r * LDB_S + c] = v;
        }
        __syncthreads();

        for (int kk = 0; kk < TILE_K; kk += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b[2];
            for (int i = 0; i < 2; i++)
                wmma::load_matrix_sync(a[i], As + (warpRow * 32 + i * 16) * LDA_S + kk, LDA_S);
            for (int j = 0; j < 2; j++)
                wmma::load_matrix_sync(b[j], Bs + kk * LDB_S + warpCol * 32 + j * 16, LDB_S);
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++)
                    wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        }
        __syncthreads();
    }

    // stage the result so that the border can be cut off
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            wmma::store_matrix_sync(Cs + (warpRow * 32 + i * 16) * LDC_S + warpCol * 32 + j * 16, acc[i][j], LDC_S,
                                    wmma::mem_row_major);
    __syncthreads();

    for (int idx = tid; idx < TILE_M * TILE_N; idx += THREADS) {
        int r = idx / TILE_N;
        int c = idx % TILE_N;
        int row = rowStart + r;
        int col = colStart + c;
        if (row < M && col < N)
            C[row * N + col] = alpha * Cs[r * LDC_S + c] + beta * C[row * N + col];
    }
}

void matmul(const half *dA, const half *dB, float *dC, int M, int N, int K, float alpha, float beta)
{
    dim3 grid((N + TILE_N - 1) / TILE_N, (M + TILE_M - 1) / TILE_M);
    matmul_tc<<<grid, THREADS>>>(dA, dB, dC, M, N, K, alpha, beta);
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 1024;
    half *a, *b;
    float *c;
    cudaMalloc(&a, n * n * sizeof(half));
    cudaMalloc(&b, n * n * sizeof(half));
    cudaMalloc(&c, n * n * sizeof(float));
    std::vector<half> host(n * n);
    for (auto &x : host) x = __float2half((float)rand() / RAND_MAX - 0.5f);
    cudaMemcpy(a, host.data(), n * n * sizeof(half), cudaMemcpyHostToDevice);
    cudaMemcpy(b, host.data(), n * n * sizeof(half), cudaMemcpyHostToDevice);
    cudaMemset(c, 0, n * n * sizeof(float));
    matmul(a, b, c, n, n, n, 1.0f, 0.0f);
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    return 0;
}
