#include <cuda_bf16.h>
#include <mma.h>

// Causal attention in which a query sees itself and the window - 1 keys before it. Q, K, V, O: [heads, seq, 64].
// <<<dim3(seq / 32, heads), 64>>>
extern "C" __global__ void window_attention(const __nv_bfloat16* Q, const __nv_bfloat16* K, const __nv_bfloat16* V,
                                            __nv_bfloat16* O, int seq, int window, float scale) {
  namespace wm = nvcuda::wmma;
  constexpr int D = 64, BQ = 32, BK = 32;
  __shared__ __align__(32) __nv_bfloat16 p[BQ][BK];
  __shared__ __align__(32) float s[BQ][BK];
  __shared__ __align__(32) float acc[BQ][D];
  __shared__ float row_max[BQ], row_sum[BQ];
  const int warp = threadIdx.x / 32;
  const int q0 = blockIdx.x * BQ;
  const size_t head = (size_t)blockIdx.y * seq * D;
  Q += head; K += head; V += head; O += head;

  for (int i = threadIdx.x; i < BQ * D; i += blockDim.x) acc[i / D][i % D] = 0.f;
  if (threadIdx.x < BQ) {
    row_max[threadIdx.x] = -1e30f;
    row_sum[threadIdx.x] = 0.f;
  }
  __syncthreads();

  int first = q0 - window + 1;
  first = first < 0 ? 0 : first / BK * BK;
  for (int k0 = first; k0 <= q0; k0 += BK) {
    for (int n = 0; n < BK; n += 16) {
      wm::fragment<wm::accumulator, 16, 16, 16, float> f;
      wm::fill_fragment(f, 0.f);
      for (int d = 0; d < D; d += 16) {
        wm::fragment<wm::matrix_a, 16, 16, 16, __nv_bfloat16, wm::row_major> a;
        wm::fragment<wm::matrix_b, 16, 16, 16, __nv_bfloat16, wm::col_major> b;
        wm::load_matrix_sync(a, Q + (size_t)(q0 + warp * 16) * D + d, D);
        wm::load_matrix_sync(b, K + (size_t)(k0 + n) * D + d, D);
        wm::mma_sync(f, a, b, f);
      }
      wm::store_matrix_sync(&s[warp * 16][n], f, BK, wm::mem_row_major);
    }
    __syncthreads();
    if (threadIdx.x < BQ) {
      const int r = threadIdx.x, i = q0 + r;
      float m = row_max[r];
      for (int c = 0; c < BK; ++c) {
        const int j = k0 + c;
        s[r][c] = j <= i && j > i - window ? s[r][c] * scale : -INFINITY;
        m = fmaxf(m, s[r][c]);
      }
      const float fix = __expf(row_max[r] - m);
      float sum = 0.f;
      for (int c = 0; c < BK; ++c) {
        const float e = __expf(s[r][c] - m);
        p[r][c] = __float2bfloat16(e);
        sum += e;
      }
      for (int d = 0; d < D; ++d) acc[r][d] *= fix;
      row_sum[r] = row_sum[r] * fix + sum;
      row_max[r] = m;
    }
    __syncthreads();
    for (int d = 0; d < D; d += 16) {
      wm::fragment<wm::accumulator, 16, 16, 16, float> f;
      wm::load_matrix_sync(f, &acc[warp * 16][d], D, wm::mem_row_major);
      for (int n = 0; n < BK; n += 16) {
        wm::fragment<wm::matrix_a, 16, 16, 16, __nv_bfloat16, wm::row_major> a;
        wm::fragment<wm::matrix_b, 16, 16, 16, __nv_bfloat16, wm::row_major> b;
        wm::load_matrix_sync(a, &p[warp * 16][n], BK);
        wm::load_matrix_sync(b, V + (size_t)(k0 + n) * D + d, D);
        wm::mma_sync(f, a, b, f);
      }
      wm::store_matrix_sync(&acc[warp * 16][d], f, D, wm::mem_row_major);
    }
    __syncthreads();
  }
  for (int i = threadIdx.x; i < BQ * D; i += blockDim.x)
    O[(size_t)(q0 + i / D) * D + i % D] = __float2bfloat16(acc[i / D][i % D] / row_sum[i / D]);
}
