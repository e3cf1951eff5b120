#include <cuda_fp16.h>
#include <mma.h>
#include <torch/extension.h>
using namespace nvcuda;
template <int HD>
__global__ void attn_qkvpacked(const half* __restrict__ qkv, half* __restrict__ out, int seqlen, int nheads, float scale) {
  constexpr int BM = 16, BN = 16;
  __shared__ __align__(32) half q[BM * HD], kv[BN * HD], p[BM * BN];
  __shared__ __align__(32) float s[BM * BN], o[BM * HD];
  __shared__ float m[BM], l[BM];
  const int b = blockIdx.z, h = blockIdx.y, q0 = blockIdx.x * BM, lane = threadIdx.x;
  const int ld = 3 * nheads * HD;
  const half* base = qkv + (size_t)b * seqlen * ld + h * HD;
  for (int i = lane; i < BM * HD; i += 32) { q[i] = q0 + i / HD < seqlen ? base[(size_t)(q0 + i / HD) * ld + i % HD] : __float2half(0.f); o[i] = 0.f; }
  if (lane < BM) { m[lane] = -1e30f; l[lane] = 0.f; }
  for (int n0 = 0; n0 < seqlen; n0 += BN) {
    __syncwarp();
    for (int i = lane; i < BN * HD; i += 32) kv[i] = n0 + i / HD < seqlen ? base[(size_t)(n0 + i / HD) * ld + nheads * HD + i % HD] : __float2half(0.f);
    __syncwarp();
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.f);
    for (int k = 0; k < HD; k += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> bb;
      wmma::load_matrix_sync(a, q + k, HD);
      wmma::load_matrix_sync(bb, kv + k, HD);
      wmma::mma_sync(acc, a, bb, acc);
    }
    wmma::store_matrix_sync(s, acc, BN, wmma::mem_row_major);
    __syncwarp();
    if (lane < BM) {
      float mx = m[lane];
      for (int c = 0; c < BN; c++) { s[lane * BN + c] = n0 + c < seqlen ? s[lane * BN + c] * scale : -1e30f; mx = fmaxf(mx, s[lane * BN + c]); }
      float f = expf(m[lane] - mx), sum = 0.f;
      for (int c = 0; c < BN; c++) { float e = n0 + c < seqlen ? expf(s[lane * BN + c] - mx) : 0.f; sum += e; p[lane * BN + c] = __float2half(e); }
      l[lane] = l[lane] * f + sum; m[lane] = mx;
      for (int d = 0; d < HD; d++) o[lane * HD + d] *= f;
    }
    __syncwarp();
    for (int i = lane; i < BN * HD; i += 32) kv[i] = n0 + i / HD < seqlen ? base[(size_t)(n0 + i / HD) * ld + 2 * nheads * HD + i % HD] : __float2half(0.f);
    __syncwarp();
    for (int d = 0; d < HD; d += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> bb;
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> oc;
      wmma::load_matrix_sync(oc, o + d, HD, wmma::mem_row_major);
      wmma::load_matrix_sync(a, p, BN);
      wmma::load_matrix_sync(bb, kv + d, HD);
      wmma::mma_sync(oc, a, bb, oc);
      wmma::store_matrix_sync(o + d, oc, HD, wmma::mem_row_major);
    }
  }
  __syncwarp();
  for (int i = lane; i < BM * HD; i += 32)
    if (q0 + i / HD < seqlen) out[((size_t)b * seqlen + q0 + i / HD) * nheads * HD + h * HD + i % HD] = __float2half(o[i] / l[i / HD]);
}
torch::Tensor forward(torch::Tensor qkv) {  // [B, S, 3, H, D]
  const int B = qkv.size(0), S = qkv.size(1), H = qkv.size(3), D = qkv.size(4);
  auto out = torch::empty({B, S, H, D}, qkv.options());
  TORCH_CHECK(D == 64);
  attn_qkvpacked<64><<<dim3((S + 15) / 16, H, B), 32>>>((const half*)qkv.data_ptr<at::Half>(), (half*)out.data_ptr<at::Half>(), S, H, 1.f / sqrtf(D));
  return out;
}
