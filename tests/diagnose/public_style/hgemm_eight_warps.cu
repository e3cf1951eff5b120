/*
 * HGEMM, 128x128x32 block tile, 8 warps of 32x64, register-staged double buffering.
 * C (MxN, row) = alpha * A (MxK, row) * B (KxN, row) + beta * C, fp32 accumulate, fp16 in and out.
 */
#include <iostream>
#include <vector>
#include <random>
#include <cuda_fp16.h>
#include <mma.h>

#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))

template <int BM, int BN, int BK, int WM, int WN>
__global__ __launch_bounds__(256)
void hgemm_tc(int M, int N, int K, float alpha, const half* __restrict__ A, const half* __restrict__ B, float beta, half* C)
{
    using namespace nvcuda::wmma;
    constexpr int LDA_S = BK + 8;
    constexpr int LDB_S = BN + 8;
    constexpr int WARPS_N = BN / WN;
    __shared__ __align__(32) half As[2][BM * LDA_S];
    __shared__ __align__(32) half Bs[2][BK * LDB_S];

    const int bx = blockIdx.x, by = blockIdx.y;
    const int tid = threadIdx.x;
    const int warp_id = tid >> 5;
    const int warp_m = warp_id / WARPS_N, warp_n = warp_id % WARPS_N;

    // 128-bit loads: A tile = 128 rows x 4 int4, B tile = 32 rows x 16 int4
    const int a_row = tid >> 2;            // 0..63, and +64
    const int a_col = (tid & 3) << 3;
    const int b_row = tid >> 4;            // 0..15, and +16
    const int b_col = (tid & 15) << 3;

    const half* a_ptr = A + (by * BM + a_row) * K + a_col;
    const half* b_ptr = B + b_row * N + bx * BN + b_col;

    fragment<accumulator, 16, 16, 16, float> acc[WM / 16][WN / 16];
    #pragma unroll
    for (int i = 0; i < WM / 16; i++)
        #pragma unroll
        for (int j = 0; j < WN / 16; j++)
            fill_fragment(acc[i][j], 0.0f);

    int4 a_reg[2], b_reg[2];
    a_reg[0] = *(const int4*)(a_ptr);
    a_reg[1] = *(const int4*)(a_ptr + 64 * K);
    b_reg[0] = *(const int4*)(b_ptr);
    b_reg[1] = *(const int4*)(b_ptr + 16 * N);
    *(int4*)&As[0][a_row * LDA_S + a_col] = a_reg[0];
    *(int4*)&As[0][(a_row + 64) * LDA_S + a_col] = a_reg[1];
    *(int4*)&Bs[0][b_row * LDB_S + b_col] = b_reg[0];
    *(int4*)&Bs[0][(b_row + 16) * LDB_S + b_col] = b_reg[1];
    __syncthreads();

    int stage = 0;
    for (int k0 = 0; k0 < K; k0 += BK) {
        const bool more = k0 + BK < K;
        if (more) {
            a_ptr += BK;
            b_ptr += BK * N;
            a_reg[0] = *(const int4*)(a_ptr);
            a_reg[1] = *(const int4*)(a_ptr + 64 * K);
            b_reg[0] = *(const int4*)(b_ptr);
            b_reg[1] = *(const int4*)(b_ptr + 16 * N);
        }
        #pragma unroll
        for (int kk = 0; kk < BK; kk += 16) {
            fragment<matrix_a, 16, 16, 16, half, row_major> fa[WM / 16];
            fragment<matrix_b, 16, 16, 16, half, row_major> fb[WN / 16];
            #pragma unroll
            for (int i = 0; i < WM / 16; i++)
                load_matrix_sync(fa[i], &As[stage][(warp_m * WM + i * 16) * LDA_S + kk], LDA_S);
            #pragma unroll
            for (int j = 0; j < WN / 16; j++)
                load_matrix_sync(fb[j], &Bs[stage][kk * LDB_S + warp_n * WN + j * 16], LDB_S);
            #pragma unroll
            for (int i = 0; i < WM / 16; i++)
                #pragma unroll
                for (int j = 0; j < WN / 16; j++)
                    mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
        }
        if (more) {
            stage ^= 1;
            *(int4*)&As[stage][a_row * LDA_S + a_col] = a_reg[0];
            *(int4*)&As[stage][(a_row + 64) * LDA_S + a_col] = a_reg[1];
            *(int4*)&Bs[stage][b_row * LDB_S + b_col] = b_reg[0];
            *(int4*)&Bs[stage][(b_row + 16) * LDB_S + b_col] = b_reg[1];
            __syncthreads();
        }
    }

    fragment<accumulator, 16, 16, 16, half> c_frag;
    #pragma unroll
    for (int i = 0; i < WM / 16; i++) {
        #pragma unroll
        for (int j = 0; j < WN / 16; j++) {
            half* c_tile = C + (by * BM + warp_m * WM + i * 16) * N + bx * BN + warp_n * WN + j * 16;
            load_matrix_sync(c_frag, c_tile, N, mem_row_major);
            #pragma unroll
            for (int t = 0; t < c_frag.num_elements; t++)
                c_frag.x[t] = __float2half(alpha * acc[i][j].x[t] + beta * __half2float(c_frag.x[t]));
            store_matrix_sync(c_tile, c_frag, N, mem_row_major);
        }
    }
}

int main(int argc, char** argv)
{
    int M = 512, N = 768, K = 256;
    float alpha = 1.5f, beta = 0.5f;
    std::mt19937 gen(7);
    std::uniform_real_distribution<float> dist(-1.f, 1.f);
    std::vector<half> hA(M * K), hB(K * N), hC(M * N);
    for (auto& x : hA) x = __float2half(dist(gen));
    for (auto& x : hB) x = __float2half(dist(gen));
    for (auto& x : hC) x = __float2half(dist(gen));
    half *dA, *dB, *dC;
    cudaMalloc(&dA, hA.size() * sizeof(half));
    cudaMalloc(&dB, hB.size() * sizeof(half));
    cudaMalloc(&dC, hC.size() * sizeof(half));
    cudaMemcpy(dA, hA.data(), hA.size() * sizeof(half), cudaMemcpyHostToDevice);
    cudaMemcpy(dB, hB.data(), hB.size() * sizeof(half), cudaMemcpyHostToDevice);
    cudaMemcpy(dC, hC.data(), hC.size() * sizeof(half), cudaMemcpyHostToDevice);

    dim3 block(256);
    dim3 grid(CEIL_DIV(N, 128), CEIL_DIV(M, 128));
    hgemm_tc<128, 128, 32, 32, 64><<<grid, block>>>(M, N, K, alpha, dA, dB, beta, dC);
    cudaDeviceSynchronize();

    std::vector<half> out(M * N);
    cudaMemcpy(out.data(), dC, out.size() * sizeof(half), cudaMemcpyDeviceToHost);
    float max_err = 0.f;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float s = 0.f;
            for (int k = 0; k < K; k++) s += __half2float(hA[i * K + k]) * __half2float(hB[k * N + j]);
            s = alpha * s + beta * __half2float(hC[i * N + j]);
            max_err = std::max(max_err, std::abs(s - __half2float(out[i * N + j])));
        }
    std::cout << "max error " << max_err << std::endl;
    return max_err < 0.1f ? 0 : 1;
}
