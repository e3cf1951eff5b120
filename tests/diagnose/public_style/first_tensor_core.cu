// My first tensor core program: D = A * B + C
// A is row major (M x K), B is column major (K x N), C and D are row major (M x N).
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda.h>
#include <mma.h>

using namespace nvcuda;

const int WMMA_M = 16;
const int WMMA_N = 16;
const int WMMA_K = 16;

#define M_TOTAL 128
#define N_TOTAL 96
#define K_TOTAL 160

// every warp makes one 16x16 tile of D
__global__ void simple_tensor_core(half *A, half *B, float *C, float *D, int M_dim, int N_dim, int K_dim)
{
    int warpM = blockIdx.x;
    int warpN = blockIdx.y * blockDim.y + threadIdx.y;

    int aRow = warpM * WMMA_M;
    int bCol = warpN * WMMA_N;

    if (aRow < M_dim && bCol < N_dim) {
        wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> a_frag;
        wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::col_major> b_frag;
        wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> acc_frag;
        wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> c_frag;

        wmma::fill_fragment(acc_frag, 0.0f);

        for (int k = 0; k < K_dim; k += WMMA_K) {
            wmma::load_matrix_sync(a_frag, A + aRow * K_dim + k, K_dim);
            wmma::load_matrix_sync(b_frag, B + bCol * K_dim + k, K_dim);
            wmma::mma_sync(acc_frag, a_frag, b_frag, acc_frag);
        }

        wmma::load_matrix_sync(c_frag, C + aRow * N_dim + bCol, N_dim, wmma::mem_row_major);
        for (int i = 0; i < c_frag.num_elements; i++)
            c_frag.x[i] = acc_frag.x[i] + c_frag.x[i];
        wmma::store_matrix_sync(D + aRow * N_dim + bCol, c_frag, N_dim, wmma::mem_row_major);
    }
}

int main(void)
{
    half *a, *b;
    float *c, *d;
    cudaMallocManaged(&a, M_TOTAL * K_TOTAL * sizeof(half));
    cudaMallocManaged(&b, K_TOTAL * N_TOTAL * sizeof(half));
    cudaMallocManaged(&c, M_TOTAL * N_TOTAL * sizeof(float));
    cudaMallocManaged(&d, M_TOTAL * N_TOTAL * sizeof(float));
    for (int i = 0; i < M_TOTAL * K_TOTAL; i++) a[i] = __float2half((float)(rand() % 3));
    for (int i = 0; i < K_TOTAL * N_TOTAL; i++) b[i] = __float2half((float)(rand() % 3));
    for (int i = 0; i < M_TOTAL * N_TOTAL; i++) c[i] = (float)(rand() % 3);

    dim3 threads(32, 2);
    dim3 blocks(M_TOTAL / WMMA_M, N_TOTAL / (WMMA_N * 2));
    simple_tensor_core<<<blocks, threads>>>(a, b, c, d, M_TOTAL, N_TOTAL, K_TOTAL);
    cudaError_t err = cudaDeviceSynchronize();
    if (err != cudaSuccess) { printf("%s\n", cudaGetErrorString(err)); return 1; }

    int bad = 0;
    for (int m = 0; m < M_TOTAL; m++)
        for (int n = 0; n < N_TOTAL; n++) {
            float ref = c[m * N_TOTAL + n];
            for (int k = 0; k < K_TOTAL; k++)
                ref += __half2float(a[m * K_TOTAL + k]) * __half2float(b[n * K_TOTAL + k]);
            if (fabs(ref - d[m * N_TOTAL + n]) > 1e-3 && bad++ < 10)
                printf("mismatch at (%d, %d): %f vs %f\n", m, n, d[m * N_TOTAL + n], ref);
        }
    printf(bad ? "FAILED\n" : "OK\n");
    cudaFree(a); cudaFree(b); cudaFree(c); cudaFree(d);
}
