/*
 * INT8 GEMM on tensor cores with a fused dequantize + bias + ReLU epilogue.
 *
 *   out[m][n] = relu( (sum_k a[m][k] * w[n][k]) * a_scale[m] * w_scale[n] + bias[n] )
 *
 * a is quantized per token, w per output channel, both symmetric.
 */
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cmath>
#include <iostream>
#include <random>
#include <vector>

using namespace nvcuda::wmma;

const int TILE = 16;
const int BLOCK_ROWS = 64;
const int BLOCK_COLS = 64;
const int BLOCK_K = 64;
const int PITCH = BLOCK_K + 16;
const int NUM_WARPS = 4;

__global__ void int8GemmDequantRelu(const int8_t *a, const int8_t *w, const float *aScale, const float *wScale,
                                    const float *bias, __half *out, int M, int N, int K)
{
    __shared__ __align__(32) int8_t tileA[BLOCK_ROWS * PITCH];
    __shared__ __align__(32) int8_t tileW[BLOCK_COLS * PITCH];
    __shared__ __align__(32) int tileC[BLOCK_ROWS * BLOCK_COLS];

    const int rowBase = blockIdx.y * BLOCK_ROWS;
    const int colBase = blockIdx.x * BLOCK_COLS;
    const int warpId = threadIdx.x / warpSize;

    // every warp owns a strip of 16 rows and all 64 columns
    fragment<accumulator, TILE, TILE, TILE, int> acc[BLOCK_COLS / TILE];
    for (int j = 0; j < BLOCK_COLS / TILE; j++)
        fill_fragment(acc[j], 0);

    for (int k0 = 0; k0 < K; k0 += BLOCK_K)
    {
        // 16 bytes at a time; K is a multiple of 16
        for (int i = threadIdx.x; i < BLOCK_ROWS * BLOCK_K / 16; i += blockDim.x)
        {
            int r = i / (BLOCK_K / 16);
            int c = (i % (BLOCK_K / 16)) * 16;
            int4 va = make_int4(0, 0, 0, 0), vw = make_int4(0, 0, 0, 0);
            if (rowBase + r < M && k0 + c < K)
                va = *(const int4 *)(a + (size_t)(rowBase + r) * K + k0 + c);
            if (colBase + r < N && k0 + c < K)
                vw = *(const int4 *)(w + (size_t)(colBase + r) * K + k0 + c);
            *(int4 *)(tileA + r * PITCH + c) = va;
            *(int4 *)(tileW + r * PITCH + c) = vw;
        }
        __syncthreads();

        for (int kk = 0; kk < BLOCK_K; kk += TILE)
        {
            fragment<matrix_a, TILE, TILE, TILE, signed char, row_major> fa;
            load_matrix_sync(fa, (const signed char *)tileA + warpId * TILE * PITCH + kk, PITCH);
            for (int j = 0; j < BLOCK_COLS / TILE; j++)
            {
                fragment<matrix_b, TILE, TILE, TILE, signed char, col_major> fb;
                load_matrix_sync(fb, (const signed char *)tileW + j * TILE * PITCH + kk, PITCH);
                mma_sync(acc[j], fa, fb, acc[j]);
            }
        }
        __syncthreads();
    }

    for (int j = 0; j < BLOCK_COLS / TILE; j++)
        store_matrix_sync(tileC + warpId * TILE * BLOCK_COLS + j * TILE, acc[j], BLOCK_COLS, mem_row_major);
    __syncthreads();

    for (int i = threadIdx.x; i < BLOCK_ROWS * BLOCK_COLS; i += blockDim.x)
    {
        int m = rowBase + i / BLOCK_COLS;
        int n = colBase + i % BLOCK_COLS;
        if (m < M && n < N)
        {
            float x = (float)tileC[i] * aScale[m] * wScale[n] + bias[n];
            out[(size_t)m * N + n] = __float2half(fmaxf(x, 0.f));
        }
    }
}

void launchInt8GemmDequantRelu(const int8_t *a, const int8_t *w, const float *aScale, const float *wScale,
                               const float *bias, __half *out, int M, int N, int K, cudaStream_t stream)
{
    dim3 grid((N + BLOCK_COLS - 1) / BLOCK_COLS, (M + BLOCK_ROWS - 1) / BLOCK_ROWS);
    int8GemmDequantRelu<<<grid, NUM_WARPS * 32, 0, stream>>>(a, w, aScale, wScale, bias, out, M, N, K);
}

template <typename T>
T *toDevice(const std::vector<T> &v)
{
    T *p = nullptr;
    cudaMalloc((void **)&p, v.size() * sizeof(T));
    cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice);
    return p;
}

int main()
{
    const int M = 100, N = 136, K = 208;
    std::mt19937 rng(7);
    std::uniform_int_distribution<int> q(-127, 127);
    std::uniform_real_distribution<float> s(0.001f, 0.01f), b(-1.f, 1.f);

    std::vector<int8_t> a(M * K), w(N * K);
    std::vector<float> aScale(M), wScale(N), bias(N);
    for (auto &x : a) x = (int8_t)q(rng);
    for (auto &x : w) x = (int8_t)q(rng);
    for (auto &x : aScale) x = s(rng);
    for (auto &x : wScale) x = s(rng);
    for (auto &x : bias) x = b(rng);

    int8_t *dA = toDevice(a), *dW = toDevice(w);
    float *dAs = toDevice(aScale), *dWs = toDevice(wScale), *dBias = toDevice(bias);
    __half *dOut;
    cudaMalloc((void **)&dOut, M * N * sizeof(__half));

    launchInt8GemmDequantRelu(dA, dW, dAs, dWs, dBias, dOut, M, N, K, 0);
    std::vector<__half> out(M * N);
    cudaMemcpy(out.data(), dOut, M * N * sizeof(__half), cudaMemcpyDeviceToHost);
    cudaError_t err = cudaGetLastError();
    if (err != cudaSuccess)
    {
        std::cerr << "CUDA error: " << cudaGetErrorString(err) << std::endl;
        return 1;
    }

    int wrong = 0;
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++)
        {
            int sum = 0;
            for (int k = 0; k < K; k++)
                sum += (int)a[m * K + k] * (int)w[n * K + k];
            float ref = std::max(0.f, sum * aScale[m] * wScale[n] + bias[n]);
            if (!(std::fabs(ref - __half2float(out[m * N + n])) <= 2e-3f * std::max(1.f, ref)))
                wrong++;
        }
    std::cout << (wrong ? "FAILED" : "PASSED") << " (" << wrong << " of " << M * N << " wrong)" << std::endl;
    cudaFree(dA); cudaFree(dW); cudaFree(dAs); cudaFree(dWs); cudaFree(dBias); cudaFree(dOut);
    return wrong != 0;
}
