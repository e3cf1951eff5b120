/* SGEMM-like half GEMM: C = alpha*A*B + beta*C. wmma + cp.async, two stages. */
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>
#include <iostream>

namespace wm = nvcuda::wmma;

#define BM 64
#define BN 64
#define BK 32
#define APAD 8
#define BPAD 8

__global__ void gemm_db(const half *A, const half *B, float *C, int M, int N, int K, float alpha, float beta)
{
    __shared__ half s_a[2][BM][BK + APAD];
    __shared__ half s_b[2][BK][BN + BPAD];

    int tid = threadIdx.x;
    int wid = tid >> 5;
    int bx = blockIdx.x, by = blockIdx.y;
    int wr = wid >> 1, wc = wid & 1;         // 2 x 2 warps, each 32 x 32

    wm::fragment<wm::accumulator, 16, 16, 16, float> c_frag[2][2];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            wm::fill_fragment(c_frag[i][j], 0.0f);

    int a_row = tid >> 1;                    // 0..63, two threads per row
    int a_col = (tid & 1) << 4;              // 0, 16
    int b_row = tid >> 2;                    // 0..31
    int b_col = (tid & 3) << 4;              // 0, 16, 32, 48

    const half *gA = A + (by * BM + a_row) * K + a_col;
    const half *gB = B + b_row * N + bx * BN + b_col;

    __pipeline_memcpy_async(&s_a[0][a_row][a_col], gA, 16);
    __pipeline_memcpy_async(&s_a[0][a_row][a_col + 8], gA + 8, 16);
    __pipeline_memcpy_async(&s_b[0][b_row][b_col], gB, 16);
    __pipeline_memcpy_async(&s_b[0][b_row][b_col + 8], gB + 8, 16);
    __pipeline_commit();

    int steps = K / BK;
    for (int s = 0; s < steps; s++) {
        int cur = s & 1;
        int nxt = cur ^ 1;
        if (s + 1 < steps) {
            const half *pa = gA + (s + 1) * BK;
            const half *pb = gB + (size_t)(s + 1) * BK * N;
            __pipeline_memcpy_async(&s_a[nxt][a_row][a_col], pa, 16);
            __pipeline_memcpy_async(&s_a[nxt][a_row][a_col + 8], pa + 8, 16);
            __pipeline_memcpy_async(&s_b[nxt][b_row][b_col], pb, 16);
            __pipeline_memcpy_async(&s_b[nxt][b_row][b_col + 8], pb + 8, 16);
        }
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();

        wm::fragment<wm::matrix_a, 16, 16, 16, half, wm::row_major> a_frag[2];
        wm::fragment<wm::matrix_b, 16, 16, 16, half, wm::row_major> b_frag[2];
        for (int kk = 0; kk < BK; kk += 16) {
            wm::load_matrix_sync(a_frag[0], &s_a[cur][wr * 32][kk], BK + APAD);
            wm::load_matrix_sync(a_frag[1], &s_a[cur][wr * 32 + 16][kk], BK + APAD);
            wm::load_matrix_sync(b_frag[0], &s_b[cur][kk][wc * 32], BN + BPAD);
            wm::load_matrix_sync(b_frag[1], &s_b[cur][kk][wc * 32 + 16], BN + BPAD);
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++)
                    wm::mma_sync(c_frag[i][j], a_frag[i], b_frag[j], c_frag[i][j]);
        }
        __syncthreads();
    }

    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 2; j++) {
            float *dst = C + (by * BM + wr * 32 + i * 16) * N + bx * BN + wc * 32 + j * 16;
            wm::fragment<wm::accumulator, 16, 16, 16, float> old;
            wm::load_matrix_sync(old, dst, N, wm::mem_row_major);
            for (int e = 0; e < old.num_elements; e++)
                old.x[e] = alpha * c_frag[i][j].x[e] + beta * old.x[e];
            wm::store_matrix_sync(dst, old, N, wm::mem_row_major);
        }
    }
}

int main()
{
    int M = 256, N = 128, K = 160;
    half *dA, *dB; float *dC;
    cudaMalloc(&dA, M * K * sizeof(half));
    cudaMalloc(&dB, K * N * sizeof(half));
    cudaMalloc(&dC, M * N * sizeof(float));
    dim3 grid(N / BN, M / BM);
    gemm_db<<<grid, 128>>>(dA, dB, dC, M, N, K, 1.5f, 0.5f);
    std::cout << cudaGetErrorString(cudaDeviceSynchronize()) << std::endl;
    cudaFree(dA); cudaFree(dB); cudaFree(dC);
}
