// Flash-Attention forward for Turing / Volta class GPUs with the WMMA API.
// (mma.sync layouts are undocumented on sm_70, so everything goes through shared memory.)
//
// q:   (B, Hq,  Nq, D) half, contiguous
// k,v: (B, Hkv, Nk, D) half, contiguous, Hq % Hkv == 0  (MHA / GQA / MQA)
// out: (B, Hq,  Nq, D) half,  lse: (B, Hq, Nq) float
// D is 64 or 128. With causal = true the mask is aligned to the bottom right
// corner, like flash-attn >= 2.1 (query i sees keys j <= i + Nk - Nq), Nk >= Nq.

#include <torch/extension.h>
#include <c10/cuda/CUDAGuard.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <tuple>

namespace wm = nvcuda::wmma;

constexpr int kBr = 64;       // query rows of a block
constexpr int kBc = 64;       // keys of a step
constexpr int kWarps = 4;     // a warp owns 16 query rows
constexpr int kThreads = kWarps * 32;
constexpr int kPadH = 8;      // halves
constexpr int kPadF = 4;      // floats

template <int D>
struct SmemLayout {
  static constexpr int ld_qkv = D + kPadH;
  static constexpr int ld_s = kBc + kPadF;
  static constexpr int ld_p = kBc + kPadH;
  static constexpr int ld_o = D + kPadF;
  static constexpr size_t q_bytes = sizeof(half) * kBr * ld_qkv;
  static constexpr size_t kv_bytes = sizeof(half) * kBc * ld_qkv;
  static constexpr size_t s_bytes = sizeof(float) * kBr * ld_s;
  static constexpr size_t p_bytes = sizeof(half) * kBr * ld_p;
  static constexpr size_t o_bytes = sizeof(float) * kBr * ld_o;
  static constexpr size_t total = q_bytes + kv_bytes + s_bytes + p_bytes + o_bytes;
};

// copies `rows` rows of D halves; rows at or past `valid` become zero
template <int D>
__device__ __forceinline__ void load_rows(half* dst, const half* src, int rows, int valid) {
  constexpr int kVec = 8;
  constexpr int kPerRow = D / kVec;
  for (int i = threadIdx.x; i < rows * kPerRow; i += kThreads) {
    const int r = i / kPerRow;
    const int c = (i % kPerRow) * kVec;
    uint4 v = make_uint4(0u, 0u, 0u, 0u);
    if (r < valid) v = *reinterpret_cast<const uint4*>(src + (int64_t)r * D + c);
    *reinterpret_cast<uint4*>(dst + r * SmemLayout<D>::ld_qkv + c) = v;
  }
}

template <int D, bool kCausal>
__global__ void __launch_bounds__(kThreads)
flash_fwd_wmma_kernel(const half* __restrict__ q, const half* __restrict__ k,
                      const half* __restrict__ v, half* __restrict__ out,
                      float* __restrict__ lse, int Hq, int Hkv, int Nq, int Nk, float scale) {
  using L = SmemLayout<D>;
  extern __shared__ __align__(128) unsigned char smem_raw[];
  half* sQ = reinterpret_cast<half*>(smem_raw);
  half* sKV = reinterpret_cast<half*>(smem_raw + L::q_bytes);
  float* sS = reinterpret_cast<float*>(smem_raw + L::q_bytes + L::kv_bytes);
  half* sP = reinterpret_cast<half*>(smem_raw + L::q_bytes + L::kv_bytes + L::s_bytes);
  float* sO = reinterpret_cast<float*>(smem_raw + L::q_bytes + L::kv_bytes + L::s_bytes + L::p_bytes);

  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int q0 = blockIdx.x * kBr;
  const int h = blockIdx.y;
  const int b = blockIdx.z;
  const int hk = h / (Hq / Hkv);

  const half* qp = q + ((int64_t)(b * Hq + h) * Nq + q0) * D;
  const half* kp = k + (int64_t)(b * Hkv + hk) * Nk * D;
  const half* vp = v + (int64_t)(b * Hkv + hk) * Nk * D;

  load_rows<D>(sQ, qp, kBr, Nq - q0);
  for (int i = threadIdx.x; i < kBr * L::ld_o; i += kThreads) sO[i] = 0.f;

  // two lanes work on one row of the 16 of this warp
  const int row = warp * 16 + lane / 2;
  const int half_id = lane % 2;
  const int offset = Nk - Nq;   // for the causal mask
  float m_i = -INFINITY;
  float l_i = 0.f;

  int n_end = Nk;
  if (kCausal) n_end = min(Nk, q0 + kBr + offset);

  for (int n0 = 0; n0 < n_end; n0 += kBc) {
    __syncthreads();   // everybody is done with the last V tile
    load_rows<D>(sKV, kp + (int64_t)n0 * D, kBc, Nk - n0);
    __syncthreads();

    // S = Q K^T  (16 x 64 for each warp)
    {
      wm::fragment<wm::accumulator, 16, 16, 16, float> acc[kBc / 16];
#pragma unroll
      for (int j = 0; j < kBc / 16; ++j) wm::fill_fragment(acc[j], 0.f);
#pragma unroll
      for (int kk = 0; kk < D; kk += 16) {
        wm::fragment<wm::matrix_a, 16, 16, 16, half, wm::row_major> fa;
        wm::load_matrix_sync(fa, sQ + warp * 16 * L::ld_qkv + kk, L::ld_qkv);
#pragma unroll
        for (int j = 0; j < kBc / 16; ++j) {
          wm::fragment<wm::matrix_b, 16, 16, 16, half, wm::col_major> fb;
          wm::load_matrix_sync(fb, sKV + j * 16 * L::ld_qkv + kk, L::ld_qkv);
          wm::mma_sync(acc[j], fa, fb, acc[j]);
        }
      }
#pragma unroll
      for (int j = 0; j < kBc / 16; ++j)
        wm::store_matrix_sync(sS + warp * 16 * L::ld_s + j * 16, acc[j], L::ld_s, wm::mem_row_major);
    }
    __syncthreads();   // all warps have read K, V can take its place

    load_rows<D>(sKV, vp + (int64_t)n0 * D, kBc, Nk - n0);

    // online softmax on the rows of this warp
    {
      float* s_row = sS + row * L::ld_s;
      half* p_row = sP + row * L::ld_p;
      const int limit = kCausal ? min(Nk, q0 + row + offset + 1) : Nk;   // keys below are visible

      float m_new = m_i;
      for (int c = half_id; c < kBc; c += 2) {
        const float s = (n0 + c < limit) ? s_row[c] * scale : -INFINITY;
        s_row[c] = s;
        m_new = fmaxf(m_new, s);
      }
      m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffffu, m_new, 1));

      float l_new = 0.f;
      for (int c = half_id; c < kBc; c += 2) {
        const float p = __expf(s_row[c] - m_new);
        p_row[c] = __float2half(p);
        l_new += p;
      }
      l_new += __shfl_xor_sync(0xffffffffu, l_new, 1);

      const float alpha = __expf(m_i - m_new);
      l_i = l_i * alpha + l_new;
      m_i = m_new;

      float* o_row = sO + row * L::ld_o;
      for (int c = half_id; c < D; c += 2) o_row[c] *= alpha;
    }
    __syncthreads();   // V has arrived, P and O are visible to the whole warp

    // O += P V
#pragma unroll
    for (int j = 0; j < D / 16; ++j) {
      wm::fragment<wm::accumulator, 16, 16, 16, float> acc;
      float* o_tile = sO + warp * 16 * L::ld_o + j * 16;
      wm::load_matrix_sync(acc, o_tile, L::ld_o, wm::mem_row_major);
#pragma unroll
      for (int kk = 0; kk < kBc; kk += 16) {
        wm::fragment<wm::matrix_a, 16, 16, 16, half, wm::row_major> fp;
        wm::fragment<wm::matrix_b, 16, 16, 16, half, wm::row_major> fv;
        wm::load_matrix_sync(fp, sP + warp * 16 * L::ld_p + kk, L::ld_p);
        wm::load_matrix_sync(fv, sKV + kk * L::ld_qkv + j * 16, L::ld_qkv);
        wm::mma_sync(acc, fp, fv, acc);
      }
      wm::store_matrix_sync(o_tile, acc, L::ld_o, wm::mem_row_major);
    }
  }
  __syncwarp();

  if (q0 + row < Nq) {
    const float inv = 1.f / l_i;
    const float* o_row = sO + row * L::ld_o;
    half* dst = out + ((int64_t)(b * Hq + h) * Nq + q0 + row) * D;
    for (int c = half_id; c < D; c += 2) dst[c] = __float2half(o_row[c] * inv);
    if (half_id == 0) lse[(int64_t)(b * Hq + h) * Nq + q0 + row] = m_i + logf(l_i);
  }
}

template <int D, bool kCausal>
static void launch(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                   torch::Tensor& out, torch::Tensor& lse, float scale) {
  const int B = q.size(0), Hq = q.size(1), Nq = q.size(2);
  const int Hkv = k.size(1), Nk = k.size(2);
  const size_t smem = SmemLayout<D>::total;
  auto kernel = flash_fwd_wmma_kernel<D, kCausal>;
  AT_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)smem));
  dim3 grid((Nq + kBr - 1) / kBr, Hq, B);
  kernel<<<grid, kThreads, smem, at::cuda::getCurrentCUDAStream()>>>(
      reinterpret_cast<const half*>(q.data_ptr<at::Half>()),
      reinterpret_cast<const half*>(k.data_ptr<at::Half>()),
      reinterpret_cast<const half*>(v.data_ptr<at::Half>()),
      reinterpret_cast<half*>(out.data_ptr<at::Half>()),
      lse.data_ptr<float>(), Hq, Hkv, Nq, Nk, scale);
  AT_CUDA_CHECK(cudaGetLastError());
}

std::tuple<torch::Tensor, torch::Tensor> flash_forward(torch::Tensor q, torch::Tensor k,
                                                       torch::Tensor v, double scale, bool causal) {
  TORCH_CHECK(q.is_cuda() && k.is_cuda() && v.is_cuda(), "CUDA tensors expected");
  TORCH_CHECK(q.scalar_type() == at::kHalf && k.scalar_type() == at::kHalf && v.scalar_type() == at::kHalf);
  TORCH_CHECK(q.is_contiguous() && k.is_contiguous() && v.is_contiguous());
  TORCH_CHECK(q.size(1) % k.size(1) == 0, "number of query heads must be a multiple of kv heads");
  TORCH_CHECK(k.size(2) > 0, "no keys");
  TORCH_CHECK(!causal || k.size(2) >= q.size(2), "causal needs Nk >= Nq");
  const c10::cuda::CUDAGuard guard(q.device());
  auto out = torch::empty_like(q);
  auto lse = torch::empty({q.size(0), q.size(1), q.size(2)}, q.options().dtype(at::kFloat));
  const float s = static_cast<float>(scale);
  const int64_t d = q.size(3);
  if (d == 64) {
    causal ? launch<64, true>(q, k, v, out, lse, s) : launch<64, false>(q, k, v, out, lse, s);
  } else if (d == 128) {
    causal ? launch<128, true>(q, k, v, out, lse, s) : launch<128, false>(q, k, v, out, lse, s);
  } else {
    TORCH_CHECK(false, "head dim ", d, " not supported");
  }
  return {out, lse};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &flash_forward, "flash attention forward (WMMA)", py::arg("q"), py::arg("k"),
        py::arg("v"), py::arg("scale"), py::arg("causal") = false);
}
