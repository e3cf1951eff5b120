// Implicit GEMM convolution on tensor cores, NCHW, parameters in one struct as the contest's harness passes them.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

typedef struct {
  const half* in;      // n, c, h, w
  const half* weight;  // k, c, r, s
  half* out;           // n, k, p, q
  unsigned int n, c, h, w;
  unsigned int k, r, s;
  unsigned int u, v;  // stride
  unsigned int p, q;  // padding
  unsigned int Oh, Ow;
} param_t;

__global__ void implgemm_wmma(param_t param) {
  using namespace nvcuda::wmma;
  __shared__ half smem_w[16][16];
  __shared__ half smem_i[16][16];
  __shared__ float smem_o[16][16];
  const unsigned lane = threadIdx.x;
  const unsigned k0 = blockIdx.y * 16;
  const unsigned x0 = blockIdx.x * 16;
  const unsigned z = blockIdx.z;
  const unsigned gemm_k = param.c * param.r * param.s;
  fragment<accumulator, 16, 16, 16, float> acc;
  fill_fragment(acc, 0.0f);
  for (unsigned crs = 0; crs < gemm_k; crs += 16) {
    for (unsigned i = lane; i < 256; i += 32) {
      const unsigned kk = k0 + i / 16, cc = crs + i % 16;
      smem_w[i / 16][i % 16] = kk < param.k && cc < gemm_k ? param.weight[kk * gemm_k + cc] : __float2half(0.f);
    }
    for (unsigned i = lane; i < 256; i += 32) {
      const unsigned cc = crs + i / 16, x = x0 + i % 16;
      half value = __float2half(0.f);
      if (cc < gemm_k && x < param.Oh * param.Ow) {
        const unsigned ic = cc / (param.r * param.s), rs = cc % (param.r * param.s);
        const int ih = (int)(x / param.Ow * param.u + rs / param.s) - (int)param.p;
        const int iw = (int)(x % param.Ow * param.v + rs % param.s) - (int)param.q;
        if (ih >= 0 && iw >= 0 && ih < (int)param.h && iw < (int)param.w)
          value = param.in[((z * param.c + ic) * param.h + ih) * param.w + iw];
      }
      smem_i[i / 16][i % 16] = value;
    }
    __syncwarp();
    fragment<matrix_a, 16, 16, 16, half, row_major> wfrag;
    fragment<matrix_b, 16, 16, 16, half, row_major> ifrag;
    load_matrix_sync(wfrag, smem_w[0], 16);
    load_matrix_sync(ifrag, smem_i[0], 16);
    mma_sync(acc, wfrag, ifrag, acc);
    __syncwarp();
  }
  store_matrix_sync(smem_o[0], acc, 16, mem_row_major);
  __syncwarp();
  for (unsigned i = lane; i < 256; i += 32) {
    const unsigned kk = k0 + i / 16, x = x0 + i % 16;
    if (kk < param.k && x < param.Oh * param.Ow)
      param.out[(z * param.k + kk) * param.Oh * param.Ow + x] = __float2half(smem_o[i / 16][i % 16]);
  }
}

void launch_implgemm(param_t param) {
  param.Oh = (param.h - param.r + 2 * param.p) / param.u + 1;
  param.Ow = (param.w - param.s + 2 * param.q) / param.v + 1;
  dim3 grid((param.Oh * param.Ow + 15) / 16, (param.k + 15) / 16, param.n);
  implgemm_wmma<<<grid, 32>>>(param);
}
