#include <torch/extension.h>
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/util/Half.h>
#include <cuda_fp16.h>
#include <mma.h>

#define CHECK_CUDA(x) TORCH_CHECK(x.device().is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) CHECK_CUDA(x); CHECK_CONTIGUOUS(x)

constexpr int TILE_Q = 16;
constexpr int TILE_K = 64;
constexpr int kWarps = 4;

// One block per 16 query rows. Scores of the 16 x 64 tile live in shared memory; every warp computes one
// 16 x 16 piece of them, and HEAD_DIM / 4 columns of the output.
template <typename scalar_t, int HEAD_DIM>
__global__ void wmma_attention_forward(
    const torch::PackedTensorAccessor32<scalar_t, 4, torch::RestrictPtrTraits> q,
    const torch::PackedTensorAccessor32<scalar_t, 4, torch::RestrictPtrTraits> k,
    const torch::PackedTensorAccessor32<scalar_t, 4, torch::RestrictPtrTraits> v,
    torch::PackedTensorAccessor32<scalar_t, 4, torch::RestrictPtrTraits> out,
    const float scale, const bool is_causal) {
  using namespace nvcuda::wmma;
  __shared__ __align__(32) half q_tile[TILE_Q][HEAD_DIM + 16];
  __shared__ __align__(32) half kv_tile[TILE_K][HEAD_DIM + 16];
  __shared__ __align__(32) float s_tile[TILE_Q][TILE_K + 8];
  __shared__ __align__(32) half p_tile[TILE_Q][TILE_K + 16];
  __shared__ __align__(32) float o_tile[TILE_Q][HEAD_DIM + 8];
  __shared__ float row_max[TILE_Q], row_sum[TILE_Q], row_fac[TILE_Q];

  const int b = blockIdx.z;
  const int h = blockIdx.y;
  const int q0 = blockIdx.x * TILE_Q;
  const int seqlen_q = q.size(2);
  const int seqlen_k = k.size(2);
  const int tid = threadIdx.x;
  const int warp = tid >> 5;

  for (int e = tid; e < TILE_Q * HEAD_DIM; e += blockDim.x) {
    const int r = e / HEAD_DIM, c = e % HEAD_DIM;
    q_tile[r][c] = q0 + r < seqlen_q ? static_cast<half>(q[b][h][q0 + r][c]) : __float2half(0.f);
    o_tile[r][c] = 0.f;
  }
  if (tid < TILE_Q) {
    row_max[tid] = -1e30f;
    row_sum[tid] = 0.f;
  }
  __syncthreads();

  const int last = is_causal ? min(seqlen_k, q0 + TILE_Q) : seqlen_k;
  for (int k0 = 0; k0 < last; k0 += TILE_K) {
    for (int e = tid; e < TILE_K * HEAD_DIM; e += blockDim.x) {
      const int r = e / HEAD_DIM, c = e % HEAD_DIM;
      kv_tile[r][c] = k0 + r < seqlen_k ? static_cast<half>(k[b][h][k0 + r][c]) : __float2half(0.f);
    }
    __syncthreads();

    {
      fragment<accumulator, 16, 16, 16, float> s_frag;
      fill_fragment(s_frag, 0.0f);
#pragma unroll
      for (int d = 0; d < HEAD_DIM; d += 16) {
        fragment<matrix_a, 16, 16, 16, half, row_major> q_frag;
        fragment<matrix_b, 16, 16, 16, half, col_major> k_frag;
        load_matrix_sync(q_frag, &q_tile[0][d], HEAD_DIM + 16);
        load_matrix_sync(k_frag, &kv_tile[warp * 16][d], HEAD_DIM + 16);
        mma_sync(s_frag, q_frag, k_frag, s_frag);
      }
      store_matrix_sync(&s_tile[0][warp * 16], s_frag, TILE_K + 8, mem_row_major);
    }
    __syncthreads();

    // V takes K's place
    for (int e = tid; e < TILE_K * HEAD_DIM; e += blockDim.x) {
      const int r = e / HEAD_DIM, c = e % HEAD_DIM;
      kv_tile[r][c] = k0 + r < seqlen_k ? static_cast<half>(v[b][h][k0 + r][c]) : __float2half(0.f);
    }
    // eight threads per row
    {
      const int r = tid >> 3, sub = tid & 7;
      float m = row_max[r];
      const float m_old = m;
      for (int c = sub; c < TILE_K; c += 8) {
        const int key = k0 + c;
        float x = s_tile[r][c] * scale;
        if (key >= seqlen_k || (is_causal && key > q0 + r)) x = -1e30f;
        s_tile[r][c] = x;
        m = fmaxf(m, x);
      }
      for (int off = 4; off; off >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, off, 8));
      float l = 0.f;
      for (int c = sub; c < TILE_K; c += 8) {
        const float p = s_tile[r][c] <= -1e30f ? 0.f : __expf(s_tile[r][c] - m);
        l += p;
        p_tile[r][c] = __float2half(p);
      }
      for (int off = 4; off; off >>= 1) l += __shfl_xor_sync(0xffffffffu, l, off, 8);
      if (sub == 0) {
        const float f = __expf(m_old - m);
        row_fac[r] = f;
        row_sum[r] = row_sum[r] * f + l;
        row_max[r] = m;
      }
    }
    __syncthreads();
    for (int e = tid; e < TILE_Q * HEAD_DIM; e += blockDim.x)
      o_tile[e / HEAD_DIM][e % HEAD_DIM] *= row_fac[e / HEAD_DIM];
    __syncthreads();

    for (int n = warp * 16; n < HEAD_DIM; n += kWarps * 16) {
      fragment<accumulator, 16, 16, 16, float> o_frag;
      load_matrix_sync(o_frag, &o_tile[0][n], HEAD_DIM + 8, mem_row_major);
#pragma unroll
      for (int kk = 0; kk < TILE_K; kk += 16) {
        fragment<matrix_a, 16, 16, 16, half, row_major> p_frag;
        fragment<matrix_b, 16, 16, 16, half, row_major> v_frag;
        load_matrix_sync(p_frag, &p_tile[0][kk], TILE_K + 16);
        load_matrix_sync(v_frag, &kv_tile[kk][n], HEAD_DIM + 16);
        mma_sync(o_frag, p_frag, v_frag, o_frag);
      }
      store_matrix_sync(&o_tile[0][n], o_frag, HEAD_DIM + 8, mem_row_major);
    }
    __syncthreads();
  }

  for (int e = tid; e < TILE_Q * HEAD_DIM; e += blockDim.x) {
    const int r = e / HEAD_DIM, c = e % HEAD_DIM;
    if (q0 + r < seqlen_q) out[b][h][q0 + r][c] = static_cast<scalar_t>(o_tile[r][c] / row_sum[r]);
  }
}

at::Tensor attention_forward(at::Tensor q, at::Tensor k, at::Tensor v, bool is_causal) {
  CHECK_INPUT(q);
  CHECK_INPUT(k);
  CHECK_INPUT(v);
  TORCH_CHECK(q.scalar_type() == at::ScalarType::Half, "only half");
  const at::cuda::OptionalCUDAGuard device_guard(device_of(q));
  auto out = torch::empty_like(q);
  const int head_dim = q.size(3);
  const dim3 grid((q.size(2) + TILE_Q - 1) / TILE_Q, q.size(1), q.size(0));
  const float scale = 1.f / std::sqrt(static_cast<float>(head_dim));
  auto stream = at::cuda::getCurrentCUDAStream().stream();

  AT_DISPATCH_FLOATING_TYPES_AND_HALF(q.scalar_type(), "attention_forward", ([&] {
    switch (head_dim) {
      case 32:
        wmma_attention_forward<scalar_t, 32><<<grid, kWarps * 32, 0, stream>>>(
            q.packed_accessor32<scalar_t, 4, torch::RestrictPtrTraits>(),
            k.packed_accessor32<scalar_t, 4, torch::RestrictPtrTraits>(),
            v.packed_accessor32<scalar_t, 4, torch::RestrictPtrTraits>(),
            out.packed_accessor32<scalar_t, 4, torch::RestrictPtrTraits>(), scale, is_causal);
        break;
      case 64:
        wmma_attention_forward<scalar_t, 64><<<grid, kWarps * 32, 0, stream>>>(
            q.packed_accessor32<scalar_t, 4, torch::RestrictPtrTraits>(),
            k.packed_accessor32<scalar_t, 4, torch::RestrictPtrTraits>(),
            v.packed_accessor32<scalar_t, 4, torch::RestrictPtrTraits>(),
            out.packed_accessor32<scalar_t, 4, torch::RestrictPtrTraits>(), scale, is_causal);
        break;
      default:
        TORCH_CHECK(false, "head_dim ", head_dim, " is not supported");
    }
  }));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", torch::wrap_pybind_function(attention_forward), "attention forward",
        py::arg("q"), py::arg("k"), py::arg("v"), py::arg("is_causal") = false);
}
