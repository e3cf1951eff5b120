#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>
#include <mma.h>

// Text-to-image cross attention (77 text tokens, thousands of pixels). The whole
// K and V of one head fit into shared memory, so there is no online softmax:
// S and P of a 16-pixel strip are complete.
//
// query [B, Nq, H, 40/64], key/value [B, Nk, H, D], Nk <= 80.

using namespace nvcuda;

template <typename T, int N>
using Acc = torch::PackedTensorAccessor32<T, N, torch::RestrictPtrTraits>;

constexpr int kMaxKeys = 80;            // 77 rounded up to whole tiles
constexpr int kKeyTiles = kMaxKeys / 16;
constexpr int kWarps = 4;

template <int D>
struct CrossSmem {
  static constexpr int ld = D + 8;
  static constexpr int ldp = kMaxKeys + 8;
  half k[kMaxKeys][ld];
  half v[kMaxKeys][ld];
  half q[kWarps][16][ld];
  float s[kWarps][16][ldp];
  half p[kWarps][16][ldp];
};

template <int D>
__global__ void cross_attention_kernel(const Acc<at::Half, 4> query, const Acc<at::Half, 4> key,
                                       const Acc<at::Half, 4> value, Acc<at::Half, 4> output, const float scale) {
  extern __shared__ __align__(128) char raw[];
  auto& sm = *reinterpret_cast<CrossSmem<D>*>(raw);
  const int nq = query.size(1), nk = key.size(1);
  const int b = blockIdx.z, h = blockIdx.y;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

  for (int i = threadIdx.x; i < kMaxKeys * D; i += blockDim.x) {
    const int r = i / D, c = i % D;
    sm.k[r][c] = r < nk ? static_cast<half>(key[b][r][h][c]) : __float2half(0.f);
    sm.v[r][c] = r < nk ? static_cast<half>(value[b][r][h][c]) : __float2half(0.f);
  }
  __syncthreads();

  const int strips = (nq + 15) / 16;
  for (int strip = blockIdx.x * kWarps + warp; strip < strips; strip += gridDim.x * kWarps) {
    const int q0 = strip * 16;
    for (int i = lane; i < 16 * D; i += 32) {
      const int r = i / D, c = i % D;
      sm.q[warp][r][c] = q0 + r < nq ? static_cast<half>(query[b][q0 + r][h][c]) : __float2half(0.f);
    }
    __syncwarp();

    for (int t = 0; t < kKeyTiles; ++t) {
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
      wmma::fill_fragment(acc, 0.f);
#pragma unroll
      for (int d = 0; d < D; d += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
        wmma::load_matrix_sync(fa, &sm.q[warp][0][d], sm.ld);
        wmma::load_matrix_sync(fb, &sm.k[t * 16][d], sm.ld);
        wmma::mma_sync(acc, fa, fb, acc);
      }
      wmma::store_matrix_sync(&sm.s[warp][0][t * 16], acc, sm.ldp, wmma::mem_row_major);
    }
    __syncwarp();

    if (lane < 16) {   // one lane per pixel; 77 keys are few
      const float* s = sm.s[warp][lane];
      float mx = s[0];
      for (int j = 1; j < nk; ++j) mx = fmaxf(mx, s[j]);
      float sum = 0.f;
      for (int j = 0; j < nk; ++j) sum += __expf((s[j] - mx) * scale);
      const float inv = 1.f / sum;
      for (int j = 0; j < kMaxKeys; ++j)
        sm.p[warp][lane][j] = __float2half(j < nk ? __expf((s[j] - mx) * scale) * inv : 0.f);
    }
    __syncwarp();

    for (int n = 0; n < D / 16; ++n) {
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
      wmma::fill_fragment(acc, 0.f);
      for (int t = 0; t < kKeyTiles; ++t) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fp;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fv;
        wmma::load_matrix_sync(fp, &sm.p[warp][0][t * 16], sm.ldp);
        wmma::load_matrix_sync(fv, &sm.v[t * 16][n * 16], sm.ld);
        wmma::mma_sync(acc, fp, fv, acc);
      }
      wmma::store_matrix_sync(&sm.s[warp][0][0], acc, sm.ldp, wmma::mem_row_major);
      __syncwarp();
      for (int i = lane; i < 256; i += 32)
        if (q0 + i / 16 < nq) output[b][q0 + i / 16][h][n * 16 + i % 16] = at::Half(__float2half(sm.s[warp][i / 16][i % 16]));
      __syncwarp();
    }
  }
}

torch::Tensor cross_attention(torch::Tensor query, torch::Tensor key, torch::Tensor value) {
  TORCH_CHECK(query.scalar_type() == torch::kFloat16);
  TORCH_CHECK(key.size(1) <= kMaxKeys, "at most ", kMaxKeys, " keys");
  TORCH_CHECK(query.size(3) == 64 || query.size(3) == 48, "head dim 48 or 64");
  auto output = torch::empty_like(query);
  const float scale = 1.f / std::sqrt(static_cast<float>(query.size(3)));
  const int strips = (query.size(1) + 15) / 16;
  const dim3 grid(std::min<int>((strips + kWarps - 1) / kWarps, 16), query.size(2), query.size(0));
  const auto stream = at::cuda::getCurrentCUDAStream();

#define RUN(DIM)                                                                                                   \
  do {                                                                                                             \
    cudaFuncSetAttribute(cross_attention_kernel<DIM>, cudaFuncAttributeMaxDynamicSharedMemorySize,                 \
                         sizeof(CrossSmem<DIM>));                                                                  \
    cross_attention_kernel<DIM><<<grid, kWarps * 32, sizeof(CrossSmem<DIM>), stream>>>(                            \
        query.packed_accessor32<at::Half, 4, torch::RestrictPtrTraits>(),                                          \
        key.packed_accessor32<at::Half, 4, torch::RestrictPtrTraits>(),                                            \
        value.packed_accessor32<at::Half, 4, torch::RestrictPtrTraits>(),                                          \
        output.packed_accessor32<at::Half, 4, torch::RestrictPtrTraits>(), scale);                                 \
  } while (0)

  if (query.size(3) == 64) RUN(64);
  else RUN(48);
  return output;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("cross_attention", &cross_attention, "cross attention forward"); }
