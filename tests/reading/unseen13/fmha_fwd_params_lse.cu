#include <cuda_fp16.h>
#include <mma.h>
#include <math_constants.h>

namespace fmha {

struct Params {
  half *__restrict__ q_ptr, *__restrict__ k_ptr, *__restrict__ v_ptr, *__restrict__ o_ptr;
  float* __restrict__ softmax_lse_ptr;  // [b, h, seqlen_q]
  int q_batch_stride, k_batch_stride, v_batch_stride, o_batch_stride;
  int q_row_stride, k_row_stride, v_row_stride, o_row_stride;
  int q_head_stride, k_head_stride, v_head_stride, o_head_stride;
  int b, h, seqlen_q, seqlen_k;
  float scale_softmax;
  bool is_causal;
};

template <int kBlockM, int kBlockN, int kHeadDim, bool Is_causal>
__global__ void fmha_fwd_kernel(const Params params) {
  using namespace nvcuda;
  constexpr int kWarps = kBlockM / 16;
  __shared__ __align__(32) float S[kBlockM][kBlockN + 4];
  __shared__ __align__(32) half P[kBlockM][kBlockN + 8];
  __shared__ __align__(32) float O[kBlockM][kHeadDim + 4];
  __shared__ float M[kBlockM], L[kBlockM];

  const int m_block = blockIdx.x, bidb = blockIdx.y, bidh = blockIdx.z;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const half* q = params.q_ptr + bidb * params.q_batch_stride + bidh * params.q_head_stride + (m_block * kBlockM + warp * 16) * params.q_row_stride;
  const half* k = params.k_ptr + bidb * params.k_batch_stride + bidh * params.k_head_stride;
  const half* v = params.v_ptr + bidb * params.v_batch_stride + bidh * params.v_head_stride;

  for (int i = threadIdx.x; i < kBlockM * kHeadDim; i += kWarps * 32) O[i / kHeadDim][i % kHeadDim] = 0.f;
  for (int i = threadIdx.x; i < kBlockM; i += kWarps * 32) {
    M[i] = -CUDART_INF_F;
    L[i] = 0.f;
  }
  __syncthreads();

  int n_blocks = params.seqlen_k / kBlockN;
  if (Is_causal) n_blocks = min(n_blocks, ((m_block + 1) * kBlockM + kBlockN - 1) / kBlockN);
  for (int n = 0; n < n_blocks; ++n) {
    for (int j = 0; j < kBlockN; j += 16) {
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
      wmma::fill_fragment(acc, 0.f);
      for (int d = 0; d < kHeadDim; d += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fq;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fk;
        wmma::load_matrix_sync(fq, q + d, params.q_row_stride);
        wmma::load_matrix_sync(fk, k + (n * kBlockN + j) * params.k_row_stride + d, params.k_row_stride);
        wmma::mma_sync(acc, fq, fk, acc);
      }
      wmma::store_matrix_sync(&S[warp * 16][j], acc, kBlockN + 4, wmma::mem_row_major);
    }
    __syncwarp();
    for (int r = warp * 16; r < warp * 16 + 16; ++r) {
      const int row = m_block * kBlockM + r;
      float mx = M[r];
      for (int c = lane; c < kBlockN; c += 32) {
        float s = S[r][c] * params.scale_softmax;
        if (Is_causal && n * kBlockN + c > row) s = -CUDART_INF_F;
        S[r][c] = s;
        mx = fmaxf(mx, s);
      }
      for (int o = 16; o > 0; o >>= 1) mx = fmaxf(mx, __shfl_xor_sync(0xffffffffu, mx, o));
      const float old = __expf(M[r] - mx);
      float sum = 0.f;
      for (int c = lane; c < kBlockN; c += 32) {
        const float p = __expf(S[r][c] - mx);
        P[r][c] = __float2half(p);
        sum += p;
      }
      for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
      for (int c = lane; c < kHeadDim; c += 32) O[r][c] *= old;
      __syncwarp();
      if (lane == 0) {
        L[r] = L[r] * old + sum;
        M[r] = mx;
      }
      __syncwarp();
    }
    for (int d = 0; d < kHeadDim; d += 16) {
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
      wmma::load_matrix_sync(acc, &O[warp * 16][d], kHeadDim + 4, wmma::mem_row_major);
      for (int j = 0; j < kBlockN; j += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fp;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fv;
        wmma::load_matrix_sync(fp, &P[warp * 16][j], kBlockN + 8);
        wmma::load_matrix_sync(fv, v + (n * kBlockN + j) * params.v_row_stride + d, params.v_row_stride);
        wmma::mma_sync(acc, fp, fv, acc);
      }
      wmma::store_matrix_sync(&O[warp * 16][d], acc, kHeadDim + 4, wmma::mem_row_major);
    }
    __syncwarp();
  }

  half* o = params.o_ptr + bidb * params.o_batch_stride + bidh * params.o_head_stride;
  for (int r = warp * 16; r < warp * 16 + 16; ++r) {
    const int row = m_block * kBlockM + r;
    for (int c = lane; c < kHeadDim; c += 32) o[row * params.o_row_stride + c] = __float2half(O[r][c] / L[r]);
    if (lane == 0) params.softmax_lse_ptr[(bidb * params.h + bidh) * params.seqlen_q + row] = M[r] + __logf(L[r]);
  }
}

#define BOOL_SWITCH(COND, CONST_NAME, ...)      \
  [&] {                                         \
    if (COND) {                                 \
      constexpr static bool CONST_NAME = true;  \
      return __VA_ARGS__();                     \
    } else {                                    \
      constexpr static bool CONST_NAME = false; \
      return __VA_ARGS__();                     \
    }                                           \
  }()

template <int kHeadDim>
void run_fmha_fwd(Params& params, cudaStream_t stream) {
  constexpr int kBlockM = 64, kBlockN = 64;
  dim3 grid((params.seqlen_q + kBlockM - 1) / kBlockM, params.b, params.h);
  BOOL_SWITCH(params.is_causal, Is_causal, [&] {
    auto kernel = &fmha_fwd_kernel<kBlockM, kBlockN, kHeadDim, Is_causal>;
    kernel<<<grid, kBlockM * 2, 0, stream>>>(params);
  });
}

void run_mha_fwd(Params& params, int head_dim, cudaStream_t stream) {
  if (head_dim == 32) {
    run_fmha_fwd<32>(params, stream);
  } else if (head_dim == 64) {
    run_fmha_fwd<64>(params, stream);
  }
}

}  // namespace fmha
