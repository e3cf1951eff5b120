/* Double precision GEMM on the FP64 tensor cores (sm_80+): D = alpha * A * B + beta * C. */

#include <cuda_runtime.h>
#include <mma.h>
#include <cstdio>
#include <cstdlib>

const int M = 8, N = 8, K = 4;   // one wmma tile
const int M_GLOBAL = 256, N_GLOBAL = 192, K_GLOBAL = 64;
const int WARPS_X = 2, WARPS_Y = 4;

__global__ void simple_wmma_dgemm(double *a, double *b, double *c, double *d, int m_ld, int n_ld, int k_ld, double alpha, double beta)
{
    int lda = k_ld;
    int ldb = k_ld;     // column major
    int ldc = n_ld;

    int warpM = blockIdx.y * blockDim.y + threadIdx.y;
    int warpN = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize;

    nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, M, N, K, double, nvcuda::wmma::row_major> a_frag;
    nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, M, N, K, double, nvcuda::wmma::col_major> b_frag;
    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, M, N, K, double> acc_frag, c_frag;
    nvcuda::wmma::fill_fragment(acc_frag, 0.0);

    int row = warpM * M, col = warpN * N;
    if (row < m_ld && col < n_ld) {
        for (int i = 0; i < k_ld; i += K) {
            nvcuda::wmma::load_matrix_sync(a_frag, a + row * lda + i, lda);
            nvcuda::wmma::load_matrix_sync(b_frag, b + i + col * ldb, ldb);
            nvcuda::wmma::mma_sync(acc_frag, a_frag, b_frag, acc_frag);
        }
        nvcuda::wmma::load_matrix_sync(c_frag, c + col + row * ldc, ldc, nvcuda::wmma::mem_row_major);
        for (int i = 0; i < c_frag.num_elements; i++) {
            c_frag.x[i] = alpha * acc_frag.x[i] + beta * c_frag.x[i];
        }
        nvcuda::wmma::store_matrix_sync(d + col + row * ldc, c_frag, ldc, nvcuda::wmma::mem_row_major);
    }
}

int main()
{
    double *A, *B, *C, *D;
    cudaMallocManaged((void **)&A, sizeof(double) * M_GLOBAL * K_GLOBAL);
    cudaMallocManaged((void **)&B, sizeof(double) * N_GLOBAL * K_GLOBAL);
    cudaMallocManaged((void **)&C, sizeof(double) * M_GLOBAL * N_GLOBAL);
    cudaMallocManaged((void **)&D, sizeof(double) * M_GLOBAL * N_GLOBAL);
    for (int i = 0; i < M_GLOBAL * K_GLOBAL; i++) A[i] = rand() % 3;
    for (int i = 0; i < N_GLOBAL * K_GLOBAL; i++) B[i] = rand() % 3;
    for (int i = 0; i < M_GLOBAL * N_GLOBAL; i++) C[i] = rand() % 3;

    dim3 blockDim(32 * WARPS_X, WARPS_Y);
    dim3 gridDim;
    gridDim.x = (N_GLOBAL + (N * WARPS_X - 1)) / (N * WARPS_X);
    gridDim.y = (M_GLOBAL + (M * WARPS_Y - 1)) / (M * WARPS_Y);
    simple_wmma_dgemm<<<gridDim, blockDim>>>(A, B, C, D, M_GLOBAL, N_GLOBAL, K_GLOBAL, 1.1, 1.2);
    cudaError_t status = cudaDeviceSynchronize();
    printf("%s %g\n", cudaGetErrorString(status), D[0]);
    cudaFree(A);
    cudaFree(B);
    cudaFree(C);
    cudaFree(D);
    return 0;
}
