/*
 * INT8 GEMM auf den Tensor Cores (Turing/Ampere), zwei Varianten:
 *
 *   1) gemm_s8_wmma : WMMA mit signed char, 16x16x16, Ergebnis int32
 *   2) gemm_s8_mma  : mma.sync.m16n8k32 mit ldmatrix und cp.async (zwei Puffer),
 *                     Ausgabe wieder int8: C = clamp(round(acc * skala[n] + bias[n]))
 *
 * A: M x K zeilenweise (Aktivierungen), B: N x K zeilenweise (Gewichte, also B^T).
 * M und N beliebig bei Variante 2, K ein Vielfaches von 64; Variante 1 will
 * Vielfache von 16.
 *
 *   nvcc -arch=sm_80 imma_gemm_int8.cu && ./a.out
 */
#include <cuda_runtime.h>
#include <mma.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

using namespace nvcuda;

#define CHECK(x)                                                                     \
  {                                                                                  \
    cudaError_t e = (x);                                                             \
    if (e != cudaSuccess) {                                                          \
      printf("%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(e));              \
      exit(1);                                                                       \
    }                                                                                \
  }

// ---------------------------------------------------------------- Variante 1
__global__ void gemm_s8_wmma(const int8_t* A, const int8_t* B, int32_t* C, int M, int N, int K) {
  // ein Warp pro 16x16 Kachel, vier Warps nebeneinander
  int tile_n = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  int tile_m = blockIdx.y;
  if (tile_n * 16 >= N || tile_m * 16 >= M) return;

  wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, int> c;
  wmma::fill_fragment(c, 0);
  for (int k = 0; k < K; k += 16) {
    wmma::load_matrix_sync(a, (const signed char*)A + tile_m * 16 * K + k, K);
    wmma::load_matrix_sync(b, (const signed char*)B + tile_n * 16 * K + k, K);
    wmma::mma_sync(c, a, b, c);
  }
  wmma::store_matrix_sync(C + tile_m * 16 * N + tile_n * 16, c, N, wmma::mem_row_major);
}

// ---------------------------------------------------------------- Variante 2
constexpr int TM = 64;
constexpr int TN = 64;
constexpr int TK = 64;
constexpr int PAD = 16;  // Bytes; haelt die Zeilen auf 16 ausgerichtet

__device__ inline void cp_async16(void* ziel, const void* quelle, bool gueltig) {
  uint32_t s = (uint32_t)__cvta_generic_to_shared(ziel);
  int n = gueltig ? 16 : 0;  // Rest wird mit Nullen gefuellt
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;\n" ::"r"(s), "l"(quelle), "r"(n));
}

__device__ inline void ldmatrix4(int* r, const void* p) {
  uint32_t s = (uint32_t)__cvta_generic_to_shared(p);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(s));
}

__device__ inline void imma16832(int* d, const int* a, const int* b) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ inline int8_t requantize(int acc, float scale, float bias) {
  int v = __float2int_rn(acc * scale + bias);
  return (int8_t)max(-128, min(127, v));
}

__global__ void __launch_bounds__(128)
gemm_s8_mma(const int8_t* __restrict__ A, const int8_t* __restrict__ B, const float* __restrict__ scale,
            const float* __restrict__ bias, int8_t* __restrict__ C, int M, int N, int K) {
  __shared__ __align__(16) int8_t As[2][TM][TK + PAD];
  __shared__ __align__(16) int8_t Bs[2][TN][TK + PAD];

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int wm = (warp / 2) * 32;  // 2 x 2 Warps, je 32 x 32
  const int wn = (warp % 2) * 32;
  const int m0 = blockIdx.y * TM, n0 = blockIdx.x * TN;

  auto lade = [&](int puffer, int k0) {
    // 64 Zeilen zu vier 16-Byte-Stuecken = 256 Stuecke, zwei pro Thread und Matrix
    for (int i = threadIdx.x; i < TM * TK / 16; i += 128) {
      int z = i / (TK / 16), s = (i % (TK / 16)) * 16;
      bool okA = m0 + z < M, okB = n0 + z < N;
      cp_async16(&As[puffer][z][s], A + (size_t)(okA ? m0 + z : 0) * K + k0 + s, okA);
      cp_async16(&Bs[puffer][z][s], B + (size_t)(okB ? n0 + z : 0) * K + k0 + s, okB);
    }
    asm volatile("cp.async.commit_group;\n");
  };

  int acc[2][4][4];
  memset(acc, 0, sizeof(acc));

  lade(0, 0);
  for (int k0 = 0, p = 0; k0 < K; k0 += TK, p ^= 1) {
    if (k0 + TK < K) {
      lade(p ^ 1, k0 + TK);
      asm volatile("cp.async.wait_group 1;\n");
    } else {
      asm volatile("cp.async.wait_group 0;\n");
    }
    __syncthreads();

    for (int kk = 0; kk < TK; kk += 32) {
      int a[2][4], b[4][2];
      for (int i = 0; i < 2; i++) ldmatrix4(a[i], &As[p][wm + i * 16 + lane % 16][kk + (lane / 16) * 16]);
      // x4 liefert zwei 8-spaltige B-Fragmente
      for (int j = 0; j < 4; j += 2) {
        int r[4];
        ldmatrix4(r, &Bs[p][wn + j * 8 + (lane / 16) * 8 + lane % 8][kk + (lane / 8 % 2) * 16]);
        b[j][0] = r[0];
        b[j][1] = r[1];
        b[j + 1][0] = r[2];
        b[j + 1][1] = r[3];
      }
      for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++) imma16832(acc[i][j], a[i], b[j]);
    }
    __syncthreads();  // Puffer p darf ueberschrieben werden
  }

  const int g = lane / 4, t = lane % 4;
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 4; j++)
      for (int e = 0; e < 4; e++) {
        int row = m0 + wm + i * 16 + g + (e / 2) * 8;
        int col = n0 + wn + j * 8 + t * 2 + (e % 2);
        if (row < M && col < N) C[(size_t)row * N + col] = requantize(acc[i][j][e], scale[col], bias[col]);
      }
}

// ---------------------------------------------------------------- Test
static int32_t dot(const int8_t* x, const int8_t* y, int K) {
  int32_t s = 0;
  for (int k = 0; k < K; k++) s += (int32_t)x[k] * y[k];
  return s;
}

int main(int argc, char** argv) {
  int M = 80, N = 144, K = 192;
  for (int i = 1; i < argc; i++) {
    if (!strncmp(argv[i], "--m=", 4)) M = atoi(argv[i] + 4);
    if (!strncmp(argv[i], "--n=", 4)) N = atoi(argv[i] + 4);
    if (!strncmp(argv[i], "--k=", 4)) K = atoi(argv[i] + 4);
  }
  std::vector<int8_t> A((size_t)M * K), B((size_t)N * K), C8((size_t)M * N);
  std::vector<int32_t> C32((size_t)M * N);
  std::vector<float> scale(N), bias(N);
  srand(1234);
  for (auto& v : A) v = (int8_t)(rand() % 256 - 128);
  for (auto& v : B) v = (int8_t)(rand() % 256 - 128);
  for (auto& v : scale) v = 0.0005f + 0.001f * (rand() % 100) / 100.f;
  for (auto& v : bias) v = (rand() % 200 - 100) / 10.f;

  int8_t *dA, *dB, *dC8;
  int32_t* dC32;
  float *dScale, *dBias;
  CHECK(cudaMalloc(&dA, A.size()));
  CHECK(cudaMalloc(&dB, B.size()));
  CHECK(cudaMalloc(&dC8, C8.size()));
  CHECK(cudaMalloc(&dC32, C32.size() * 4));
  CHECK(cudaMalloc(&dScale, N * sizeof(float)));
  CHECK(cudaMalloc(&dBias, N * sizeof(float)));
  CHECK(cudaMemcpy(dA, A.data(), A.size(), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(dB, B.data(), B.size(), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(dScale, scale.data(), N * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(dBias, bias.data(), N * sizeof(float), cudaMemcpyHostToDevice));

  int fehler = 0;
  if (M % 16 == 0 && N % 16 == 0) {
    gemm_s8_wmma<<<dim3((N / 16 + 3) / 4, M / 16), 128>>>(dA, dB, dC32, M, N, K);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(C32.data(), dC32, C32.size() * 4, cudaMemcpyDeviceToHost));
    int falsch = 0;
    for (int i = 0; i < M; i++)
      for (int j = 0; j < N; j++) falsch += C32[(size_t)i * N + j] != dot(&A[(size_t)i * K], &B[(size_t)j * K], K);
    printf("wmma s8->s32 : %s (%d falsch)\n", falsch ? "FEHLER" : "ok", falsch);
    fehler += falsch;
  }

  gemm_s8_mma<<<dim3((N + TN - 1) / TN, (M + TM - 1) / TM), 128>>>(dA, dB, dScale, dBias, dC8, M, N, K);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(C8.data(), dC8, C8.size(), cudaMemcpyDeviceToHost));
  int falsch = 0;
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      float x = std::fmaf((float)dot(&A[(size_t)i * K], &B[(size_t)j * K], K), scale[j], bias[j]);
      int soll = (int)std::lrintf(x);
      soll = soll < -128 ? -128 : soll > 127 ? 127 : soll;
      falsch += abs(soll - C8[(size_t)i * N + j]) > 0;
    }
  printf("mma  s8->s8  : %s (%d falsch)\n", falsch ? "FEHLER" : "ok", falsch);
  fehler += falsch;

  cudaFree(dA);
  cudaFree(dB);
  cudaFree(dC8);
  cudaFree(dC32);
  cudaFree(dScale);
  cudaFree(dBias);
  return fehler != 0;
}
