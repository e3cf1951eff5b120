// Chebyshev graph convolution (ChebNet) of a batch of small dense graphs, e.g. skeletons or molecules padded to <= 64 nodes:
//
//     T_0 = X,  T_1 = L X,  T_k = 2 L T_{k-1} - T_{k-2}
//     Y   = relu( sum_k T_k W_k + b )
//
// L is the scaled Laplacian 2 L / lambda_max - I, dense. One thread block per graph, 8 warps; warp w owns a 16x16 tile of
// every T_k (64 x 32) in FP32 fragments, so the recurrence needs no memory; a BF16 copy in shared memory feeds the products.
#include <cuda_bf16.h>
#include <cuda_pipeline.h>
#include <mma.h>

namespace gnn {

using namespace nvcuda::wmma;
using bf16 = __nv_bfloat16;

template <int Nodes, int Fin, int Fout>
struct ChebShape {
  static constexpr int kNodes = Nodes, kFin = Fin, kFout = Fout;
  static constexpr int kLdL = Nodes + 16;
  static constexpr int kLdT = Fin + 16;
  static constexpr int kLdW = Fout + 16;
  static constexpr int kWarps = (Nodes / 16) * (Fin / 16);
  static_assert(Fin == Fout, "a warp has the same tile of T and of Y");
};

using Acc = fragment<accumulator, 16, 16, 16, float>;

template <class S>
__global__ void __launch_bounds__(S::kWarps * 32)
cheb_forward(const bf16* __restrict__ lap,      // [graphs, n, n]
             const bf16* __restrict__ x,        // [graphs, n, Fin]
             const bf16* __restrict__ weight,   // [K, Fin, Fout]
             const float* __restrict__ bias,    // [Fout]
             float* __restrict__ y,             // [graphs, n, Fout]
             int n, int order)
{
  __shared__ __align__(32) bf16 s_lap[S::kNodes * S::kLdL];
  __shared__ __align__(32) bf16 s_t[S::kNodes * S::kLdT];
  __shared__ __align__(32) bf16 s_w[2][S::kFin * S::kLdW];
  __shared__ __align__(32) float s_scratch[S::kWarps][16 * 16];

  const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31;
  const int row0 = warp / (S::kFin / 16) * 16;
  const int col0 = warp % (S::kFin / 16) * 16;
  const int graph = blockIdx.x;
  float* scratch = s_scratch[warp];

  auto prefetch_w = [&](int k) {
    const bf16* from = weight + (size_t)k * S::kFin * S::kFout;
    bf16* to = s_w[k & 1];
    for (int i = tid; i < S::kFin * S::kFout / 8; i += S::kWarps * 32) {
      const int r = i / (S::kFout / 8), c = i % (S::kFout / 8) * 8;
      __pipeline_memcpy_async(to + r * S::kLdW + c, from + r * S::kFout + c, 16);
    }
    __pipeline_commit();
  };

  // the owned tile as BF16 into the shared T
  auto publish = [&](const Acc& tile) {
    store_matrix_sync(scratch, tile, 16, mem_row_major);
    __syncwarp();
    for (int i = lane; i < 256; i += 32)
      s_t[(row0 + i / 16) * S::kLdT + col0 + i % 16] = __float2bfloat16(scratch[i]);
    __syncwarp();
  };

  prefetch_w(0);

  const bf16* g_lap = lap + (size_t)graph * n * n;
  for (int i = tid; i < S::kNodes * S::kNodes; i += S::kWarps * 32) {
    const int r = i / S::kNodes, c = i % S::kNodes;
    s_lap[r * S::kLdL + c] = r < n && c < n ? g_lap[r * n + c] : __float2bfloat16(0.f);
  }

  // T_0 = X; the warp's own tile is kept in FP32
  const bf16* g_x = x + (size_t)graph * n * S::kFin;
  for (int i = lane; i < 256; i += 32) {
    const int r = row0 + i / 16, c = col0 + i % 16;
    const bf16 v = r < n ? g_x[r * S::kFin + c] : __float2bfloat16(0.f);
    s_t[r * S::kLdT + c] = v;
    scratch[i] = __bfloat162float(v);
  }
  __syncwarp();

  Acc t_prev, t_now, out;
  load_matrix_sync(t_now, scratch, 16, mem_row_major);
  fill_fragment(t_prev, 0.f);
  fill_fragment(out, 0.f);
  __syncwarp();

  for (int k = 0; k < order; ++k) {
    if (k + 1 < order) {
      prefetch_w(k + 1);
      __pipeline_wait_prior(1);
    } else {
      __pipeline_wait_prior(0);
    }
    __syncthreads();

    // Y += T_k W_k
    const bf16* w = s_w[k & 1];
#pragma unroll
    for (int f = 0; f < S::kFin; f += 16) {
      fragment<matrix_a, 16, 16, 16, bf16, row_major> a;
      fragment<matrix_b, 16, 16, 16, bf16, row_major> b;
      load_matrix_sync(a, s_t + row0 * S::kLdT + f, S::kLdT);
      load_matrix_sync(b, w + f * S::kLdW + col0, S::kLdW);
      mma_sync(out, a, b, out);
    }
    if (k + 1 == order) break;

    // T_{k+1} = 2 L T_k - T_{k-1}, the first time without the 2
    Acc prod;
    fill_fragment(prod, 0.f);
#pragma unroll
    for (int j = 0; j < S::kNodes; j += 16) {
      fragment<matrix_a, 16, 16, 16, bf16, row_major> a;
      fragment<matrix_b, 16, 16, 16, bf16, row_major> b;
      load_matrix_sync(a, s_lap + row0 * S::kLdL + j, S::kLdL);
      load_matrix_sync(b, s_t + j * S::kLdT + col0, S::kLdT);
      mma_sync(prod, a, b, prod);
    }
    const float factor = k == 0 ? 1.f : 2.f;
    for (int e = 0; e < prod.num_elements; ++e) {
      const float next = factor * prod.x[e] - (k == 0 ? 0.f : t_prev.x[e]);
      t_prev.x[e] = t_now.x[e];
      t_now.x[e] = next;
    }
    __syncthreads();      // T_k has been read by all
    publish(t_now);
  }

  store_matrix_sync(scratch, out, 16, mem_row_major);
  __syncwarp();
  float* g_y = y + (size_t)graph * n * S::kFout;
  for (int i = lane; i < 256; i += 32) {
    const int r = row0 + i / 16, c = col0 + i % 16;
    if (r < n) g_y[r * S::kFout + c] = fmaxf(scratch[i] + bias[c], 0.f);
  }
}

using Skeleton = ChebShape<64, 32, 32>;
template __global__ void cheb_forward<Skeleton>(const bf16*, const bf16*, const bf16*, const float*, float*, int, int);

}  // namespace gnn
