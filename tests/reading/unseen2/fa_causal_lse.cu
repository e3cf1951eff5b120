#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <cmath>
#include <cstdint>

using namespace nvcuda;

struct FlashFwdParams {
  const half* __restrict__ q_ptr;
  const half* __restrict__ k_ptr;
  const half* __restrict__ v_ptr;
  half* __restrict__ o_ptr;
  float* __restrict__ softmax_lse_ptr;
  int64_t batch_stride, row_stride, head_stride;
  int b, h, seqlen, d;
  float scale_softmax;
};

template <int kHeadDim, int kBlockM, int kBlockN, bool Is_causal>
__global__ void flash_fwd_kernel(const FlashFwdParams params) {
  extern __shared__ char smem_[];
  half* sQ = reinterpret_cast<half*>(smem_);
  half* sKV = sQ + kBlockM * kHeadDim;
  float* sS = reinterpret_cast<float*>(sKV + kBlockN * kHeadDim);
  half* sP = reinterpret_cast<half*>(sS + kBlockM * kBlockN);
  float* sO = reinterpret_cast<float*>(sP + kBlockM * kBlockN);
  float* sAcc = sO + kBlockM * kHeadDim;
  const int m_block = blockIdx.x, bidb = blockIdx.y, bidh = blockIdx.z;
  const int tid = threadIdx.x, warp = tid / 32;
  const int64_t base = bidb * params.batch_stride + bidh * params.head_stride;
  for (int i = tid; i < kBlockM * kHeadDim; i += blockDim.x) {
    int row = m_block * kBlockM + i / kHeadDim;
    sQ[i] = row < params.seqlen ? params.q_ptr[base + row * params.row_stride + i % kHeadDim] : __float2half(0.f);
    sO[i] = 0.f;
  }
  float m_i = -INFINITY, l_i = 0.f;  // one row per thread, kBlockM threads
  int n_blocks = (params.seqlen + kBlockN - 1) / kBlockN;
  if (Is_causal) n_blocks = min(n_blocks, ((m_block + 1) * kBlockM + kBlockN - 1) / kBlockN);
  for (int nb = 0; nb < n_blocks; ++nb) {
    __syncthreads();
    for (int i = tid; i < kBlockN * kHeadDim; i += blockDim.x) {
      int row = nb * kBlockN + i / kHeadDim;
      sKV[i] = row < params.seqlen ? params.k_ptr[base + row * params.row_stride + i % kHeadDim] : __float2half(0.f);
    }
    __syncthreads();
    for (int j = 0; j < kBlockN / 16; ++j) {
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> s;
      wmma::fill_fragment(s, 0.f);
      for (int kk = 0; kk < kHeadDim / 16; ++kk) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
        wmma::load_matrix_sync(a, sQ + warp * 16 * kHeadDim + kk * 16, kHeadDim);
        wmma::load_matrix_sync(b, sKV + j * 16 * kHeadDim + kk * 16, kHeadDim);
        wmma::mma_sync(s, a, b, s);
      }
      wmma::store_matrix_sync(sS + warp * 16 * kBlockN + j * 16, s, kBlockN, wmma::mem_row_major);
    }
    __syncthreads();
    if (tid < kBlockM) {
      const int row = m_block * kBlockM + tid;
      float m_new = m_i;
      for (int c = 0; c < kBlockN; ++c) {
        const int col = nb * kBlockN + c;
        float s = sS[tid * kBlockN + c] * params.scale_softmax;
        if (col >= params.seqlen || (Is_causal && col > row)) s = -INFINITY;
        sS[tid * kBlockN + c] = s;
        m_new = fmaxf(m_new, s);
      }
      const float corr = m_i == -INFINITY ? 0.f : __expf(m_i - m_new);
      float sum = 0.f;
      for (int c = 0; c < kBlockN; ++c) {
        const float p = m_new == -INFINITY ? 0.f : __expf(sS[tid * kBlockN + c] - m_new);
        sum += p;
        sP[tid * kBlockN + c] = __float2half(p);
      }
      l_i = l_i * corr + sum;
      m_i = m_new;
      for (int c = 0; c < kHeadDim; ++c) sO[tid * kHeadDim + c] *= corr;
    }
    __syncthreads();
    for (int i = tid; i < kBlockN * kHeadDim; i += blockDim.x) {
      int row = nb * kBlockN + i / kHeadDim;
      sKV[i] = row < params.seqlen ? params.v_ptr[base + row * params.row_stride + i % kHeadDim] : __float2half(0.f);
    }
    __syncthreads();
    for (int j = 0; j < kHeadDim / 16; ++j) {
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> o;
      wmma::load_matrix_sync(o, sO + warp * 16 * kHeadDim + j * 16, kHeadDim, wmma::mem_row_major);
      for (int kk = 0; kk < kBlockN / 16; ++kk) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
        wmma::load_matrix_sync(a, sP + warp * 16 * kBlockN + kk * 16, kBlockN);
        wmma::load_matrix_sync(b, sKV + kk * 16 * kHeadDim + j * 16, kHeadDim);
        wmma::mma_sync(o, a, b, o);
      }
      wmma::store_matrix_sync(sO + warp * 16 * kHeadDim + j * 16, o, kHeadDim, wmma::mem_row_major);
    }
  }
  __syncthreads();
  if (tid < kBlockM) {
    const int row = m_block * kBlockM + tid;
    if (row < params.seqlen) {
      for (int c = 0; c < kHeadDim; ++c)
        params.o_ptr[base + row * params.row_stride + c] = __float2half(sO[tid * kHeadDim + c] / l_i);
      params.softmax_lse_ptr[(bidb * params.h + bidh) * params.seqlen + row] = m_i + logf(l_i);
    }
  }
}

#define BOOL_SWITCH(COND, CONST_NAME, ...)        \
  [&] {                                           \
    if (COND) {                                   \
      constexpr static bool CONST_NAME = true;    \
      return __VA_ARGS__();                       \
    } else {                                      \
      constexpr static bool CONST_NAME = false;   \
      return __VA_ARGS__();                       \
    }                                             \
  }()

template <int kHeadDim>
void run_flash_fwd(FlashFwdParams& params, bool is_causal, cudaStream_t stream) {
  constexpr int kBlockM = 64, kBlockN = 32;
  const int smem = kBlockM * kHeadDim * 2 + kBlockN * kHeadDim * 2 + kBlockM * kBlockN * 4 + kBlockM * kBlockN * 2 +
                   kBlockM * kHeadDim * 4;
  dim3 grid((params.seqlen + kBlockM - 1) / kBlockM, params.b, params.h);
  BOOL_SWITCH(is_causal, Is_causal, [&] {
    auto kernel = &flash_fwd_kernel<kHeadDim, kBlockM, kBlockN, Is_causal>;
    if (smem >= 48 * 1024) cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem);
    kernel<<<grid, 128, smem, stream>>>(params);
  });
}

void mha_fwd(const half* q, const half* k, const half* v, half* o, float* lse, int b, int seqlen, int h, int d,
             float scale, bool causal, cudaStream_t stream) {
  FlashFwdParams params{};
  params.q_ptr = q;
  params.k_ptr = k;
  params.v_ptr = v;
  params.o_ptr = o;
  params.softmax_lse_ptr = lse;
  params.b = b;
  params.h = h;
  params.seqlen = seqlen;
  params.d = d;
  params.head_stride = d;
  params.row_stride = h * d;
  params.batch_stride = (int64_t)seqlen * h * d;
  params.scale_softmax = scale;
  if (d == 64) run_flash_fwd<64>(params, causal, stream);
  else if (d == 128) run_flash_fwd<128>(params, causal, stream);
}
