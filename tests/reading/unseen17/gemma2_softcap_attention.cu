#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <cmath>

using namespace nvcuda;

// One warp per 16 queries, 16 keys at a time, online softmax. Logits are capped as Gemma 2 does it:
//   s = softcap * tanh(q·k * scale / softcap)
template <int D>
__global__ void softcap_attention_fwd(const half* __restrict__ Q, const half* __restrict__ K, const half* __restrict__ V,
                                      half* __restrict__ O, const int H, const int N, const float scale,
                                      const float softcap) {
  extern __shared__ char smem_raw[];
  float* S = reinterpret_cast<float*>(smem_raw);       // 16 x 16
  half* P = reinterpret_cast<half*>(S + 256);          // 16 x 16
  float* acc = reinterpret_cast<float*>(P + 256);      // 16 x D
  float* tmp = acc + 16 * D;                           // 16 x D
  __shared__ float row_max[16], row_sum[16], row_scale[16];

  const int tid = threadIdx.x;
  const size_t head = (size_t)blockIdx.y * N * D;      // blockIdx.y = b * H + h
  const int q0 = blockIdx.x * 16;
  for (int i = tid; i < 16 * D; i += 32) acc[i] = 0.f;
  if (tid < 16) { row_max[tid] = -INFINITY; row_sum[tid] = 0.f; }
  __syncwarp();

  for (int k0 = 0; k0 <= q0; k0 += 16) {               // causal
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> s_frag;
    wmma::fill_fragment(s_frag, 0.f);
#pragma unroll
    for (int d = 0; d < D; d += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> q_frag;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> k_frag;
      wmma::load_matrix_sync(q_frag, Q + head + (size_t)q0 * D + d, D);
      wmma::load_matrix_sync(k_frag, K + head + (size_t)k0 * D + d, D);
      wmma::mma_sync(s_frag, q_frag, k_frag, s_frag);
    }
    wmma::store_matrix_sync(S, s_frag, 16, wmma::mem_row_major);
    __syncwarp();
    if (tid < 16) {
      float m = row_max[tid];
      for (int j = 0; j < 16; ++j) {
        float s = softcap * tanhf(S[tid * 16 + j] * scale / softcap);
        if (k0 + j > q0 + tid) s = -INFINITY;
        S[tid * 16 + j] = s;
        m = fmaxf(m, s);
      }
      const float correction = expf(row_max[tid] - m);
      float l = row_sum[tid] * correction;
      for (int j = 0; j < 16; ++j) {
        const float p = expf(S[tid * 16 + j] - m);
        l += p;
        P[tid * 16 + j] = __float2half(p);
      }
      row_max[tid] = m;
      row_sum[tid] = l;
      row_scale[tid] = correction;
    }
    __syncwarp();
#pragma unroll
    for (int d = 0; d < D; d += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> p_frag;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> v_frag;
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> o_frag;
      wmma::fill_fragment(o_frag, 0.f);
      wmma::load_matrix_sync(p_frag, P, 16);
      wmma::load_matrix_sync(v_frag, V + head + (size_t)k0 * D + d, D);
      wmma::mma_sync(o_frag, p_frag, v_frag, o_frag);
      wmma::store_matrix_sync(tmp + d, o_frag, D, wmma::mem_row_major);
    }
    __syncwarp();
    for (int i = tid; i < 16 * D; i += 32) acc[i] = acc[i] * row_scale[i / D] + tmp[i];
    __syncwarp();
  }
  for (int i = tid; i < 16 * D; i += 32) O[head + (size_t)q0 * D + i] = __float2half(acc[i] / row_sum[i / D]);
}

torch::Tensor forward(torch::Tensor q, torch::Tensor k, torch::Tensor v, double softcap) {
  TORCH_CHECK(q.scalar_type() == torch::kHalf, "half only");
  const int B = q.size(0), H = q.size(1), N = q.size(2), D = q.size(3);
  auto o = torch::empty_like(q);
  const float scale = 1.0f / std::sqrt((float)D);
  dim3 grid(N / 16, B * H);
  auto launch = [&](auto kernel, int d) {
    const size_t smem = 256 * sizeof(float) + 256 * sizeof(half) + 2 * 16 * d * sizeof(float);
    kernel<<<grid, 32, smem, c10::cuda::getCurrentCUDAStream()>>>(
        reinterpret_cast<half*>(q.data_ptr<at::Half>()), reinterpret_cast<half*>(k.data_ptr<at::Half>()),
        reinterpret_cast<half*>(v.data_ptr<at::Half>()), reinterpret_cast<half*>(o.data_ptr<at::Half>()), H, N, scale,
        (float)softcap);
  };
  if (D == 64) launch(softcap_attention_fwd<64>, 64);
  else if (D == 128) launch(softcap_attention_fwd<128>, 128);
  else TORCH_CHECK(false, "head dimension not supported");
  return o;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "attention with capped logits"); }
