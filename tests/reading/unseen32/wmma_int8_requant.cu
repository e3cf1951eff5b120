// INT8 GEMM на тензорных ядрах (WMMA, s8 x s8 -> s32) с поканальной реквантизацией
//
//   acc[m][n] = sum_k A[m][k] * W[n][k]                     (W хранится как [N, K], то есть B - column-major)
//   out[m][n] = clamp(rint((acc + bias[n]) * scale[n]) + zero_point, -128, 127)
//
// M, N кратны 64, K кратно 32.
// Сборка: nvcc -O2 -arch=sm_75 wmma_int8_requant.cu -o int8_requant
#include <cuda_runtime.h>
#include <mma.h>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace nvcuda;

#define CUDA_OK(x)                                                                            \
    if (cudaError_t e = (x)) {                                                                \
        std::fprintf(stderr, "%s:%d %s -> %s\n", __FILE__, __LINE__, #x, cudaGetErrorString(e)); \
        std::exit(1);                                                                         \
    }

constexpr int kTileM = 64;
constexpr int kTileN = 64;
constexpr int kTileK = 32;
constexpr int kSlices = kTileK / 16;

__global__ void __launch_bounds__(128)
gemm_s8_requant(const int8_t* __restrict__ A, const int8_t* __restrict__ W, const int32_t* __restrict__ bias,
                const float* __restrict__ scale, int zero_point, int8_t* __restrict__ out, int M, int N, int K)
{
    // Каждый срез по 16 значений k лежит отдельно: указатели фрагментов выровнены на 256 бит.
    __shared__ __align__(32) int8_t sa[kSlices][kTileM][16];
    __shared__ __align__(32) int8_t sw[kSlices][kTileN][16];
    __shared__ __align__(32) int32_t sc[4][16 * 16];

    const int tid = threadIdx.x;
    const int warp = tid >> 5, lane = tid & 31;
    const int wm = (warp & 1) * 32, wn = (warp >> 1) * 32;
    const int m0 = blockIdx.y * kTileM, n0 = blockIdx.x * kTileN;

    wmma::fragment<wmma::accumulator, 16, 16, 16, int> acc[2][2];
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            wmma::fill_fragment(acc[i][j], 0);

    // 64 строки x 2 среза = 128 порций по 16 байт: ровно одна на поток
    const int ld_row = tid >> 1, ld_slice = tid & 1;

    for (int k0 = 0; k0 < K; k0 += kTileK) {
        *reinterpret_cast<int4*>(sa[ld_slice][ld_row]) =
            *reinterpret_cast<const int4*>(A + (size_t)(m0 + ld_row) * K + k0 + ld_slice * 16);
        *reinterpret_cast<int4*>(sw[ld_slice][ld_row]) =
            *reinterpret_cast<const int4*>(W + (size_t)(n0 + ld_row) * K + k0 + ld_slice * 16);
        __syncthreads();

        for (int s = 0; s < kSlices; ++s) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> fa[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> fb[2];
            for (int i = 0; i < 2; ++i) {
                wmma::load_matrix_sync(fa[i], (const signed char*)sa[s][wm + i * 16], 16);
                wmma::load_matrix_sync(fb[i], (const signed char*)sw[s][wn + i * 16], 16);
            }
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 2; ++j)
                    wmma::mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
        }
        __syncthreads();
    }

    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) {
            wmma::store_matrix_sync(sc[warp], acc[i][j], 16, wmma::mem_row_major);
            __syncwarp();
            for (int e = lane; e < 256; e += 32) {
                const int m = m0 + wm + i * 16 + (e >> 4);
                const int n = n0 + wn + j * 16 + (e & 15);
                int q = __float2int_rn((float)(sc[warp][e] + bias[n]) * scale[n]) + zero_point;
                q = q < -128 ? -128 : (q > 127 ? 127 : q);
                out[(size_t)m * N + n] = (int8_t)q;
            }
            __syncwarp();
        }
}

int main()
{
    const int M = 192, N = 128, K = 288, zp = -3;
    std::vector<int8_t> a(M * K), w(N * K), o(M * N);
    std::vector<int32_t> bias(N);
    std::vector<float> scale(N);
    for (auto& v : a) v = (int8_t)(std::rand() % 255 - 127);
    for (auto& v : w) v = (int8_t)(std::rand() % 255 - 127);
    for (auto& v : bias) v = std::rand() % 20001 - 10000;
    for (auto& v : scale) v = (0.5f + (float)std::rand() / RAND_MAX) / 2048.0f;

    int8_t *da, *dw, *dout;
    int32_t* dbias;
    float* dscale;
    CUDA_OK(cudaMalloc(&da, a.size()));
    CUDA_OK(cudaMalloc(&dw, w.size()));
    CUDA_OK(cudaMalloc(&dout, o.size()));
    CUDA_OK(cudaMalloc(&dbias, N * sizeof(int32_t)));
    CUDA_OK(cudaMalloc(&dscale, N * sizeof(float)));
    CUDA_OK(cudaMemcpy(da, a.data(), a.size(), cudaMemcpyHostToDevice));
    CUDA_OK(cudaMemcpy(dw, w.data(), w.size(), cudaMemcpyHostToDevice));
    CUDA_OK(cudaMemcpy(dbias, bias.data(), N * sizeof(int32_t), cudaMemcpyHostToDevice));
    CUDA_OK(cudaMemcpy(dscale, scale.data(), N * sizeof(float), cudaMemcpyHostToDevice));

    gemm_s8_requant<<<dim3(N / kTileN, M / kTileM), 128>>>(da, dw, dbias, dscale, zp, dout, M, N, K);
    CUDA_OK(cudaGetLastError());
    CUDA_OK(cudaMemcpy(o.data(), dout, o.size(), cudaMemcpyDeviceToHost));

    int bad = 0;
    for (int m = 0; m < M; ++m)
        for (int n = 0; n < N; ++n) {
            int32_t s = bias[n];
            for (int k = 0; k < K; ++k) s += (int)a[m * K + k] * (int)w[n * K + k];
            int q = (int)std::nearbyintf((float)s * scale[n]) + zp;
            q = q < -128 ? -128 : (q > 127 ? 127 : q);
            bad += q != o[m * N + n];
        }
    std::printf("%s, расхождений: %d\n", bad ? "ОШИБКА" : "ок", bad);
    cudaFree(da); cudaFree(dw); cudaFree(dout); cudaFree(dbias); cudaFree(dscale);
    return bad != 0;
}
