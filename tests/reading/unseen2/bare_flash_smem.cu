#include <mma.h>
#include <cuda_fp16.h>
// launched from Python (cupy RawKernel): grid (B*nh, ceil(N/32)), block 64
extern "C" __global__ void flash_attn(const half* Q, const half* K, const half* V, float* O, const int N, const int d,
                                      const int nh, const float softmax_scale) {
  using namespace nvcuda::wmma;
  __shared__ half Qs[32 * 64], Ks[32 * 64], Vs[32 * 64], Ps[32 * 32];
  __shared__ float Ss[32 * 32], Os[32 * 64], mi[32], li[32];
  const int off = blockIdx.x * N * 64;
  const int q0 = blockIdx.y * 32;
  for (int i = threadIdx.x; i < 32 * 64; i += 64) { Qs[i] = Q[off + q0 * 64 + i]; Os[i] = 0.f; }
  if (threadIdx.x < 32) { mi[threadIdx.x] = -1e30f; li[threadIdx.x] = 0.f; }
  int w = threadIdx.x / 32;
  for (int j = 0; j < N; j += 32) {
    __syncthreads();
    for (int i = threadIdx.x; i < 32 * 64; i += 64) { Ks[i] = K[off + j * 64 + i]; Vs[i] = V[off + j * 64 + i]; }
    __syncthreads();
    for (int c = 0; c < 2; c++) {
      fragment<accumulator, 16, 16, 16, float> s; fill_fragment(s, 0.f);
      for (int k = 0; k < 64; k += 16) {
        fragment<matrix_a, 16, 16, 16, half, row_major> a; fragment<matrix_b, 16, 16, 16, half, col_major> b;
        load_matrix_sync(a, Qs + w * 16 * 64 + k, 64);
        load_matrix_sync(b, Ks + c * 16 * 64 + k, 64);
        mma_sync(s, a, b, s);
      }
      store_matrix_sync(Ss + w * 16 * 32 + c * 16, s, 32, mem_row_major);
    }
    __syncthreads();
    if (threadIdx.x < 32) {
      int r = threadIdx.x;
      float m = mi[r];
      for (int c = 0; c < 32; c++) { Ss[r * 32 + c] *= softmax_scale; m = fmaxf(m, Ss[r * 32 + c]); }
      float f = __expf(mi[r] - m), l = 0.f;
      for (int c = 0; c < 32; c++) { float p = __expf(Ss[r * 32 + c] - m); l += p; Ps[r * 32 + c] = __float2half(p); }
      li[r] = li[r] * f + l; mi[r] = m;
      for (int c = 0; c < 64; c++) Os[r * 64 + c] *= f;
    }
    __syncthreads();
    for (int c = 0; c < 4; c++) {
      fragment<accumulator, 16, 16, 16, float> o;
      load_matrix_sync(o, Os + w * 16 * 64 + c * 16, 64, mem_row_major);
      for (int k = 0; k < 32; k += 16) {
        fragment<matrix_a, 16, 16, 16, half, row_major> a; fragment<matrix_b, 16, 16, 16, half, row_major> b;
        load_matrix_sync(a, Ps + w * 16 * 32 + k, 32);
        load_matrix_sync(b, Vs + k * 64 + c * 16, 64);
        mma_sync(o, a, b, o);
      }
      store_matrix_sync(Os + w * 16 * 64 + c * 16, o, 64, mem_row_major);
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 32 * 64; i += 64) O[off + q0 * 64 + i] = Os[i] / li[i / 64];
}
