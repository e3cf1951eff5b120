// Линейный слой для декодирования: y = silu(x * W^T + b), bf16, маленький M (1..64 токенов).
//
// При маленьком M обычный GEMM запускает слишком мало блоков и не загружает GPU, поэтому
// измерение K делится между блоками (split-K): каждый блок пишет свою частичную сумму в
// рабочий буфер fp32, второе ядро складывает их, прибавляет bias и применяет SiLU.
//
// Веса из старых чекпоинтов лежат как [K, N]; transpose_bf16 один раз перекладывает их в [N, K].
//
// Ограничения: N % 64 == 0, K % 64 == 0, M любое.
// Сборка: nvcc -O3 -std=c++17 -arch=sm_80 splitk_linear_bf16.cu -o splitk

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

using bf16 = __nv_bfloat16;
using namespace nvcuda::wmma;

#define CUDA_TRY(...)                                                                  \
  if (cudaError_t e_ = (__VA_ARGS__); e_ != cudaSuccess) {                             \
    std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(e_));   \
    std::abort();                                                                      \
  }

constexpr int BM = 16;
constexpr int BN = 64;
constexpr int BK = 64;
constexpr int LD = BK + 8;
constexpr int NTHREADS = 128;   // 4 варпа, каждый считает 16 x 16

// ---------------------------------------------------------------------------------------
// Транспонирование: in [rows, cols] -> out [cols, rows]
// ---------------------------------------------------------------------------------------
constexpr int TT = 32;

__global__ void transpose_bf16(const bf16* __restrict__ in, bf16* __restrict__ out, int rows, int cols) {
  __shared__ bf16 tile[TT][TT + 2];   // +2 элемента = 4 байта: столбец не попадает в один банк
  int c = blockIdx.x * TT + threadIdx.x;
  for (int dy = threadIdx.y; dy < TT; dy += blockDim.y) {
    int r = blockIdx.y * TT + dy;
    if (r < rows && c < cols) tile[dy][threadIdx.x] = in[(size_t)r * cols + c];
  }
  __syncthreads();
  int oc = blockIdx.y * TT + threadIdx.x;   // столбец результата = строка исходной матрицы
  for (int dy = threadIdx.y; dy < TT; dy += blockDim.y) {
    int orow = blockIdx.x * TT + dy;
    if (orow < cols && oc < rows) out[(size_t)orow * rows + oc] = tile[threadIdx.x][dy];
  }
}

// ---------------------------------------------------------------------------------------
// Частичные суммы. grid = (N / BN, ceil(M / BM), splits)
// ws: [splits][m_pad][N], m_pad = ceil(M / 16) * 16
// ---------------------------------------------------------------------------------------
__global__ void __launch_bounds__(NTHREADS)
splitk_gemm_kernel(const bf16* __restrict__ x, const bf16* __restrict__ W, float* __restrict__ ws,
                   int M, int N, int K, int k_per_split) {
  __shared__ __align__(128) bf16 xs[BM * LD];
  __shared__ __align__(128) bf16 wsm[BN * LD];

  const int tid = threadIdx.x;
  const int warp = tid / 32;
  const int n0 = blockIdx.x * BN;
  const int m0 = blockIdx.y * BM;
  const int k_begin = blockIdx.z * k_per_split;
  const int k_end = min(K, k_begin + k_per_split);

  fragment<accumulator, 16, 16, 16, float> acc;
  fill_fragment(acc, 0.0f);

  for (int k0 = k_begin; k0 < k_end; k0 += BK) {
    {  // x: 16 строк по 8 векторов, ровно один вектор на поток
      const int r = tid / 8, c = (tid % 8) * 8;
      uint4 v = make_uint4(0, 0, 0, 0);
      if (m0 + r < M) v = *reinterpret_cast<const uint4*>(x + (size_t)(m0 + r) * K + k0 + c);
      *reinterpret_cast<uint4*>(xs + r * LD + c) = v;
    }
#pragma unroll
    for (int i = 0; i < BN * BK / 8 / NTHREADS; ++i) {
      const int idx = tid + i * NTHREADS;
      const int r = idx / 8, c = (idx % 8) * 8;
      *reinterpret_cast<uint4*>(wsm + r * LD + c) =
          *reinterpret_cast<const uint4*>(W + (size_t)(n0 + r) * K + k0 + c);
    }
    __syncthreads();

#pragma unroll
    for (int kk = 0; kk < BK; kk += 16) {
      fragment<matrix_a, 16, 16, 16, bf16, row_major> a;
      fragment<matrix_b, 16, 16, 16, bf16, col_major> b;   // W хранится [n][k], то есть B по столбцам
      load_matrix_sync(a, xs + kk, LD);
      load_matrix_sync(b, wsm + warp * 16 * LD + kk, LD);
      mma_sync(acc, a, b, acc);
    }
    __syncthreads();
  }

  // блок без работы (k_begin >= K) пишет нули, их ждёт второе ядро
  const size_t m_pad = (size_t)gridDim.y * BM;
  float* dst = ws + (blockIdx.z * m_pad + m0) * N + n0 + warp * 16;
  store_matrix_sync(dst, acc, N, mem_row_major);
}

__global__ void splitk_reduce_bias_silu(const float* __restrict__ ws, const float* __restrict__ bias,
                                        bf16* __restrict__ y, int M, int N, int m_pad, int splits) {
  const int n = blockIdx.x * blockDim.x + threadIdx.x;
  const int m = blockIdx.y;
  if (n >= N) return;
  float s = 0.0f;
  for (int z = 0; z < splits; ++z) s += ws[((size_t)z * m_pad + m) * N + n];
  s += bias[n];
  y[(size_t)m * N + n] = __float2bfloat16(s / (1.0f + __expf(-s)));
}

void linear_silu(const bf16* x, const bf16* W, const float* bias, bf16* y, float* ws, int M, int N, int K, int splits) {
  const int k_tiles = K / BK;
  const int k_per_split = (k_tiles + splits - 1) / splits * BK;
  const int m_blocks = (M + BM - 1) / BM;
  splitk_gemm_kernel<<<dim3(N / BN, m_blocks, splits), NTHREADS>>>(x, W, ws, M, N, K, k_per_split);
  splitk_reduce_bias_silu<<<dim3((N + 255) / 256, M), 256>>>(ws, bias, y, M, N, m_blocks * BM, splits);
  CUDA_TRY(cudaGetLastError());
}

int main(int argc, char** argv) {
  const int N = argc > 1 ? std::atoi(argv[1]) : 4096;
  const int K = argc > 2 ? std::atoi(argv[2]) : 4096;
  if (N % BN || K % BK) {
    std::printf("N и K должны делиться на 64\n");
    return 1;
  }
  const int max_m = 40, max_splits = 8;
  const int max_pad = (max_m + BM - 1) / BM * BM;

  auto rnd = [] { return 2.0f * std::rand() / RAND_MAX - 1.0f; };
  std::vector<bf16> hx((size_t)max_m * K), hw((size_t)K * N), hy((size_t)max_m * N);
  std::vector<float> hb(N);
  for (auto& v : hx) v = __float2bfloat16(rnd());
  for (auto& v : hw) v = __float2bfloat16(rnd() / std::sqrt((float)K));
  for (auto& v : hb) v = rnd();

  bf16 *dx, *dw_kn, *dw_nk, *dy;
  float *db, *dws;
  CUDA_TRY(cudaMalloc((void**)&dx, hx.size() * sizeof(bf16)));
  CUDA_TRY(cudaMalloc((void**)&dw_kn, hw.size() * sizeof(bf16)));
  CUDA_TRY(cudaMalloc((void**)&dw_nk, hw.size() * sizeof(bf16)));
  CUDA_TRY(cudaMalloc((void**)&dy, hy.size() * sizeof(bf16)));
  CUDA_TRY(cudaMalloc((void**)&db, N * sizeof(float)));
  CUDA_TRY(cudaMalloc((void**)&dws, (size_t)max_splits * max_pad * N * sizeof(float)));
  CUDA_TRY(cudaMemcpy(dx, hx.data(), hx.size() * sizeof(bf16), cudaMemcpyHostToDevice));
  CUDA_TRY(cudaMemcpy(dw_kn, hw.data(), hw.size() * sizeof(bf16), cudaMemcpyHostToDevice));
  CUDA_TRY(cudaMemcpy(db, hb.data(), N * sizeof(float), cudaMemcpyHostToDevice));

  transpose_bf16<<<dim3((N + TT - 1) / TT, (K + TT - 1) / TT), dim3(TT, 8)>>>(dw_kn, dw_nk, K, N);
  CUDA_TRY(cudaGetLastError());

  // эталон в double, по исходным весам [K, N]
  std::vector<float> ref((size_t)max_m * N);
  for (int m = 0; m < max_m; ++m) {
    std::vector<double> acc(N, 0.0);
    for (int k = 0; k < K; ++k) {
      const double a = __bfloat162float(hx[(size_t)m * K + k]);
      for (int n = 0; n < N; ++n) acc[n] += a * __bfloat162float(hw[(size_t)k * N + n]);
    }
    for (int n = 0; n < N; ++n) {
      const double s = acc[n] + hb[n];
      ref[(size_t)m * N + n] = (float)(s / (1.0 + std::exp(-s)));
    }
  }

  bool ok = true;
  for (int M : {1, 7, 16, 40}) {
    for (int splits : {1, 3, 8}) {
      CUDA_TRY(cudaMemset(dy, 0, hy.size() * sizeof(bf16)));
      linear_silu(dx, dw_nk, db, dy, dws, M, N, K, splits);
      CUDA_TRY(cudaDeviceSynchronize());
      CUDA_TRY(cudaMemcpy(hy.data(), dy, (size_t)M * N * sizeof(bf16), cudaMemcpyDeviceToHost));
      float err = 0.0f;
      for (size_t i = 0; i < (size_t)M * N; ++i) {
        const float e = std::fabs(__bfloat162float(hy[i]) - ref[i]) / (1.0f + std::fabs(ref[i]));
        if (e > err || std::isnan(e)) err = e;
      }
      const bool good = err < 1e-2f;   // округление результата до bf16
      ok = ok && good;
      std::printf("M=%2d N=%d K=%d splits=%d  ошибка %.2e %s\n", M, N, K, splits, err, good ? "ok" : "ОШИБКА");
    }
  }
  for (void* ptr : {(void*)dx, (void*)dw_kn, (void*)dw_nk, (void*)dy, (void*)db, (void*)dws}) CUDA_TRY(cudaFree(ptr));
  return ok ? 0 : 1;
}
