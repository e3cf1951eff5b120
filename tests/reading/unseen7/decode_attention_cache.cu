#include <cuda_fp16.h>
#include <cuda_runtime.h>

// One new query per sequence against a contiguous cache.
// q [B, H, D], k_cache / v_cache [B, max_seq, Hkv, D], out [B, H, D]; block: one warp per (head, batch)
template <int D>
__global__ void decode_attn_kernel(const half* q, const half* k_cache, const half* v_cache, const int* seq_lens, half* out,
                                   int H, int Hkv, int max_seq, float scale) {
  const int h = blockIdx.x, b = blockIdx.y, lane = threadIdx.x;
  constexpr int E = D / 32;
  const int hk = h / (H / Hkv);
  const int len = seq_lens[b];
  float qr[E], acc[E];
  for (int e = 0; e < E; ++e) {
    qr[e] = __half2float(q[(b * H + h) * D + lane + 32 * e]) * scale;
    acc[e] = 0.f;
  }
  float m = -1e30f, l = 0.f;
  for (int t = 0; t < len; ++t) {
    const size_t row = (((size_t)b * max_seq + t) * Hkv + hk) * D;
    float s = 0.f;
    for (int e = 0; e < E; ++e) s += qr[e] * __half2float(k_cache[row + lane + 32 * e]);
    for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
    const float m_new = fmaxf(m, s), corr = __expf(m - m_new), p = __expf(s - m_new);
    l = l * corr + p;
    for (int e = 0; e < E; ++e) acc[e] = acc[e] * corr + p * __half2float(v_cache[row + lane + 32 * e]);
    m = m_new;
  }
  for (int e = 0; e < E; ++e) out[(b * H + h) * D + lane + 32 * e] = __float2half(acc[e] / l);
}

void decode_attention(const half* q, const half* k_cache, const half* v_cache, const int* seq_lens, half* out, int B, int H,
                      int Hkv, int max_seq, int D, float scale, cudaStream_t st) {
  dim3 grid(H, B);
  if (D == 128) decode_attn_kernel<128><<<grid, 32, 0, st>>>(q, k_cache, v_cache, seq_lens, out, H, Hkv, max_seq, scale);
  if (D == 64) decode_attn_kernel<64><<<grid, 32, 0, st>>>(q, k_cache, v_cache, seq_lens, out, H, Hkv, max_seq, scale);
}
