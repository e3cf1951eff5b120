// Minimal FlashAttention forward with tensor cores, checked against a naive CPU implementation.
//   nvcc -O3 -arch=sm_80 -o fa fa.cu && ./fa
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
using namespace nvcuda::wmma;

template <int Br, int Bc, int d>
__global__ void flash_attn_fwd(const half *Q, const half *K, const half *V, half *O, const int N,
                               const float scale_log2e, const bool causal) {
  extern __shared__ __align__(32) unsigned char smem[];
  half *Qi = (half *)smem;
  half *Kj = Qi + Br * d;
  half *Vj = Kj + Bc * d;
  half *P = Vj + Bc * d;
  float *S = (float *)(P + Br * Bc);
  float *PV = S + Br * Bc;
  const int tx = threadIdx.x;
  const int warp = tx / 32;
  const size_t qkv_offset = (size_t)blockIdx.y * N * d;
  const int q0 = blockIdx.x * Br;

  float Oi[d];
  float m = -INFINITY, l = 0.f;
  for (int x = 0; x < d; x++) Oi[x] = 0.f;
  for (int i = tx; i < Br * d; i += blockDim.x)
    Qi[i] = q0 + i / d < N ? Q[qkv_offset + (size_t)q0 * d + i] : __float2half(0.f);

  const int Tc = causal ? CEIL_DIV(min(q0 + Br, N), Bc) : CEIL_DIV(N, Bc);
  for (int j = 0; j < Tc; j++) {
    __syncthreads();
    for (int i = tx; i < Bc * d; i += blockDim.x) {
      const bool in = j * Bc + i / d < N;
      Kj[i] = in ? K[qkv_offset + (size_t)j * Bc * d + i] : __float2half(0.f);
      Vj[i] = in ? V[qkv_offset + (size_t)j * Bc * d + i] : __float2half(0.f);
    }
    __syncthreads();
    for (int c = 0; c < Bc; c += 16) {
      fragment<accumulator, 16, 16, 16, float> s;
      fill_fragment(s, 0.f);
      for (int x = 0; x < d; x += 16) {
        fragment<matrix_a, 16, 16, 16, half, row_major> fq;
        fragment<matrix_b, 16, 16, 16, half, col_major> fk;
        load_matrix_sync(fq, Qi + warp * 16 * d + x, d);
        load_matrix_sync(fk, Kj + c * d + x, d);
        mma_sync(s, fq, fk, s);
      }
      store_matrix_sync(S + warp * 16 * Bc + c, s, Bc, mem_row_major);
    }
    __syncthreads();
    float corr = 1.f;
    if (tx < Br) {
      float m_new = m;
      for (int y = 0; y < Bc; y++) {
        const int key = j * Bc + y;
        float s = S[tx * Bc + y] * scale_log2e;
        if (key >= N || (causal && key > q0 + tx)) s = -INFINITY;
        S[tx * Bc + y] = s;
        m_new = fmaxf(m_new, s);
      }
      corr = exp2f(m - m_new);
      l *= corr;
      for (int y = 0; y < Bc; y++) {
        const float p = exp2f(S[tx * Bc + y] - m_new);
        P[tx * Bc + y] = __float2half(p);
        l += p;
      }
      m = m_new;
    }
    __syncthreads();
    for (int x = 0; x < d; x += 16) {
      fragment<accumulator, 16, 16, 16, float> o;
      fill_fragment(o, 0.f);
      for (int c = 0; c < Bc; c += 16) {
        fragment<matrix_a, 16, 16, 16, half, row_major> fp;
        fragment<matrix_b, 16, 16, 16, half, row_major> fv;
        load_matrix_sync(fp, P + warp * 16 * Bc + c, Bc);
        load_matrix_sync(fv, Vj + c * d + x, d);
        mma_sync(o, fp, fv, o);
      }
      store_matrix_sync(PV + warp * 16 * d + x, o, d, mem_row_major);
    }
    __syncthreads();
    if (tx < Br)
      for (int x = 0; x < d; x++) Oi[x] = Oi[x] * corr + PV[tx * d + x];
  }
  if (tx < Br && q0 + tx < N)
    for (int x = 0; x < d; x++) O[qkv_offset + (size_t)(q0 + tx) * d + x] = __float2half(Oi[x] / l);
}

static void attention_cpu(const float *q, const float *k, const float *v, float *o, int BH, int N, int d, bool causal) {
  float *row = (float *)malloc(N * sizeof(float));
  for (int b = 0; b < BH; b++)
    for (int i = 0; i < N; i++) {
      const int n = causal ? i + 1 : N;
      float mx = -INFINITY, sum = 0.f;
      for (int j = 0; j < n; j++) {
        float s = 0.f;
        for (int x = 0; x < d; x++) s += q[(b * N + i) * d + x] * k[(b * N + j) * d + x];
        row[j] = s / sqrtf((float)d);
        mx = fmaxf(mx, row[j]);
      }
      for (int j = 0; j < n; j++) sum += row[j] = expf(row[j] - mx);
      for (int x = 0; x < d; x++) {
        float acc = 0.f;
        for (int j = 0; j < n; j++) acc += row[j] / sum * v[(b * N + j) * d + x];
        o[(b * N + i) * d + x] = acc;
      }
    }
  free(row);
}

int main() {
  const int B = 2, H = 3, N = 77, d = 32;
  const int Br = 32, Bc = 32;
  const size_t n = (size_t)B * H * N * d;
  float *h[4];
  half *hh = (half *)malloc(n * sizeof(half)), *dev[4];
  srand(0);
  for (int t = 0; t < 4; t++) {
    h[t] = (float *)malloc(n * sizeof(float));
    cudaMalloc(&dev[t], n * sizeof(half));
    if (t == 3) break;
    for (size_t i = 0; i < n; i++) {
      hh[i] = __float2half(2.f * rand() / RAND_MAX - 1.f);
      h[t][i] = __half2float(hh[i]);
    }
    cudaMemcpy(dev[t], hh, n * sizeof(half), cudaMemcpyHostToDevice);
  }
  const int smem = (Br * d + 2 * Bc * d + Br * Bc) * sizeof(half) + (Br * Bc + Br * d) * sizeof(float);
  dim3 grid(CEIL_DIV(N, Br), B * H);
  int failures = 0;
  for (int causal = 0; causal < 2; causal++) {
    flash_attn_fwd<Br, Bc, d><<<grid, Br / 16 * 32, smem>>>(dev[0], dev[1], dev[2], dev[3], N,
                                                            1.44269504f / sqrtf((float)d), causal);
    cudaMemcpy(hh, dev[3], n * sizeof(half), cudaMemcpyDeviceToHost);
    attention_cpu(h[0], h[1], h[2], h[3], B * H, N, d, causal);
    float worst = 0.f;
    for (size_t i = 0; i < n; i++) worst = fmaxf(worst, fabsf(h[3][i] - __half2float(hh[i])));
    printf("causal=%d max abs diff %g\n", causal, worst);
    failures += worst > 5e-3f;
  }
  printf(failures ? "FAILED\n" : "PASSED\n");
  return failures;
}
