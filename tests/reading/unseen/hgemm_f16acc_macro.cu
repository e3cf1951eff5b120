// hgemm_f16acc_macro.cu
//
// GeForce parts run fp32-accumulate HMMA at half rate, fp16 accumulate at full
// rate. Build with -DACCUM_FP32 to get the accurate version.
//
//     C = A * B, square-ish, everything row-major half, sizes must be multiples
//     of BM / BN / BK (no guards!)
#include <iostream>
#include <iomanip>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#ifdef ACCUM_FP32
typedef float acc_t;
#define ACC_ZERO 0.0f
#else
typedef half acc_t;
#define ACC_ZERO __float2half(0.0f)
#endif

#define BM 128
#define BN 64
#define BK 32
#define WARPS 4
#define APAD 8
#define BPAD 8
#define OFFSET(row, col, ld) ((row) * (ld) + (col))
#define FLOAT4(pointer) (reinterpret_cast<float4 *>(&(pointer))[0])

using namespace nvcuda;
using namespace std;

__global__ void myHGEMM(half *__restrict__ a, half *__restrict__ b, half *__restrict__ c,
                        const int M, const int N, const int K) {
    int bx = blockIdx.x;
    int by = blockIdx.y;
    int tid = threadIdx.x;
    int wid = tid >> 5;

    __shared__ half s_a[BM][BK + APAD];
    __shared__ half s_b[BK][BN + BPAD];

    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> frag_a[2][2];
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> frag_b[2][4];
    wmma::fragment<wmma::accumulator, 16, 16, 16, acc_t> frag_c[2][4];

    #pragma unroll
    for (int i = 0; i < 2; i++) {
        #pragma unroll
        for (int j = 0; j < 4; j++) {
            wmma::fill_fragment(frag_c[i][j], ACC_ZERO);
        }
    }

    int load_a_smem_m = (tid >> 2);           // 0, 1, ..., 31 ; + 32, 64, 96
    int load_a_smem_k = (tid & 3) << 3;       // 0, 8, 16, 24
    int load_b_smem_k = (tid >> 3);           // 0 .. 15       ; + 16
    int load_b_smem_n = (tid & 7) << 3;       // 0, 8, ..., 56

    int load_a_gmem_m = by * BM + load_a_smem_m;
    int load_b_gmem_n = bx * BN + load_b_smem_n;

    int load_a_gmem_addr = OFFSET(load_a_gmem_m, load_a_smem_k, K);
    int load_b_gmem_addr = OFFSET(load_b_smem_k, load_b_gmem_n, N);

    for (int bk = 0; bk < K / BK; bk++) {
        FLOAT4(s_a[load_a_smem_m     ][load_a_smem_k]) = FLOAT4(a[load_a_gmem_addr         ]);
        FLOAT4(s_a[load_a_smem_m + 32][load_a_smem_k]) = FLOAT4(a[load_a_gmem_addr + 32 * K]);
        FLOAT4(s_a[load_a_smem_m + 64][load_a_smem_k]) = FLOAT4(a[load_a_gmem_addr + 64 * K]);
        FLOAT4(s_a[load_a_smem_m + 96][load_a_smem_k]) = FLOAT4(a[load_a_gmem_addr + 96 * K]);
        FLOAT4(s_b[load_b_smem_k     ][load_b_smem_n]) = FLOAT4(b[load_b_gmem_addr         ]);
        FLOAT4(s_b[load_b_smem_k + 16][load_b_smem_n]) = FLOAT4(b[load_b_gmem_addr + 16 * N]);

        load_a_gmem_addr += BK;
        load_b_gmem_addr += BK * N;
        __syncthreads();

        #pragma unroll
        for (int i = 0; i < 2; i++) {
            wmma::load_matrix_sync(frag_a[0][i], &s_a[wid * 32 + i * 16][ 0], BK + APAD);
            wmma::load_matrix_sync(frag_a[1][i], &s_a[wid * 32 + i * 16][16], BK + APAD);
        }
        #pragma unroll
        for (int j = 0; j < 4; j++) {
            wmma::load_matrix_sync(frag_b[0][j], &s_b[ 0][j * 16], BN + BPAD);
            wmma::load_matrix_sync(frag_b[1][j], &s_b[16][j * 16], BN + BPAD);
        }
        #pragma unroll
        for (int i = 0; i < 2; i++) {
            #pragma unroll
            for (int j = 0; j < 4; j++) {
                wmma::mma_sync(frag_c[i][j], frag_a[0][i], frag_b[0][j], frag_c[i][j]);
                wmma::mma_sync(frag_c[i][j], frag_a[1][i], frag_b[1][j], frag_c[i][j]);
            }
        }
        __syncthreads();
    }

    int store_c_gmem_m = by * BM + wid * 32;
    int store_c_gmem_n = bx * BN;
    #pragma unroll
    for (int i = 0; i < 2; i++) {
        #pragma unroll
        for (int j = 0; j < 4; j++) {
            wmma::fragment<wmma::accumulator, 16, 16, 16, half> frag_o;
            #pragma unroll
            for (int t = 0; t < frag_o.num_elements; t++) frag_o.x[t] = (half)frag_c[i][j].x[t];
            wmma::store_matrix_sync(&c[OFFSET(store_c_gmem_m + i * 16, store_c_gmem_n + j * 16, N)], frag_o, N, wmma::mem_row_major);
        }
    }
}

float testError(int M, int N, int K) {
    size_t size_a = M * K * sizeof(half), size_b = K * N * sizeof(half), size_c = M * N * sizeof(half);
    half *d_a, *d_b, *d_c;
    unique_ptr<half[]> h_a(new half[M * K]), h_b(new half[K * N]), h_c(new half[M * N]);
    cudaMalloc(&d_a, size_a); cudaMalloc(&d_b, size_b); cudaMalloc(&d_c, size_c);
    for (int i = 0; i < M * K; i++) h_a[i] = (half)(rand() / float(RAND_MAX));
    for (int i = 0; i < K * N; i++) h_b[i] = (half)(rand() / float(RAND_MAX));
    cudaMemcpy(d_a, h_a.get(), size_a, cudaMemcpyHostToDevice);
    cudaMemcpy(d_b, h_b.get(), size_b, cudaMemcpyHostToDevice);

    dim3 blockDim(WARPS * 32);
    int GX = (N + BN - 1) / BN;
    int GY = (M + BM - 1) / BM;
    dim3 gridDim(GX, GY);
    myHGEMM<<<gridDim, blockDim>>>(d_a, d_b, d_c, M, N, K);
    cudaMemcpy(h_c.get(), d_c, size_c, cudaMemcpyDeviceToHost);

    float max_error = 0.0f;
    for (int m = 0; m < M; m++) {
        for (int n = 0; n < N; n++) {
            float psum = 0.0f;
            for (int k = 0; k < K; k++) psum += (float)h_a[m * K + k] * (float)h_b[k * N + n];
            max_error = max(max_error, fabs(psum - (float)h_c[m * N + n]) / psum);
        }
    }
    cudaFree(d_a); cudaFree(d_b); cudaFree(d_c);
    return max_error;
}

int main(void) {
    const int test_num = 3;
    const int M_list[test_num] = {128, 256, 512};
    const int N_list[test_num] = {128, 256, 512};
    const int K_list[test_num] = {128, 256, 1024};
    for (int i = 0; i < test_num; i++)
        cout << "M N K = " << setw(6) << M_list[i] << setw(6) << N_list[i] << setw(6) << K_list[i]
             << ", max rel error = " << testError(M_list[i], N_list[i], K_list[i]) << endl;
    return 0;
}
