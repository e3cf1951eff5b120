// HGEMM worklog: several kernels, chosen by number.  usage: ./hgemm kernel_num
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>

#define CEIL_DIV(M, N) (((M) + (N) - 1) / (N))

__global__ void hgemm_naive(int M, int N, int K, const half *A, const half *B, float *C) {
    const uint x = blockIdx.x * blockDim.x + threadIdx.x;
    const uint y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < M && y < N) {
        float tmp = 0.0f;
        for (int i = 0; i < K; ++i) tmp += __half2float(A[x * K + i]) * __half2float(B[i * N + y]);
        C[x * N + y] = tmp;
    }
}

__global__ void hgemm_wmma_naive(int M, int N, int K, const half *A, const half *B, float *C) {
    const uint row = blockIdx.y * 16, col = blockIdx.x * 16;
    if (row >= M || col >= N) return;
    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> acc;
    nvcuda::wmma::fill_fragment(acc, 0.0f);
    for (int k = 0; k < K; k += 16) {
        nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, half, nvcuda::wmma::row_major> a;
        nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, half, nvcuda::wmma::row_major> b;
        nvcuda::wmma::load_matrix_sync(a, A + row * K + k, K);
        nvcuda::wmma::load_matrix_sync(b, B + k * N + col, N);
        nvcuda::wmma::mma_sync(acc, a, b, acc);
    }
    nvcuda::wmma::store_matrix_sync(C + row * N + col, acc, N, nvcuda::wmma::mem_row_major);
}

template <const int BM, const int BN>
__global__ void hgemm_wmma_smem(int M, int N, int K, const half *A, const half *B, float *C) {
    __shared__ half sA[BM * 16], sB[16 * BN];
    const int warps_n = BN / 16;
    const int warp = threadIdx.x / 32;
    const int wr = warp / warps_n, wc = warp % warps_n;
    const half *a_ptr = A + blockIdx.y * BM * K, *b_ptr = B + blockIdx.x * BN;
    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> acc;
    nvcuda::wmma::fill_fragment(acc, 0.0f);
    for (int k = 0; k < K; k += 16) {
        for (int i = threadIdx.x; i < BM * 16; i += blockDim.x) sA[i] = a_ptr[(i / 16) * K + k + i % 16];
        for (int i = threadIdx.x; i < 16 * BN; i += blockDim.x) sB[i] = b_ptr[(k + i / BN) * N + i % BN];
        __syncthreads();
        nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, half, nvcuda::wmma::row_major> a;
        nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, half, nvcuda::wmma::row_major> b;
        nvcuda::wmma::load_matrix_sync(a, sA + wr * 256, 16);
        nvcuda::wmma::load_matrix_sync(b, sB + wc * 16, BN);
        nvcuda::wmma::mma_sync(acc, a, b, acc);
        __syncthreads();
    }
    nvcuda::wmma::store_matrix_sync(C + (blockIdx.y * BM + wr * 16) * N + blockIdx.x * BN + wc * 16, acc, N,
                                    nvcuda::wmma::mem_row_major);
}

void test_kernel(int kernel_num, int M, int N, int K, half *A, half *B, float *C) {
    switch (kernel_num) {
        case 1: {
            dim3 blockDim(32, 32);
            dim3 gridDim(CEIL_DIV(M, 32), CEIL_DIV(N, 32));
            hgemm_naive<<<gridDim, blockDim>>>(M, N, K, A, B, C);
            break;
        }
        case 2: {
            dim3 gridDim(CEIL_DIV(N, 16), CEIL_DIV(M, 16));
            hgemm_wmma_naive<<<gridDim, 32>>>(M, N, K, A, B, C);
            break;
        }
        case 3: {
            dim3 gridDim(CEIL_DIV(N, 64), CEIL_DIV(M, 32));
            hgemm_wmma_smem<32, 64><<<gridDim, 32 * (32 / 16) * (64 / 16)>>>(M, N, K, A, B, C);
            break;
        }
        default:
            break;
    }
}

int main(int argc, char **argv) {
    if (argc != 2) {
        printf("Please select a kernel (range 1 - 3)\n");
        exit(EXIT_FAILURE);
    }
    int kernel_num = atoi(argv[1]);
    int SIZE[3] = {64, 128, 256};
    half *hA = (half *)malloc(sizeof(half) * 256 * 256), *hB = (half *)malloc(sizeof(half) * 256 * 256);
    float *hC = (float *)malloc(sizeof(float) * 256 * 256);
    for (int i = 0; i < 256 * 256; i++) {
        hA[i] = __float2half((float)(rand() % 10 - 5) / 4);
        hB[i] = __float2half((float)(rand() % 10 - 5) / 4);
    }
    half *dA, *dB;
    float *dC;
    cudaMalloc((void **)&dA, sizeof(half) * 256 * 256);
    cudaMalloc((void **)&dB, sizeof(half) * 256 * 256);
    cudaMalloc((void **)&dC, sizeof(float) * 256 * 256);
    cudaMemcpy(dA, hA, sizeof(half) * 256 * 256, cudaMemcpyHostToDevice);
    cudaMemcpy(dB, hB, sizeof(half) * 256 * 256, cudaMemcpyHostToDevice);
    for (int s = 0; s < 2; s++) {
        int m = SIZE[s], n = SIZE[s], k = SIZE[s];
        test_kernel(kernel_num, m, n, k, dA, dB, dC);
        cudaDeviceSynchronize();
        cudaMemcpy(hC, dC, sizeof(float) * m * n, cudaMemcpyDeviceToHost);
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++) {
                float ref = 0;
                for (int q = 0; q < k; q++) ref += __half2float(hA[i * k + q]) * __half2float(hB[q * n + j]);
                if (fabsf(ref - hC[i * n + j]) > 0.01f) {
                    printf("Failed at size %d (%d, %d)\n", m, i, j);
                    return 1;
                }
            }
        printf("size %d ok\n", m);
    }
    return 0;
}
