/*
 * Convolucion 2D como GEMM implicito con Tensor Cores (WMMA)
 * ----------------------------------------------------------
 * Trabajo practico de "Programacion de GPU", version entregada.
 *
 *   entrada  : N x H x W x C      (NHWC, half)
 *   pesos    : K x R x S x C      (KRSC, half)
 *   salida   : N x P x Q x K      (NPQK, half), acumulacion en float
 *   sesgo    : K (float), opcionalmente seguido de ReLU
 *
 * La matriz im2col nunca se escribe en memoria global. Con
 *   GEMM_M = N*P*Q     GEMM_N = K     GEMM_K = R*S*C
 * cada bloque calcula 64 x 64 elementos de la salida y arma en memoria
 * compartida los pedazos de A (entrada) y B (pesos) que necesita.
 */
#include <cuda_fp16.h>
#include <mma.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

using namespace nvcuda;

#define TILE_M 64
#define TILE_N 64
#define TILE_K 32
#define SKEW 16
#define N_HILOS 256   /* 8 warps: 4 en M por 2 en N, cada uno 16 x 32 */

#define cudaCheck(ans) { gpuAssert((ans), __FILE__, __LINE__); }
inline void gpuAssert(cudaError_t code, const char *file, int line) {
  if (code != cudaSuccess) {
    fprintf(stderr, "GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line);
    exit(code);
  }
}

struct ConvParams {
  int N, H, W, C;      // entrada
  int K, R, S;         // filtros
  int pad_h, pad_w;
  int stride_h, stride_w;
  int P, Q;            // salida
};

static void calcular_salida(ConvParams *p) {
  p->P = (p->H + 2 * p->pad_h - p->R) / p->stride_h + 1;
  p->Q = (p->W + 2 * p->pad_w - p->S) / p->stride_w + 1;
}

template <bool RELU>
__global__ void conv2d_igemm(const half *__restrict__ x, const half *__restrict__ w, const float *__restrict__ sesgo,
                             half *__restrict__ y, const ConvParams p) {
  __shared__ __align__(32) half sA[TILE_M][TILE_K + SKEW];
  __shared__ __align__(32) half sB[TILE_N][TILE_K + SKEW];
  __shared__ __align__(32) float sC[TILE_M][TILE_N + 8];

  const int gemm_m = p.N * p.P * p.Q;
  const int gemm_k = p.R * p.S * p.C;
  const int m0 = blockIdx.x * TILE_M;
  const int n0 = blockIdx.y * TILE_N;
  const int warp = threadIdx.x / 32;
  const int wm = (warp % 4) * 16;
  const int wn = (warp / 4) * 32;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2];
  wmma::fill_fragment(acc[0], 0.0f);
  wmma::fill_fragment(acc[1], 0.0f);

  // Cada hilo llena siempre la misma columna k de los tiles (TILE_K = 32), filas salteadas de a 8.
  const int col = threadIdx.x % TILE_K;
  const int fila0 = threadIdx.x / TILE_K;

  for (int k0 = 0; k0 < gemm_k; k0 += TILE_K) {
    // descomponer k = (r, s, c)
    const int k = k0 + col;
    const int c = k % p.C;
    const int rs = k / p.C;
    const int s = rs % p.S;
    const int r = rs / p.S;

    for (int fila = fila0; fila < TILE_M; fila += N_HILOS / TILE_K) {
      const int m = m0 + fila;
      half v = __float2half(0.0f);
      if (m < gemm_m && k < gemm_k) {
        const int q = m % p.Q;
        const int pp = (m / p.Q) % p.P;
        const int n = m / (p.P * p.Q);
        const int h = pp * p.stride_h - p.pad_h + r;
        const int ww = q * p.stride_w - p.pad_w + s;
        if (h >= 0 && h < p.H && ww >= 0 && ww < p.W)
          v = x[((n * p.H + h) * p.W + ww) * p.C + c];
      }
      sA[fila][col] = v;
    }
    for (int fila = fila0; fila < TILE_N; fila += N_HILOS / TILE_K) {
      const int f = n0 + fila;  // filtro
      sB[fila][col] = (f < p.K && k < gemm_k) ? w[f * gemm_k + k] : __float2half(0.0f);
    }
    __syncthreads();

    for (int kk = 0; kk < TILE_K; kk += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
      wmma::load_matrix_sync(a, &sA[wm][kk], TILE_K + SKEW);
      for (int j = 0; j < 2; j++) {
        // los pesos estan guardados por filtro: B es "col_major"
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
        wmma::load_matrix_sync(b, &sB[wn + j * 16][kk], TILE_K + SKEW);
        wmma::mma_sync(acc[j], a, b, acc[j]);
      }
    }
    __syncthreads();
  }

  for (int j = 0; j < 2; j++)
    wmma::store_matrix_sync(&sC[wm][wn + j * 16], acc[j], TILE_N + 8, wmma::mem_row_major);
  __syncthreads();

  // NPQK: la fila m de la GEMM es directamente el pixel de salida
  for (int i = threadIdx.x; i < TILE_M * TILE_N; i += N_HILOS) {
    const int m = m0 + i / TILE_N;
    const int f = n0 + i % TILE_N;
    if (m < gemm_m && f < p.K) {
      float v = sC[i / TILE_N][i % TILE_N] + sesgo[f];
      if (RELU) v = v > 0.0f ? v : 0.0f;
      y[m * p.K + f] = __float2half(v);
    }
  }
}

void conv2d_forward(const half *x, const half *w, const float *sesgo, half *y, ConvParams p, bool relu) {
  calcular_salida(&p);
  dim3 grid((p.N * p.P * p.Q + TILE_M - 1) / TILE_M, (p.K + TILE_N - 1) / TILE_N);
  if (relu)
    conv2d_igemm<true><<<grid, N_HILOS>>>(x, w, sesgo, y, p);
  else
    conv2d_igemm<false><<<grid, N_HILOS>>>(x, w, sesgo, y, p);
  cudaCheck(cudaGetLastError());
}

// ------------------------------------------------------------ verificacion
void conv2d_cpu(const half *x, const half *w, const float *sesgo, float *y, const ConvParams &p, bool relu) {
  for (int n = 0; n < p.N; n++)
    for (int i = 0; i < p.P; i++)
      for (int j = 0; j < p.Q; j++)
        for (int f = 0; f < p.K; f++) {
          double suma = sesgo[f];
          for (int r = 0; r < p.R; r++)
            for (int s = 0; s < p.S; s++) {
              int h = i * p.stride_h - p.pad_h + r;
              int ww = j * p.stride_w - p.pad_w + s;
              if (h < 0 || h >= p.H || ww < 0 || ww >= p.W) continue;
              for (int c = 0; c < p.C; c++)
                suma += (double)__half2float(x[((n * p.H + h) * p.W + ww) * p.C + c]) *
                        __half2float(w[((f * p.R + r) * p.S + s) * p.C + c]);
            }
          if (relu && suma < 0) suma = 0;
          y[((n * p.P + i) * p.Q + j) * p.K + f] = (float)suma;
        }
}

int probar(ConvParams p, bool relu) {
  calcular_salida(&p);
  const size_t nx = (size_t)p.N * p.H * p.W * p.C, nw = (size_t)p.K * p.R * p.S * p.C;
  const size_t ny = (size_t)p.N * p.P * p.Q * p.K;
  half *hx = (half *)malloc(nx * sizeof(half)), *hw = (half *)malloc(nw * sizeof(half));
  half *hy = (half *)malloc(ny * sizeof(half));
  float *hb = (float *)malloc(p.K * sizeof(float)), *ref = (float *)malloc(ny * sizeof(float));
  for (size_t i = 0; i < nx; i++) hx[i] = __float2half((rand() % 201 - 100) / 100.0f);
  for (size_t i = 0; i < nw; i++) hw[i] = __float2half((rand() % 201 - 100) / 400.0f);
  for (int i = 0; i < p.K; i++) hb[i] = (rand() % 201 - 100) / 50.0f;

  half *dx, *dw, *dy;
  float *db;
  cudaCheck(cudaMalloc(&dx, nx * sizeof(half)));
  cudaCheck(cudaMalloc(&dw, nw * sizeof(half)));
  cudaCheck(cudaMalloc(&dy, ny * sizeof(half)));
  cudaCheck(cudaMalloc(&db, p.K * sizeof(float)));
  cudaCheck(cudaMemcpy(dx, hx, nx * sizeof(half), cudaMemcpyHostToDevice));
  cudaCheck(cudaMemcpy(dw, hw, nw * sizeof(half), cudaMemcpyHostToDevice));
  cudaCheck(cudaMemcpy(db, hb, p.K * sizeof(float), cudaMemcpyHostToDevice));
  conv2d_forward(dx, dw, db, dy, p, relu);
  cudaCheck(cudaMemcpy(hy, dy, ny * sizeof(half), cudaMemcpyDeviceToHost));
  conv2d_cpu(hx, hw, hb, ref, p, relu);

  size_t errores = 0;
  for (size_t i = 0; i < ny; i++)
    if (!(fabs(__half2float(hy[i]) - ref[i]) <= 2e-3 + 2e-3 * fabs(ref[i]))) errores++;
  printf("[%d %d %d %d] * [%d %d %d %d] stride %d,%d pad %d,%d%s: %s (%zu errores)\n", p.N, p.H, p.W, p.C, p.K, p.R,
         p.S, p.C, p.stride_h, p.stride_w, p.pad_h, p.pad_w, relu ? " + relu" : "", errores ? "MAL" : "BIEN", errores);
  cudaFree(dx); cudaFree(dw); cudaFree(dy); cudaFree(db);
  free(hx); free(hw); free(hy); free(hb); free(ref);
  return errores != 0;
}

int main() {
  int mal = 0;
  //                 N  H   W   C   K   R  S  ph pw sh sw
  mal += probar({2, 12, 10, 16, 64, 3, 3, 1, 1, 1, 1, 0, 0}, true);
  mal += probar({1, 9, 11, 24, 40, 3, 5, 1, 2, 2, 1, 0, 0}, false);
  mal += probar({3, 7, 7, 32, 72, 1, 1, 0, 0, 1, 1, 0, 0}, true);
  mal += probar({1, 16, 13, 3, 16, 5, 3, 2, 0, 2, 3, 0, 0}, false);  // primera capa, C = 3
  if (mal == 0) printf("Todas las pruebas pasaron\n");
  return mal;
}
